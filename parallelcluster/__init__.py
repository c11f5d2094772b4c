"""The genuine ParallelCluster package at work without an AWS account. Runs in this folder's own environment."""
