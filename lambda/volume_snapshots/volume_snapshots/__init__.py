"""Scheduled snapshots of FSx for OpenZFS volumes, which FSx itself cannot make."""
