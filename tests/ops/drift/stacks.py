"""Stacks without CloudFormation, for the parts that compare."""

from collections.abc import Mapping
from typing import Any

import boto3
from botocore.stub import Stubber

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


def stubbed(service: str) -> tuple[Any, Stubber]:
    """A client that returns only stubbed responses, which botocore checks by its model."""
    client: Any = boto3.client(
        service,  # type: ignore[call-overload]
        region_name=REGION,
        aws_access_key_id="none",
        aws_secret_access_key="none",
    )
    stubber = Stubber(client)
    stubber.activate()
    return client, stubber
