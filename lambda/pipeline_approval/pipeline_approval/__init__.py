"""Answers approvals of a pipeline where the verdict needs no person."""
