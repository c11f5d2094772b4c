"""Lambda handler of a schedule: keeps Slurm from starting jobs while the budget is used up.

In a new month, or after the budget was raised, Slurm starts jobs again.

It compares instead of waiting for the alert at 100 %: a message can be lost, and a start of the compute fleet sets the
partitions UP again (aws-parallelcluster-node 2e8f9a8, fleet_status_manager.py).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3

if TYPE_CHECKING:
    from types_boto3_sns.client import SNSClient
    from types_boto3_ssm.client import SSMClient

_LOG = logging.getLogger()
_LOG.setLevel(logging.INFO)
_POLLS, _PAUSE_S = 30, 2.0
_RUNNING = ("Pending", "InProgress", "Delayed")


class CommandError(Exception):
    """The head node did not carry out the command; the schedule tries again."""


class Place(NamedTuple):
    """Where to look, from the function's environment. `topic_arn` may be empty."""

    environment: str
    account: str
    budget: str
    document: str
    parameter: str
    topic_arn: str


class Clients(NamedTuple):
    budgets: Any
    ssm: SSMClient
    sns: SNSClient


def handler(event: object, context: object) -> str:  # noqa: ARG001 - the signature is Lambda's
    place = Place(*(os.environ[field.upper()] for field in Place._fields))
    return enforce(place, Clients(boto3.client("budgets"), boto3.client("ssm"), boto3.client("sns")))


def enforce(place: Place, clients: Clients, sleep: Callable[[float], None] = time.sleep) -> str:
    """Send `stop` or `resume` to the head node; report what changed, and return it.

    Raises:
        CommandError: the command failed on the head node, or did not end.
        ClientError: a call was refused, for example because the head node is not reachable.
    """
    found = clients.budgets.describe_budget(AccountId=place.account, BudgetName=place.budget)["Budget"]
    limit = float(found["BudgetLimit"]["Amount"])
    spent = float(found.get("CalculatedSpend", {}).get("ActualSpend", {}).get("Amount", 0))
    action = "stop" if spent >= limit else "resume"
    changed = _on_head_node(place, clients.ssm, action, sleep)
    _LOG.info("%.2f of %.2f USD: %s, changed: %s", spent, limit, action, changed or "nothing")
    if changed and place.topic_arn:
        what = "starts no further jobs; running jobs go on" if action == "stop" else "starts jobs again"
        how = " To go on this month, raise cost.budget.monthly_usd and deploy." if action == "stop" else ""
        clients.sns.publish(
            TopicArn=place.topic_arn,
            Subject=f"Budget of {place.environment}: new jobs {'stopped' if action == 'stop' else 'allowed'}"[:100],
            Message=f"${spent:,.2f} of ${limit:,.2f} are spent in {place.environment} this month. Slurm {what}. "
            f"Partitions: {changed}.{how}",
        )
    return f"{action}: {changed or 'nothing changed'}"


def _on_head_node(place: Place, ssm: SSMClient, action: str, sleep: Callable[[float], None]) -> str:
    """The partitions that the command changed, joined by commas."""
    instance = ssm.get_parameter(Name=place.parameter)["Parameter"]["Value"]
    sent = ssm.send_command(InstanceIds=[instance], DocumentName=place.document, Parameters={"Action": [action]})
    command = sent["Command"]["CommandId"]
    for _ in range(_POLLS):
        sleep(_PAUSE_S)
        try:
            answer = ssm.get_command_invocation(CommandId=command, InstanceId=instance)
        except ssm.exceptions.InvocationDoesNotExist:
            continue  # it has not reached the agent yet
        if answer["Status"] == "Success":
            return answer["StandardOutputContent"].strip()
        if answer["Status"] not in _RUNNING:
            raise CommandError(
                f"{action} on {instance} ended with {answer['Status']}: {answer['StandardErrorContent']}"
            )
    raise CommandError(f"{action} on {instance} did not end within {_POLLS * _PAUSE_S:.0f} seconds.")
