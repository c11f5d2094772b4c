"""The local default: an emulated AWS on loopback with the genuine ParallelCluster API. No product code knows of it."""
