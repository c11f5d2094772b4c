"""The resource policy of a REST API does not bind the account's root user.

On AWS an explicit Deny binds every principal of the account, so that only the API user role may call the
ParallelCluster API. The twelve-digit access keys of this emulator are root keys, whose signature ministack does not
check: they are held to the policy like everyone else.
"""

from __future__ import annotations

from typing import Any

from ministack.core import iam_evaluator
from ministack.core.responses import get_account_id
from ministack.services import apigateway_v1


def install() -> None:
    """Ask the API's policy about root too."""
    original = iam_evaluator.enforce

    def enforce(  # noqa: PLR0917 - ministack's own signature
        access_key: str,
        action: str,
        service: str,
        region: str,
        resource_arn: str = "*",
        service_context: dict[str, Any] | None = None,
    ) -> Any:
        denied = original(
            access_key, action, service, region, resource_arn=resource_arn, service_context=service_context
        )
        if denied is not None or action != "execute-api:Invoke" or not iam_evaluator._is_root_key(access_key or ""):
            return denied
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
