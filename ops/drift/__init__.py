"""Whether what stands is what the file says."""
