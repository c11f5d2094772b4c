"""The ParallelCluster release that Trainyard deploys, pinned only in parallelcluster/pyproject.toml."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from settings.regions import domain_suffix

PACKAGE = "aws-parallelcluster"
_PROJECT = Path(__file__).parents[2] / "parallelcluster" / "pyproject.toml"


@functools.cache
def version() -> str:
    """The pinned version, such as "3.16.1".

    Raises:
        ValueError: parallelcluster/pyproject.toml does not pin aws-parallelcluster to one version.
    """
    requirements: list[str] = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    pins = [text.partition("==") for text in requirements if text.replace(" ", "").startswith(f"{PACKAGE}==")]
    if len(pins) != 1:
        raise ValueError(
            f"{_PROJECT.parent.name}/{_PROJECT.name} must pin {PACKAGE} to one version, as in {PACKAGE}==3.16.1; "
            f"its dependencies are {', '.join(requirements)}."
        )
    return pins[0][2].strip()


def api_template_url(region: str) -> str:
    """Where AWS publishes the CloudFormation template of the pinned version's API in a region.

    The path is that of the ParallelCluster documentation, "Deploy the ParallelCluster API with AWS CloudFormation".
    """
    host = f"{region}-aws-parallelcluster.s3.{region}.{domain_suffix(region)}"
    return f"https://{host}/parallelcluster/{version()}/api/parallelcluster-api.yaml"
