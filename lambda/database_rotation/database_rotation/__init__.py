"""Rotation of the accounting database's password, without a connection to the database."""
