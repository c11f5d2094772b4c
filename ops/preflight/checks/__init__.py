"""The checks, one subject a file. Each is a function from a `Question` to lines."""
