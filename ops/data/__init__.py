"""Data sets in the environment's buckets: push, list, verify, sample, pull; exported checkpoints; temporary files."""

ACTIONS = (
    "cloudformation:ListStackResources",
    "fsx:DescribeDataRepositoryAssociations",
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
    "sts:GetCallerIdentity",
)
"""IAM actions of the commands."""
