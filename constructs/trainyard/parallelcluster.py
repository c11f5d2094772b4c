"""The ParallelCluster release that Trainyard deploys, pinned only in parallelcluster/pyproject.toml."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from settings.regions import domain_suffix

_FOLDER = Path(__file__).parents[2] / "parallelcluster"
_PROJECT = _FOLDER / "pyproject.toml"


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
            f"aws-parallelcluster==1.2.3; it depends on {', '.join(wanted)}."
        )
    return str(pins[0])


def api_template_url(region: str) -> str:
    """Where AWS publishes the CloudFormation template of the pinned version's API in a region.

    The path is that of the ParallelCluster documentation, "Deploy the ParallelCluster API with AWS CloudFormation".
    """
    host = f"{region}-aws-parallelcluster.s3.{region}.{domain_suffix(region)}"
    return f"https://{host}/parallelcluster/{version()}/api/parallelcluster-api.yaml"


@functools.cache
def facts(name: str) -> dict[str, Any]:
    """Facts about ParallelCluster from its sources: parallelcluster/facts/<name>.json, whose head names the source."""
    found: dict[str, Any] = json.loads((_FOLDER / "facts" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def aurora_version(version: str) -> str:
    """A version of Aurora MySQL as RDS writes it, such as 8.0.mysql_aurora.3.10.4."""
    return f"{facts('database')['engine_version']}.mysql_aurora.{version}"


def user_role_pattern() -> str:
    """The name of the API user role, with * for the id of the API's stack (facts: api.json)."""
    name, _ = facts("api")["user_role_name"]["Fn::Sub"]
    return str(name).replace("${IAMRoleAndPolicyPrefix}", "").replace("${StackIdSuffix}", "*")
