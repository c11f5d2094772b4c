"""EC2 beyond what ministack brings: what the region offers, images, reservations, instances."""
