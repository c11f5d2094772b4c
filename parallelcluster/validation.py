"""One configuration through the genuine schema, validators and template builder."""

from __future__ import annotations

import collections
import json
import logging
from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError
from pcluster.config.cluster_config import BaseClusterConfig
from pcluster.models.s3_bucket import S3Bucket
from pcluster.schemas.cluster_schema import ClusterSchema
from pcluster.templates.cdk_builder import CDKTemplateBuilder
from pcluster.validators.common import ValidatorContext

from parallelcluster.report import Message, Report
from parallelcluster.seeds import Seeds, region_of, seeds_for
from parallelcluster.world import make_bucket, world

# The package logs each refused call as an error; the validators say the same in their messages.
logging.getLogger("pcluster").setLevel(logging.CRITICAL)

_ARTIFACTS = "cluster-artifacts"


def check(name: str, configuration: Mapping[str, Any], overrides: Mapping[str, Any]) -> Report:
    """Check `configuration` of the cluster `name` in the world that it speaks of, with `overrides` (see `seeds`).

    Raises:
        SeedError: the overrides make no world.
    """
    # The schema first, in an empty world: in a wrong shape one cannot look for what the configuration names.
    with world(Seeds(region=region_of(configuration, overrides))):
        try:
            ClusterSchema(cluster_name=name).load(_copy(configuration))
        except ValidationError as error:
            messages = error.messages
            return Report(schema=messages if isinstance(messages, dict) else {"_schema": messages})
    seeds = seeds_for(configuration, overrides)
    with world(seeds):
        return _checked(name, configuration, seeds)


def _checked(name: str, configuration: Mapping[str, Any], seeds: Seeds) -> Report:
    cluster = ClusterSchema(cluster_name=name).load(_copy(configuration))
    report = Report()
    try:
        results = cluster.validate(set(), ValidatorContext())
    except Exception as error:
        # Some lookups are made outside of the validators: of AMIs, instance types, reservations. What AWS says to
        # them is the finding; the API answers it with a 400.
        report.messages.append(Message("ERROR", type(error).__name__, str(error)))
        return report
    report.messages = [Message(str(r.level), r.validator_type, r.message) for r in results]
    if report.ok:
        _build(name, cluster, seeds, report)
    return report


def _build(name: str, cluster: BaseClusterConfig, seeds: Seeds, report: Report) -> None:
    make_bucket(_ARTIFACTS, seeds.region)
    bucket = S3Bucket(service_name=name, stack_name=name, artifact_directory=name, name=_ARTIFACTS)
    template, assets = CDKTemplateBuilder().build_cluster_template(cluster, bucket, name)
    nested = [asset["content"] for asset in assets]
    report.template = template
    report.resources = dict(
        sorted(
            collections.Counter(
                resource["Type"] for part in (template, *nested) for resource in part["Resources"].values()
            ).items()
        )
    )


def _copy(configuration: Mapping[str, Any]) -> dict[str, Any]:
    # The schema takes its input apart, and must see what the API would: plain JSON.
    copied: dict[str, Any] = json.loads(json.dumps(configuration))
    return copied
