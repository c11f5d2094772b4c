"""Whether a cluster does its work, asked on the cluster itself."""
