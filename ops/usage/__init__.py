"""`trainyard cost`: who used a cluster, and what that cost."""
