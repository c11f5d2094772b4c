"""Sends requests to a cluster's head node through Systems Manager, with the cluster stack's own document."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from ops.problem import Problem

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
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException")


@contextmanager
def _problems(permission: str, resource: str) -> Iterator[None]:
    """Turns AWS errors into Problems that name the permission and the resource."""
    try:
        yield
    except BotoCoreError as error:
        advice = "Check region, network and credentials (aws sts get-caller-identity)."
        raise Problem(f"AWS cannot be asked: {error}\n{advice}") from error
    except ClientError as error:
        code, text = (error.response.get("Error", {}).get(key, "") for key in ("Code", "Message"))
        if code in _DENIED:
            raise Problem(
                f"These credentials are not allowed to call {permission} on {resource}: {text}\n"
                "Allow the actions of constructs/trainyard/pipeline/actions.py (docs/validation.md)."
            ) from error
        if code in _EXPIRED:
            raise Problem(
                f"AWS does not take these credentials ({code}): {text}\nGet new ones (aws sts get-caller-identity)."
            ) from error
        raise Problem(f"{permission} on {resource} was refused ({code}): {text}") from error


def instances(ec2: EC2Client, cluster: str, node_type: str) -> dict[str, str]:
    """State of each instance of a cluster by its id; `node_type` is HeadNode, LoginNode or Compute. Raises Problem."""
    tags = {"parallelcluster:cluster-name": cluster, "parallelcluster:node-type": node_type}
    filters: Any = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
    with _problems("ec2:DescribeInstances", "instances"):
        pages = list(ec2.get_paginator("describe_instances").paginate(Filters=filters))
    reservations = (reservation for page in pages for reservation in page["Reservations"])
    return {item["InstanceId"]: item["State"]["Name"] for found in reservations for item in found["Instances"]}


def find(ec2: EC2Client, cluster: str) -> str:
    """The id of the running head node of a cluster.

    Raises:
        Problem: there is none.
    """
    found = instances(ec2, cluster, "HeadNode")
    running = [name for name, state in found.items() if state == "running"]
    if len(running) > 1:
        raise Problem(
            f"The cluster {cluster} has several running head nodes: {', '.join(running)}.\n"
            f"Find the right one in the CloudFormation stack {cluster}, and stop the others."
        )
    if not running:
        seen = ", ".join(f"{name} is {state}" for name, state in found.items()) or "no instance has its tags"
        raise Problem(
            f"The cluster {cluster} has no running head node: {seen}.\n"
            "Start it, or deploy the cluster (cdk deploy --all); a cluster that failed says why in its stack."
        )
    return running[0]


def document(ssm: SSMClient, environment: str, of: str = "validation") -> str:
    """The name of the environment's document for `validation`, `people` or `usage`.

    Raises:
        Problem: its cluster stack is not deployed, or by a version without the document.
    """
    name = f"/trainyard/{environment}/{of}/document"
    with _problems("ssm:GetParameter", name):
        try:
            return ssm.get_parameter(Name=name)["Parameter"]["Value"]
        except ssm.exceptions.ParameterNotFound as error:
            raise Problem(
                f"There is no parameter {name} here: the cluster of {environment} is not deployed to this account and "
                f"region, or by a version without the {of}.\nDeploy it first: cdk deploy --all"
            ) from error


class Refused(Problem):
    """The head node refused the request; the message is its reason."""


class HeadNode:
    """Requests to one head node (cluster_assets/validation/request_handler.py, cluster_assets/usage/usage.py)."""

    def __init__(self, ssm: SSMClient, instance: str, document: str, of: str = "validation") -> None:
        self._ssm, self.instance, self._document, self._of = ssm, instance, document, of

    def ask(self, *words: str) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises:
            Refused: the head node's own refusal.
            Problem: no agent answers, the permission is missing, or the response is not a valid answer.
        """
        request = " ".join(words)
        answer = self._wait(self._send(request))
        output, errors = answer.get("StandardOutputContent", ""), answer.get("StandardErrorContent", "").strip()
        how = answer.get("StatusDetails") or answer["Status"]
        why = f"it ended as {how}: {errors[-1500:] or 'no word'}"
        if answer["Status"] == "Success":
            try:
                found: dict[str, Any] = json.loads(output)
                return found
            except ValueError:
                why = f"no JSON came back: {output[-500:]!r}"
        elif answer["Status"] == "Failed" and answer.get("ResponseCode") == _NO_SUCH_FILE:
            raise Problem(
                f"The head node {self.instance} has no {self._of}: its cluster assets are older than this version.\n"
                "Run the bootstrap there: sudo bash /opt/trainyard/current/entry/entry.sh BUCKET updated REGION"
            )
        elif answer["Status"] == "Failed" and f"{self._of}: " in errors:
            raise Refused(errors.rpartition(f"{self._of}: ")[2].strip())
        raise Problem(f"The head node {self.instance} did not answer '{request}': {why}")

    def _send(self, request: str) -> str:
        with _problems("ssm:SendCommand", f"{self._document} and {self.instance}"):
            try:
                sent = self._ssm.send_command(
                    InstanceIds=[self.instance],
                    DocumentName=self._document,
                    Parameters={"Request": [request]},
                    TimeoutSeconds=DELIVERY_S,
                )
            except self._ssm.exceptions.InvalidInstanceId as error:
                raise Problem(
                    f"Systems Manager has no agent on the head node {self.instance}: "
                    f"{error.response['Error'].get('Message', '')}\n"
                    "Check that the agent runs (systemctl status amazon-ssm-agent), that the instance role has "
                    "AmazonSSMManagedInstanceCore, and that the node reaches ssm and ssmmessages."
                ) from error
        return sent["Command"]["CommandId"]

    def _wait(self, command: str) -> GetCommandInvocationResultTypeDef:
        until = time.monotonic() + ANSWER_S
        pause = _FIRST_PAUSE_S
        while time.monotonic() < until:
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)
            with _problems("ssm:GetCommandInvocation", self.instance):
                try:
                    answer = self._ssm.get_command_invocation(CommandId=command, InstanceId=self.instance)
                except self._ssm.exceptions.InvocationDoesNotExist:
                    continue  # a command is not known everywhere at once
            if answer["Status"] not in _PENDING:
                return answer
        raise Problem(
            f"The agent of Systems Manager on {self.instance} did not answer in {ANSWER_S} s.\n"
            "Look at the head node: aws ssm describe-instance-information, and its system log."
        )
