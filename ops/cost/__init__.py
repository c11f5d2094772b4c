"""What an environment costs before it runs: prices, an estimate by resource, and the difference that a change makes."""
