"""One configuration through the genuine schema, validators and template builder."""

from __future__ import annotations

import collections
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from marshmallow import ValidationError
from pcluster.config.cluster_config import BaseClusterConfig
from pcluster.models.s3_bucket import S3Bucket
from pcluster.schemas.cluster_schema import ClusterSchema
from pcluster.templates.cdk_builder import CDKTemplateBuilder
from pcluster.validators.common import ValidatorContext

from parallelcluster.account import Account, account_for, region_of
from parallelcluster.aws import answered

# The package logs each refused call as an error, and the validators report the same.
logging.getLogger("pcluster").setLevel(logging.CRITICAL)

_ARTIFACTS = "cluster-artifacts"


@dataclass(frozen=True)
class Message:
    """A validator's message. `level` is INFO, WARNING or ERROR, `type` the validator's class name."""

    level: str
    type: str
    message: str


@dataclass
class Report:
    """The findings.

    Attributes:
        schema: errors of the schema by key, as ParallelCluster nests them; with any, nothing else was tried.
        messages: the validators' messages; with an ERROR, no template was built.
        resources: how many resources of which type the cluster's templates have, nested stacks included.
        template: the cluster's own template.
    """

    schema: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    resources: dict[str, int] = field(default_factory=dict)
    template: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether neither the schema nor a validator found an error."""
        return not self.schema and all(message.level != "ERROR" for message in self.messages)

    def summary(self) -> dict[str, Any]:
        """All but the template, as JSON."""
        return {
            "ok": self.ok,
            "schema": self.schema,
            "messages": [asdict(message) for message in self.messages],
            "resources": self.resources,
        }


def check(name: str, configuration: Mapping[str, Any], overrides: Mapping[str, Any]) -> Report:
    """Check `configuration` of the cluster `name` in the account that it describes, with `overrides` (account.py).

    Raises:
        AccountError: the overrides do not fit.
    """
    # The schema first, in an empty account: a wrong shape cannot be searched for what it names.
    with answered(Account(region_of(configuration))):
        try:
            ClusterSchema(cluster_name=name).load(_copy(configuration))
        except ValidationError as error:
            messages = error.messages
            return Report(schema=messages if isinstance(messages, dict) else {"_schema": messages})
    with answered(account_for(configuration, overrides)):
        return _checked(name, configuration)


def _checked(name: str, configuration: Mapping[str, Any]) -> Report:
    cluster = ClusterSchema(cluster_name=name).load(_copy(configuration))
    report = Report()
    try:
        results = cluster.validate(set(), ValidatorContext())
    except Exception as error:
        # Some look-ups are made outside of the validators (AMIs, instance types, reservations); AWS's error is the
        # finding. The API answers it with a 400.
        report.messages.append(Message("ERROR", type(error).__name__, str(error)))
        return report
    report.messages = [Message(str(r.level), r.validator_type, r.message) for r in results]
    if report.ok:
        _build(name, cluster, report)
    return report


def _build(name: str, cluster: BaseClusterConfig, report: Report) -> None:
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
