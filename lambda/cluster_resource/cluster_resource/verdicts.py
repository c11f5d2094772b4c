"""What CloudFormation is told: the attributes of a success, the reason of a failure."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cluster_resource import identity, report
from cluster_resource.api import ClusterView
from cluster_resource.properties import claimed_name, request_of
from cluster_resource.response import room_for_reason
from cluster_resource.work_item import Verdict, Work

_LOG = logging.getLogger(__name__)
_NONE = "none"
ATTRIBUTES = (
    *("ClusterName", "HeadNodeInstanceId", "HeadNodePrivateIp", "StackArn", "Status", "Version"),
    "Execution",
)


def success(work: Work, view: ClusterView | None, why: str) -> Verdict:
    _LOG.info("%s succeeded: %s", work.operation, why)
    data = attributes(view, work.execution) if work.operation != "delete" and view else {}
    verdict = Verdict("SUCCESS", work.physical_id, "", data)
    return replace(verdict, reason=room_for_reason(work.event, verdict).cut(why, ""))


def early(work: Work, name: str) -> Verdict:
    """The answer for the time being, where another resource waits on for the verdict. The cluster may still change."""
    why = f"The work on the cluster {name} goes on: {work.progress.note or 'it has begun'}. Another resource waits on."
    data = without_cluster(name, work.execution)
    verdict = Verdict("SUCCESS", work.physical_id, "", data)
    return replace(verdict, reason=room_for_reason(work.event, verdict).cut(why, ""))


def without_cluster(name: str, execution: str) -> dict[str, str]:
    """The attributes where there is no cluster (yet) to take them from."""
    return dict.fromkeys(ATTRIBUTES, _NONE) | {"ClusterName": name, "Execution": execution or _NONE}


def attributes(view: ClusterView, execution: str) -> dict[str, str]:
    """The resource's attributes. Each has a value: a missing one would fail every stack that refers to it."""
    return {
        "ClusterName": view.name,
        "HeadNodeInstanceId": view.head_node_instance_id or _NONE,
        "HeadNodePrivateIp": view.head_node_private_ip or _NONE,
        "StackArn": view.stack_arn,
        "Status": view.status,
        "Version": view.version,
        "Execution": execution or _NONE,
    }


def failed_verdict(event: Mapping[str, Any], what: str, todo: str, *, asked: bool) -> Verdict:
    """The answer where no step came to a verdict: broken properties, or a crash of ours.

    Args:
        event: the CloudFormation event.
        what: what failed.
        todo: what the user can do.
        asked: whether the API may have been asked to create a cluster; the Delete that follows then looks for one.
    """
    request = request_of(event)
    name = claimed_name(event)
    identifier = request.physical_id
    if identifier is None and name and asked:
        identifier = identity.physical_id(name, request.stack_id, request.logical_id)
    verdict = Verdict("FAILED", identifier or identity.not_created_id(name or "unnamed"), "")
    failure = report.Report(what, f"To do: {todo}")
    failure.log()
    return replace(verdict, reason=failure.text(room_for_reason(event, verdict)))
