"""Drift: resources that differ from what was deployed."""
