"""Checks of a running cluster, as jobs on its own nodes."""
