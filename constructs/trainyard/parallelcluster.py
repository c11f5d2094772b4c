"""The ParallelCluster release that Trainyard deploys, pinned only in parallelcluster/pyproject.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path

from settings.regions import domain_suffix

_PROJECT = Path(__file__).parents[2] / "parallelcluster" / "pyproject.toml"


@functools.cache
def version() -> str:
    """The pinned version, such as "3.16.1".

    Raises:
        ValueError: parallelcluster/pyproject.toml does not pin aws-parallelcluster to one version.
    """
    wanted = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    pins = [pin[1] for one in wanted if (pin := re.fullmatch(r"aws-parallelcluster\s*==\s*([\w.]+)", one))]
    if len(pins) != 1:
        raise ValueError(
            "parallelcluster/pyproject.toml must pin aws-parallelcluster to one version, as in "
            f"aws-parallelcluster==3.16.1; it depends on {', '.join(wanted)}."
        )
    return str(pins[0])


def api_template_url(region: str) -> str:
    """Where AWS publishes the CloudFormation template of the pinned version's API in a region.

    The path is that of the ParallelCluster documentation, "Deploy the ParallelCluster API with AWS CloudFormation".
    """
    host = f"{region}-aws-parallelcluster.s3.{region}.{domain_suffix(region)}"
    return f"https://{host}/parallelcluster/{version()}/api/parallelcluster-api.yaml"
