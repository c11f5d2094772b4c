"""The effects of a change, reported before it is deployed (docs/review.md)."""
