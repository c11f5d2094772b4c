"""Stacks without CloudFormation, for the parts that compare."""

from collections.abc import Mapping
from typing import Any

from ops.drift.deployed_stack import DeployedStack, Resource

ACCOUNT, REGION = "111122223333", "us-east-1"


def stack_of(
    resources: Mapping[str, tuple[str, str, Mapping[str, Any]]],
    *,
    name: str = "demo",
    exports: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
    status: str = "CREATE_COMPLETE",
) -> DeployedStack:
    """A stack whose resources are given as logical id: (type, physical id, properties)."""
    return DeployedStack(
        name=name,
        id=f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/1",
        status=status,
        resources={key: Resource(key, kind, physical) for key, (kind, physical, _) in resources.items()},
        outputs=outputs or {},
        exports=exports or {},
        parameters={},
        tags=tags or {},
        template={
            "Resources": {key: {"Type": kind, "Properties": given} for key, (kind, _, given) in resources.items()}
        },
    )
