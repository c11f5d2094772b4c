"""Conditions on iam:ResourceTag are never true.

CDK Pipelines lets its steps assume the bootstrap roles by their tag, aws-cdk:bootstrap-role, and by nothing else.
"""

from __future__ import annotations

from typing import Any

from ministack.core import iam_evaluator
from ministack.services import iam

_KEY = "iam:resourcetag/"


def install() -> None:
    """Answer such conditions from the role that a request names."""
    resolve_others = iam_evaluator._resolve_condition_key

    def resolve(key: str, context: Any) -> Any:
        parts = str(context.resource_arn).split(":", 5)
        if key.lower().startswith(_KEY) and len(parts) == 6 and parts[2] == "iam" and parts[5].startswith("role/"):
            role = iam._roles.get_scoped(parts[4], None, parts[5].rpartition("/")[2]) or {}
            wanted = key[len(_KEY) :].lower()
            return next((tag["Value"] for tag in role.get("Tags") or [] if tag["Key"].lower() == wanted), None)
        return resolve_others(key, context)

    iam_evaluator._resolve_condition_key = resolve
