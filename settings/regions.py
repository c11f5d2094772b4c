"""Partitions of AWS regions."""

from __future__ import annotations


def partition(region: str) -> str:
    """The partition of a region: "aws", "aws-cn" or "aws-us-gov"."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def domain_suffix(region: str) -> str:
    """The domain of AWS endpoints in a region's partition."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
