"""The commands of the local default."""
