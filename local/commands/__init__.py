"""Commands that run on this machine."""
