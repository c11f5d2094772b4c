"""Sessions of roles that a service of AWS takes on: what CodePipeline and CodeBuild do before they act for somebody.

A role's trust policy is judged as AWS judges it: by the service's name, and by the account and the resource for which
the service acts (aws:SourceAccount, aws:SourceArn).
"""

from __future__ import annotations

import json
import time
from typing import Any

from ministack.core.iam_evaluator import EvalContext, evaluate_trust_policy
from ministack.core.responses import get_region
from ministack.services import iam, sts

HOURS = 1


class SessionRefused(ValueError):
    """The role does not trust the service."""


def order(wish: dict[str, Any]) -> dict[str, Any]:
    """Make a session.

    Args:
        wish: {role_arn, service, source_arn}: the role, the service's principal, and the resource it acts for.
    """
    role_arn, service, source_arn = wish["role_arn"], wish["service"], wish["source_arn"]
    account, name = role_arn.split(":")[4], role_arn.rpartition("/")[2]
    role = iam._roles.get_scoped(account, None, name)
    if role is None:
        raise SessionRefused(f"there is no role {role_arn}")
    policy = role["AssumeRolePolicyDocument"]
    # To ministack any service is the account's root, so only statements about this one are shown to it.
    root = f"arn:aws:iam::{account}:root"
    context = EvalContext(
        principal_arn=root,
        principal_type="Service",
        principal_account=account,
        action="sts:AssumeRole",
        resource_arn=role_arn,
        region=get_region(),
        service_context={"aws:sourceaccount": source_arn.split(":")[4], "aws:sourcearn": source_arn},
    )
    if not evaluate_trust_policy(_only(policy, service), root, context):
        raise SessionRefused(f"{role_arn} does not let {service} act for {source_arn}")
    key, secret, token = sts._gen_session_access_key(), sts._gen_secret(), sts._gen_session_token()
    session = service.partition(".")[0]
    sts.register_session(
        key,
        {
            "Arn": f"arn:aws:sts::{account}:assumed-role/{name}/{session}",
            "UserId": f"{role.get('RoleId', name)}:{session}",
            "SecretAccessKey": secret,
            "SessionToken": token,
            "Expiration": time.time() + HOURS * 3600,
            "AccountId": account,
            "PrincipalType": "AssumedRole",
        },
    )
    return {"key": key, "secret": secret, "token": token}


def _only(policy: Any, service: str) -> dict[str, Any]:
    """The statements of a trust policy that are about one service."""
    document: dict[str, Any] = json.loads(policy) if isinstance(policy, str) else policy
    statements = document["Statement"] if isinstance(document["Statement"], list) else [document["Statement"]]
    return {**document, "Statement": [item for item in statements if service in _services(item)]}


def _services(statement: dict[str, Any]) -> list[str]:
    principal = statement.get("Principal", {})
    found = principal.get("Service", []) if isinstance(principal, dict) else []
    return [found] if isinstance(found, str) else list(found)
