"""The environment's stacks, and what an earlier run left: unfinished operations, data in buckets, kept resources."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import WaiterError

from ops.problem import Problem
from settings.stacks import ENVIRONMENT_TAG, STACKS, stack_name

if TYPE_CHECKING:
    import boto3
    from rich.console import Console
    from types_boto3_cloudformation.type_defs import StackEventTypeDef, StackResourceSummaryTypeDef

    from settings import Environment

SETTLE_S = 300
"""On the emulated AWS."""

SETTLE_ON_AWS_S = 4 * 3600
"""On AWS: longer than file systems, their associations and a cluster take one after the other."""

POLL_S = 2.0
_GONE = ("DELETE_COMPLETE", "CREATE_FAILED")
"""States of resources that CloudFormation still lists and that do not exist."""


def stacks_of(account: boto3.Session, environment: Environment) -> list[dict[str, Any]]:
    """The environment's stacks with those nested in them, newest first."""
    client = account.client("cloudformation")
    pages = client.get_paginator("describe_stacks").paginate()
    found = [dict(stack) for page in pages for stack in page["Stacks"] if stack["StackStatus"] != "DELETE_COMPLETE"]
    names = {stack_name(environment, part) for part in STACKS}
    own = {stack["StackId"] for stack in found if stack["StackName"] in names and "RootId" not in stack}
    return [stack for stack in found if stack.get("RootId", stack["StackId"]) in own]


def resources_of(account: boto3.Session, stack: str) -> Iterator[StackResourceSummaryTypeDef]:
    """All resources that CloudFormation lists of a stack; describe_stack_resources gives a hundred of them."""
    pages = account.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    return (resource for page in pages for resource in page["StackResourceSummaries"])


def existing(account: boto3.Session, stack: str) -> Iterator[StackResourceSummaryTypeDef]:
    """The resources of a stack that exist."""
    listed = resources_of(account, stack)
    return (item for item in listed if item.get("PhysicalResourceId") and item["ResourceStatus"] not in _GONE)


def is_promotion(stack: Mapping[str, Any], environment: Environment) -> bool:
    """Whether it is the stack with the roles of a promotion, which the app of the environment does not have."""
    return bool(stack["StackName"] == stack_name(environment, "promotion"))


Operations = Mapping[str, tuple[object, ...]]
"""By the id of a stack: what changes with each operation on it."""


def operations(account: boto3.Session, environment: Environment) -> Operations:
    """The last operation on each stack, to be compared with those after a run. Their times are AWS's, not ours."""
    keys = ("StackStatus", "LastUpdatedTime", "DeletionTime")
    return {stack["StackId"]: tuple(map(stack.get, keys)) for stack in stacks_of(account, environment)}


def require_own(account: boto3.Session, environment: Environment) -> None:
    """Return if all stacks with the environment's names have its tag.

    Raises:
        Problem: another application has a stack of such a name.
    """
    for stack in stacks_of(account, environment):
        tags = {tag["Key"]: tag["Value"] for tag in stack.get("Tags", [])}
        if "RootId" not in stack and tags.get(ENVIRONMENT_TAG) != environment.name:
            raise Problem(
                f"The stack {stack['StackName']} in {environment.account}, {environment.region}, is not of the "
                f"environment {environment.name!r}: it has no tag {ENVIRONMENT_TAG}={environment.name}. Nothing was "
                "changed. Choose another `name` in the environment file."
            )


def settle(account: boto3.Session, environment: Environment, console: Console, seconds: int = SETTLE_S) -> None:
    """Wait for stack operations of an interrupted run.

    Raises:
        Problem: a stack is still in progress after `seconds`.
    """
    end = time.monotonic() + seconds
    shown: set[str] = set()
    while busy := [s for s in stacks_of(account, environment) if s["StackStatus"].endswith("_IN_PROGRESS")]:
        waiting = [s for s in busy if s["StackStatus"] != "REVIEW_IN_PROGRESS"]
        if not waiting:
            break
        for stack in waiting:
            if stack["StackName"] not in shown:
                shown.add(stack["StackName"])
                console.print(f"{stack['StackName']} is still {stack['StackStatus']} from an earlier run: waiting")
        if time.monotonic() > end:
            names = ", ".join(f"{s['StackName']} ({s['StackStatus']})" for s in waiting)
            raise Problem(
                f"These stacks are still in progress after {seconds} s: {names}.\nWait and run the command again."
            )
        time.sleep(POLL_S)


