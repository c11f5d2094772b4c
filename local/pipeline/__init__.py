"""Simulated promotion: runs the steps and deployments of a synthesized pipeline under their roles, in emulated AWS."""
