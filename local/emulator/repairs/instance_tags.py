"""Conditions on an instance's tags are never true, and SendCommand is authorized on no instance.

ParallelCluster's clean-up may terminate the nodes of its cluster alone, by ec2:ResourceTag; it would try for ever.
"""

from __future__ import annotations

import json
from typing import Any

from ministack.core import iam_actions, iam_evaluator
from ministack.services import ec2

_KEYS = ("ec2:resourcetag/", "ssm:resourcetag/", "aws:resourcetag/")


def install() -> None:
    """Answer such conditions from the instance that a request names."""
    resolve_others = iam_evaluator._resolve_condition_key
    extract_others = iam_actions.extract_resource_arn

    def resolve(key: str, context: Any) -> Any:
        _, found, instance_id = str(context.resource_arn).partition(":instance/")
        prefix = next((item for item in _KEYS if key.lower().startswith(item)), None)
        if prefix and found and str(context.resource_arn).startswith("arn:aws:ec2:"):
            wanted = key[len(prefix) :].lower()
            tags = ec2._tags.get(instance_id, [])
            return next((tag["Value"] for tag in tags if tag["Key"].lower() == wanted), None)
        return resolve_others(key, context)

    def extract(service: str, method: str, path: str, headers: dict[str, str], body: bytes, *rest: Any) -> Any:
        if service == "ssm" and headers.get("x-amz-target", "").endswith(".SendCommand"):
            instances = json.loads(body or b"{}").get("InstanceIds")
            if instances:
                _query, region, account = rest
                return f"arn:aws:ec2:{region}:{account}:instance/{instances[0]}"
        return extract_others(service, method, path, headers, body, *rest)

    iam_evaluator._resolve_condition_key = resolve
    iam_actions.extract_resource_arn = extract