def finish_rollbacks(account: boto3.Session, environment: Environment, console: Console, seconds: int) -> None:
    """Finish failed rollbacks, so that CloudFormation accepts a new deployment.

    Raises:
        Problem: a removal has failed, after which CloudFormation accepts only another removal.
    """
    client = account.client("cloudformation")
    existing = stacks_of(account, environment)
    if left := [stack["StackName"] for stack in existing if stack["StackStatus"] == "DELETE_FAILED"]:
        raise Problem(
            f"The removal of these stacks did not finish (DELETE_FAILED): {', '.join(left)}. CloudFormation updates no "
            "stack in this state.\nFinish it with trainyard down, then run trainyard up again."
        )
    for stack in existing:
        # A nested stack's rollback continues with its parent's.
        if stack["StackStatus"] == "UPDATE_ROLLBACK_FAILED" and "ParentId" not in stack:
            console.print(f"{stack['StackName']} is in UPDATE_ROLLBACK_FAILED from an earlier run: rolling it back")
            client.continue_update_rollback(StackName=stack["StackName"])
            try:
                client.get_waiter("stack_rollback_complete").wait(
                    StackName=stack["StackName"], WaiterConfig={"Delay": 2, "MaxAttempts": seconds // 2}
                )
            except WaiterError as error:
                raise Problem(
                    f"The rollback of {stack['StackName']} did not complete: {error}\nThe reason is in its events: "
                    f"aws cloudformation describe-stack-events --stack-name {stack['StackName']}"
                ) from error


def failure_reasons(account: boto3.Session, environment: Environment, before: Operations) -> list[str]:
    """The first failure of each stack that failed since `before`, in CloudFormation's words, without cancellations."""
    client = account.client("cloudformation")
    now = operations(account, environment)
    reasons = []
    for stack in stacks_of(account, environment):
        if before.get(stack["StackId"]) == now.get(stack["StackId"]):
            continue
        pages = client.get_paginator("describe_stack_events").paginate(StackName=stack["StackName"])
        newest_first = (event for page in pages for event in page["StackEvents"])
        for event in reversed(list(_of_the_last_operation(newest_first))):
            reason = event.get("ResourceStatusReason", "")
            # An export in use fails no resource: the event of the stack itself has the reason (aws/aws-cdk#7602).
            own = event["PhysicalResourceId"] == event["StackId"] and bool(reason)
            refused = own and event["ResourceStatus"].endswith("ROLLBACK_IN_PROGRESS")
            if (refused or event["ResourceStatus"].endswith("_FAILED")) and "cancelled" not in reason.lower():
                reasons.append(
                    f"{stack['StackName']}: {event['LogicalResourceId']} ({event['ResourceType']}): {reason}"
                )
                break
    return reasons


def _of_the_last_operation(newest_first: Iterable[StackEventTypeDef]) -> Iterator[StackEventTypeDef]:
    # Back to the event with which the last create, update or delete of the stack itself began.
    for event in newest_first:
        yield event
        began = event["ResourceStatus"] in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
        if began and event["PhysicalResourceId"] == event["StackId"]:
            return


def empty_bucket(account: boto3.Session, name: str) -> None:
    """Delete every version of every object.

    Raises:
        Problem: S3 refuses to delete some, which it reports in an answer of status 200.
    """
    for answer in account.resource("s3").Bucket(name).object_versions.delete():
        for error in answer.get("Errors", []):
            raise Problem(
                f"s3://{name} cannot be emptied: {error.get('Key')}: {error.get('Code')} {error.get('Message')}"
            )


def allow_deletion(account: boto3.Session, environment: Environment, statuses: tuple[str, ...] = ()) -> None:
    """Disable the termination protection of the environment's stacks; only of those in `statuses`, if any are given.

    Without `statuses`, also the deletion protection of their databases, of which CloudFormation takes a snapshot.
    The promotion stack keeps its own: it is deployed with the pipeline, not with the environment.
    """
    client = account.client("cloudformation")
    for stack in stacks_of(account, environment):
        wanted = not statuses or stack["StackStatus"] in statuses
        if wanted and stack.get("EnableTerminationProtection") and not is_promotion(stack, environment):
            client.update_termination_protection(StackName=stack["StackName"], EnableTerminationProtection=False)
        if stack["StackName"] == stack_name(environment, "database") and not statuses:
            for item in existing(account, stack["StackName"]):
                if item["ResourceType"] == "AWS::RDS::DBCluster":
                    rds = account.client("rds")
                    with suppress(rds.exceptions.DBClusterNotFoundFault):  # deleted by hand
                        rds.modify_db_cluster(
                            DBClusterIdentifier=item["PhysicalResourceId"],
                            DeletionProtection=False,
                            ApplyImmediately=True,
                        )
