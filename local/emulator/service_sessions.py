"""Sessions of roles that an AWS service assumes, as CodePipeline, CodeBuild and Lambda do.

The role's trust policy must allow the service, for the account and the resource for which the service acts
(aws:SourceAccount, aws:SourceArn).
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

from ministack.core.iam_evaluator import EvalContext, evaluate_trust_policy
from ministack.core.responses import get_region, request_scope
from ministack.services import iam, sts

from local.emulator.public_template import FUNCTION_ROLE

_SECONDS = 3600
_REFRESHED_SECONDS = 15 * 60 + 2
"""botocore replaces credentials that expire within 15 minutes, its advisory timeout: here, when two seconds old."""
_of_roles: dict[str, tuple[float, dict[str, Any]]] = {}
"""Sessions of the API's roles by the role's id: when they were made, and their keys."""


class SessionRefused(ValueError):
    """The role does not trust the service."""


def create(given: dict[str, Any]) -> dict[str, Any]:
    """Create a session.

    Args:
        given: {role_arn, service, source_arn}: the role, the service's principal, the resource for which it acts.
    """
    role_arn, service, source_arn = given["role_arn"], given["service"], given["source_arn"]
    account, name = role_arn.split(":")[4], role_arn.rpartition("/")[2]
    role = iam._roles.get_scoped(account, None, name)
    if role is None:
        raise SessionRefused(f"there is no role {role_arn}")
    # ministack's evaluator treats every service principal as the account's root, so only the statements that name this
    # service are evaluated.
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
    if not evaluate_trust_policy(_statements_on(role["AssumeRolePolicyDocument"], service), root, context):
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
            "Expiration": time.time() + _SECONDS,
            "AccountId": account,
            "PrincipalType": "AssumedRole",
        },
    )
    return {"key": key, "secret": secret, "token": token}


def of_api(account: str) -> dict[str, Any]:
    """Credentials for the ParallelCluster API of an account, in the format of a container's credentials.

    They are a session of the function's role that the newest API stack created, as Lambda would have it. Without an API
    stack they are the account's own. botocore replaces them when they are two seconds old, so a role that
    was replaced is not used for longer. The session of a role is used for half its time: ministack looks through all
    sessions for each new one.
    """
    until = datetime.fromtimestamp(time.time() + _REFRESHED_SECONDS, UTC).isoformat()
    with request_scope(account, get_region()):
        roles = [role for name, role in iam._roles.items() if FUNCTION_ROLE in name]
    if not roles:
        return {"AccessKeyId": account, "SecretAccessKey": "local", "Token": None, "Expiration": until}
    function = f"arn:aws:lambda:{get_region()}:{account}:function:ParallelClusterFunction"
    role, now = roles[-1], time.time()
    if now > _of_roles.get(role["RoleId"], (0.0, {}))[0] + _SECONDS / 2:
        given = {"role_arn": role["Arn"], "service": "lambda.amazonaws.com", "source_arn": function}
        _of_roles[role["RoleId"]] = now, create(given)
    keys = _of_roles[role["RoleId"]][1]
    return {"AccessKeyId": keys["key"], "SecretAccessKey": keys["secret"], "Token": keys["token"], "Expiration": until}


def _statements_on(policy: Any, service: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(policy) if isinstance(policy, str) else policy
    found = document["Statement"]
    statements = found if isinstance(found, list) else [found]
    return {**document, "Statement": [item for item in statements if service in _services(item)]}


def _services(statement: dict[str, Any]) -> list[str]:
    principal = statement.get("Principal", {})
    found = principal.get("Service", []) if isinstance(principal, dict) else []
    return [found] if isinstance(found, str) else list(found)
