"""AWS's refusals as Problems."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError

from ops.problem import Problem

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException")


def of_aws(error: ClientError | BotoCoreError, permission: str, resource: str) -> Problem:
    """AWS's refusal in words.

    Args:
        permission: the IAM action that the call needs.
        resource: what it was asked of.
    """
    if isinstance(error, BotoCoreError):
        return Problem(
            f"AWS cannot be asked: {error}\nCheck region, network and credentials (aws sts get-caller-identity)."
        )
    code, said = error.response.get("Error", {}).get("Code", ""), error.response.get("Error", {}).get("Message", "")
    if code in _DENIED:
        return Problem(
            f"These credentials may not do {permission} on {resource}: {said}\n"
            "Allow the actions of constructs/trainyard/pipeline/actions.py (docs/validation.md)."
        )
    if code in _EXPIRED:
        return Problem(
            f"AWS does not take these credentials ({code}): {said}\nGet new ones (aws sts get-caller-identity)."
        )
    return Problem(f"{permission} on {resource} was refused ({code}): {said}")
