"""Repairs of IAM: condition keys, AWS's managed policies, resource policies of REST APIs, sessions of many threads."""

from __future__ import annotations

import ast
import json
import threading
from typing import Any

from ministack.core import iam_actions, iam_evaluator
from ministack.core.responses import get_account_id
from ministack.services import apigateway_v1, ec2, iam, sts

from local.emulator.service import installed

_INSTANCE_TAGS = ("ec2:resourcetag/", "ssm:resourcetag/", "aws:resourcetag/")


def install() -> None:
    """Carry out the repairs."""
    _condition_keys()
    _send_command()
    _budgets()
    _managed_policies()
    _root_at_the_api()
    _sessions_of_threads()


def _condition_keys() -> None:
    # core/iam_evaluator.py:199 does not resolve these keys, or resolves them differently:
    # - aws:SecureTransport is true: the emulator is plain HTTP on loopback, where AWS has TLS.
    # - aws:PrincipalArn of a session is its role's ARN, so a policy can name the role.
    # - iam:ResourceTag: CDK's pipeline steps may assume the bootstrap roles by their tag only.
    # - ec2:ResourceTag of an instance: ParallelCluster's clean-up may terminate its own cluster's nodes only.
    original = iam_evaluator._resolve_condition_key

    def resolve(key: str, context: Any) -> Any:
        name, resource = key.lower(), str(context.resource_arn)
        if name == "aws:securetransport":
            return "true"
        if name == "aws:principalarn":
            return _role_of(original(key, context))
        if name.startswith("iam:resourcetag/") and ":role/" in resource:
            role = _role(resource.split(":")[4], resource.rpartition("/")[2]) or {}
            return _tag(role.get("Tags") or [], name)
        if name.startswith(_INSTANCE_TAGS) and resource.startswith("arn:aws:ec2:") and ":instance/" in resource:
            return _tag(ec2._tags.get(resource.rpartition("/")[2], []), name)
        return original(key, context)

    iam_evaluator._resolve_condition_key = resolve


def _sessions_of_threads() -> None:
    # services/sts.py:64 looks through the sessions while another thread adds one: "dictionary changed size during
    # iteration". A function that starts at that moment fails, and CloudFormation waits an hour for its answer.
    original, lock = sts.register_session, threading.Lock()

    def register(access_key: str, session: dict[str, Any]) -> None:
        with lock:
            original(access_key, session)

    sts.register_session = register


def _role(account: str, name: str) -> dict[str, Any] | None:
    role: dict[str, Any] | None = iam._roles.get_scoped(account, None, name)
    return role


def _role_of(principal: Any) -> Any:
    before, session, rest = str(principal).partition(":assumed-role/")
    role = _role(before.split(":")[4], rest.partition("/")[0]) if session else None
    return role["Arn"] if role else principal


def _tag(tags: list[dict[str, str]], key: str) -> str | None:
    wanted = key.partition("/")[2]
    return next((tag["Value"] for tag in tags if tag["Key"].lower() == wanted), None)


def _send_command() -> None:
    # core/iam_actions.py:1065 authorizes ssm:SendCommand on *, AWS on the instance and on the document.
    original = iam_actions.extract_resource_arn

    def extract(service: str, method: str, path: str, headers: dict[str, str], body: bytes, *rest: Any) -> Any:
        if service == "ssm" and headers.get("x-amz-target", "").endswith(".SendCommand"):
            instances = json.loads(body or b"{}").get("InstanceIds")
            if instances:
                _query, region, account = rest
                return f"arn:aws:ec2:{region}:{account}:instance/{instances[0]}"
        return original(service, method, path, headers, body, *rest)

    iam_actions.extract_resource_arn = extract


def _budgets() -> None:
    # core/iam_actions.py:739 and :1065 authorize each operation under its own name on *. AWS has two actions for them,
    # on the budget (Service Authorization Reference, AWS Budget Service).
    action_of, resource_of = iam_actions.extract_iam_action, iam_actions.extract_resource_arn

    def action(service: str, *rest: Any) -> Any:
        found = action_of(service, *rest)
        if service != "budgets" or not found or "Tag" in found:
            return found
        return "budgets:ViewBudget" if ":Describe" in found else "budgets:ModifyBudget"

    def resource(service: str, method: str, path: str, headers: dict[str, str], body: bytes, *rest: Any) -> Any:
        if service == "budgets":
            given = json.loads(body or b"{}")
            name = given.get("BudgetName") or (given.get("Budget") or given.get("NewBudget") or {}).get("BudgetName")
            return given.get("ResourceARN") or f"arn:aws:budgets::{rest[2]}:budget/{name or '*'}"
        return resource_of(service, method, path, headers, body, *rest)

    iam_actions.extract_iam_action, iam_actions.extract_resource_arn = action, resource


def _managed_policies() -> None:
    # services/iam.py has a few of AWS's managed policies. The others come from moto's record of them, read as data.
    source = (installed("moto") / "iam" / "aws_managed_policies.py").read_text()
    text = next(
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    for name, entry in json.loads(text).items():
        arn = entry.get("Arn") or f"arn:aws:iam::aws:policy{entry.get('Path', '/')}{name}"
        if arn not in iam._aws_managed_policies:
            resource = arn.removeprefix("arn:aws:iam::aws:policy/")
            iam._aws_managed_policies[arn] = iam._make_aws_managed_record(resource, json.dumps(entry["Document"]))


def _root_at_the_api() -> None:
    # core/iam_evaluator.py:1655 lets root keys (here every twelve-digit access key) pass a REST API's resource policy.
    # On AWS an explicit Deny binds root too, so that only the API user role may call the ParallelCluster API.
    original = iam_evaluator.enforce

    def enforce(access_key: str, action: str, *rest: Any, **named: Any) -> Any:
        denied = original(access_key, action, *rest, **named)
        if denied is not None or action != "execute-api:Invoke" or not iam_evaluator._is_root_key(access_key or ""):
            return denied
        _service, region = rest[:2]
        resource_arn = named.get("resource_arn", "*")
        policy, owner = apigateway_v1.rest_api_policy_for_arn(resource_arn) or ("", "")
        if not policy:
            return None
        root = f"arn:aws:iam::{get_account_id()}:root"
        context = iam_evaluator.EvalContext(root, "Account", get_account_id(), action, resource_arn, region)
        result = iam_evaluator.evaluate_resource_policy(policy, context)
        if result.decision != "Deny":
            return None
        result.principal_arn, result.resource_policy_arn = root, f"arn:aws:execute-api:{region}:{owner}"
        return result

    iam_evaluator.enforce = enforce
