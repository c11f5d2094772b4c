"""The pinned version and the address of its API's template."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from trainyard import parallelcluster

PROJECT = Path(__file__).parents[2] / "parallelcluster" / "pyproject.toml"


def test_the_version_is_the_pinned_one() -> None:
    dependencies = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["dependencies"]
    assert f"aws-parallelcluster=={parallelcluster.version()}" in dependencies


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-west-1", "eu-west-1-aws-parallelcluster.s3.eu-west-1.amazonaws.com"),
        ("us-gov-west-1", "us-gov-west-1-aws-parallelcluster.s3.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "cn-north-1-aws-parallelcluster.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_template_lies_in_the_bucket_of_the_region(region: str, host: str) -> None:
    expected = f"https://{host}/parallelcluster/{parallelcluster.version()}/api/parallelcluster-api.yaml"
    assert parallelcluster.api_template_url(region) == expected
