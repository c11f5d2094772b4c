"""Sends requests to a cluster's head node through Systems Manager, with the cluster stack's own document."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from ops.problem import Problem
from ops.validation.problem import of_aws

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client
    from types_boto3_ssm.client import SSMClient
    from types_boto3_ssm.type_defs import GetCommandInvocationResultTypeDef

DELIVERY_S = 120
"""Seconds that a command waits for the node's agent."""
ANSWER_S = 900
"""Most that is waited for an answer in all: delivery, the 300 s of the document, and as much again for a slow agent."""
_PENDING = ("Pending", "InProgress", "Delayed", "Cancelling")
_NO_SUCH_FILE = 127
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.3, 3.0


def find(ec2: EC2Client, cluster: str) -> str:
    """The id of the running head node of a cluster.

    Raises:
        Problem: there is none.
    """
    tags = {"parallelcluster:cluster-name": cluster, "parallelcluster:node-type": "HeadNode"}
    try:
        pages = ec2.get_paginator("describe_instances").paginate(
            Filters=[{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        )
        found = [
            (item["InstanceId"], item["State"]["Name"])
            for page in pages
            for reservation in page["Reservations"]
            for item in reservation["Instances"]
        ]
    except (ClientError, BotoCoreError) as error:
        raise of_aws(error, "ec2:DescribeInstances", "instances") from error
    running = [name for name, state in found if state == "running"]
    if len(running) > 1:
        raise Problem(f"The cluster {cluster} has several running head nodes: {', '.join(running)}. Which one is it?")
    if not running:
        seen = ", ".join(f"{name} is {state}" for name, state in found) or "no instance has its tags"
        raise Problem(
            f"The cluster {cluster} has no running head node: {seen}.\n"
            "Start it, or deploy the cluster (cdk deploy --all); a cluster that failed says why in its stack."
        )
    return running[0]


def document(ssm: SSMClient, environment: str) -> str:
    """The name of the environment's validation document.

    Raises:
        Problem: its cluster stack is not deployed, or by a version without the document.
    """
    name = f"/trainyard/{environment}/validation/document"
    try:
        return ssm.get_parameter(Name=name)["Parameter"]["Value"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ParameterNotFound":
            raise Problem(
                f"There is no parameter {name} here: the cluster of {environment} is not deployed to this account and "
                "region, or by a version without the validation.\nDeploy it first: cdk deploy --all"
            ) from error
        raise of_aws(error, "ssm:GetParameter", name) from error
    except BotoCoreError as error:
        raise of_aws(error, "ssm:GetParameter", name) from error


class Refused(Exception):
    """The head node refused the request; the message is its reason."""


class HeadNode:
    """Requests to one head node (cluster_assets/validation/request_handler.py).

    Args:
        sleep, clock: replaced in tests.
    """

    def __init__(
        self,
        ssm: SSMClient,
        instance: str,
        document: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ssm, self.instance, self._document = ssm, instance, document
        self._sleep, self._clock = sleep, clock

    def ask(self, *words: str) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises:
            Refused: the head node's own refusal.
            Problem: no agent answers, the permission is missing, or the response is not a valid answer.
        """
        answer = self._wait(self._send(" ".join(words)))
        if answer["Status"] == "Success":
            try:
                found: dict[str, Any] = json.loads(answer["StandardOutputContent"])
            except ValueError as wrong:
                said = answer["StandardOutputContent"]
                raise self._no_answer(words, f"no JSON came back: {said[-500:]!r}") from wrong
            return found
        said = answer.get("StandardErrorContent", "").strip()
        if answer["Status"] == "Failed" and answer.get("ResponseCode") == _NO_SUCH_FILE:
            raise Problem(
                f"The head node {self.instance} has no validation: its cluster assets are older than this version.\n"
                "Run the bootstrap there: sudo bash /opt/trainyard/current/entry/entry.sh BUCKET updated REGION"
            )
        if answer["Status"] == "Failed" and "validation: " in said:
            raise Refused(said.rpartition("validation: ")[2].strip())
        how = answer.get("StatusDetails") or answer["Status"]
        raise self._no_answer(words, f"it ended as {how}: {said[-1500:] or 'no word'}")

    def _send(self, request: str) -> str:
        try:
            sent = self._ssm.send_command(
                InstanceIds=[self.instance],
                DocumentName=self._document,
                Parameters={"Request": [request]},
                TimeoutSeconds=DELIVERY_S,
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "InvalidInstanceId":
                raise Problem(
                    f"Systems Manager has no agent on the head node {self.instance}: {_message(error)}\n"
                    "Does it run (systemctl status amazon-ssm-agent), may its role (AmazonSSMManagedInstanceCore), "
                    "does it reach the endpoints ssm, ssmmessages and ec2messages? (describe-instance-information)"
                ) from error
            raise of_aws(error, "ssm:SendCommand", f"{self._document} and {self.instance}") from error
        except BotoCoreError as error:
            raise of_aws(error, "ssm:SendCommand", self._document) from error
        return sent["Command"]["CommandId"]

    def _wait(self, command: str) -> GetCommandInvocationResultTypeDef:
        until = self._clock() + ANSWER_S
        pause = _FIRST_PAUSE_S
        while self._clock() < until:
            self._sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)
            try:
                answer = self._ssm.get_command_invocation(CommandId=command, InstanceId=self.instance)
            except ClientError as error:
                # A command is not known everywhere at once.
                if error.response.get("Error", {}).get("Code") == "InvocationDoesNotExist":
                    continue
                raise of_aws(error, "ssm:GetCommandInvocation", self.instance) from error
            except BotoCoreError as error:
                raise of_aws(error, "ssm:GetCommandInvocation", self.instance) from error
            if answer["Status"] not in _PENDING:
                return answer
        raise Problem(
            f"The agent of Systems Manager on {self.instance} did not answer in {ANSWER_S} s.\n"
            "Look at the head node: aws ssm describe-instance-information, and its system log."
        )

    def _no_answer(self, words: tuple[str, ...], why: str) -> Problem:
        return Problem(f"The head node {self.instance} did not answer '{' '.join(words)}': {why}")


def _message(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Message", "")
