"""Checks, before a deployment, that the account can run the environment."""
