"""The AWS budget of an environment, and what keeps Slurm from starting jobs while it is used up."""
