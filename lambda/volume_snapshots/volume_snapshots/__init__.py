"""Scheduled snapshots of FSx for OpenZFS volumes, which FSx does not offer."""
