"""Managed policies and instance profiles."""

from __future__ import annotations

import json
from typing import Any

from ministack.services import iam

Properties = dict[str, Any]


def _managed_policy(physical_id: str, _properties: Properties) -> Properties | None:
    record = iam._policies.get(physical_id)
    if record is None:
        return None
    document = record["Versions"][record["DefaultVersionId"]]["Document"]
    return {"PolicyDocument": json.loads(document) if isinstance(document, str) else document}


def _instance_profile(physical_id: str, _properties: Properties) -> Properties | None:
    return {} if physical_id in iam._instance_profiles else None


READERS = {
    "AWS::IAM::ManagedPolicy": (_managed_policy, ("PolicyDocument",)),
    "AWS::IAM::InstanceProfile": (_instance_profile, ()),
}
