"""aws:PrincipalArn of a session is that of the session.

On AWS it is that of the role, so that a policy can name the role for all of its sessions.
"""

from __future__ import annotations

from typing import Any

from ministack.core import iam_evaluator
from ministack.services import iam

_SESSION = ":assumed-role/"


def install() -> None:
    """Answer with the role of a session."""
    resolve_others = iam_evaluator._resolve_condition_key

    def resolve(key: str, context: Any) -> Any:
        found = resolve_others(key, context)
        if key.lower() != "aws:principalarn" or _SESSION not in str(found):
            return found
        account, name = found.split(":")[4], found.partition(_SESSION)[2].partition("/")[0]
        role = iam._roles.get_scoped(account, None, name)
        return role["Arn"] if role else found

    iam_evaluator._resolve_condition_key = resolve
