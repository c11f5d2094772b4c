"""Approves a pipeline's manual approvals if the verdict needs no person."""
