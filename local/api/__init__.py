"""The genuine ParallelCluster API on loopback."""
