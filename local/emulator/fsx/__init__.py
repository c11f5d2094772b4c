"""Amazon FSx: Lustre with data repository associations, OpenZFS with volumes and snapshots."""
