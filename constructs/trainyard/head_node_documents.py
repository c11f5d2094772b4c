"""Systems Manager documents: the fixed commands that may be sent to a cluster's head node."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from trainyard.nag import ANY_RESOURCE, acknowledge, wildcard

# Words without anything that a shell would interpret: the request becomes part of a command line.
REQUEST = r"^[a-z]+( [A-Za-z0-9_.,:/=-]{1,200}){0,24}$"
NEW_JOBS = Path(__file__).with_name("stop_or_resume_new_jobs.sh")
USAGE_REQUEST = r"^(report( \d{1,10}){3}|page [0-9a-f]{32} \d{1,4})$"
# All jobs on nodes; pending jobs lose nothing when the fleet stops.
_COUNT_JOBS = (
    "/opt/slurm/bin/squeue --noheader --format=%i --states=RUNNING,COMPLETING,CONFIGURING,SUSPENDED,STOPPED,SIGNALING"
    " | wc -l"
)


def head_node_only(cluster_name: str) -> dict[str, dict[str, str]]:
    """The condition of a statement that may send commands to the head node of one cluster."""
    tag = "ssm:resourceTag/parallelcluster"
    return {"StringEquals": {f"{tag}:cluster-name": cluster_name, f"{tag}:node-type": "HeadNode"}}


class _Document(Construct):
    """A document that runs `commands` with bash."""

    document_name: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        description: str,
        step: str,
        commands: list[str],
        timeout_seconds: int,
        parameters: dict[str, object] | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        # Without the first line the agent runs the commands with sh.
        inputs = {"runCommand": ["#!/bin/bash", *commands], "timeoutSeconds": str(timeout_seconds)}
        self.document_name = ssm.CfnDocument(
            self,
            "Document",
            document_type="Command",
            document_format="JSON",
            target_type="/AWS::EC2::Instance",
            update_method="NewVersion",
            content={
                "schemaVersion": "2.2",
                "description": description,
                **({"parameters": parameters} if parameters else {}),
                "mainSteps": [{"action": "aws:runShellScript", "name": step, "inputs": inputs}],
            },
        ).ref

    def _allow_sending(self, construct_id: str, role: iam.Role, condition: dict[str, dict[str, str]]) -> None:
        """Let `role` send the document to head nodes that the condition selects, and read its output."""
        stack = cdk.Stack.of(self)
        document = stack.format_arn(service="ssm", resource="document", resource_name=self.document_name)
        instances = stack.format_arn(service="ec2", resource="instance", resource_name="*")
        policy = iam.Policy(
            self,
            construct_id,
            roles=[role],
            statements=[
                iam.PolicyStatement(actions=["ssm:SendCommand"], resources=[document]),
                iam.PolicyStatement(actions=["ssm:SendCommand"], resources=[instances], conditions=condition),
                iam.PolicyStatement(actions=["ssm:GetCommandInvocation"], resources=["*"]),
            ],
        )
        acknowledge(
            policy,
            {
                ANY_RESOURCE: "GetCommandInvocation takes no ARN.",
                wildcard(self, instances): "Narrowed by tags to the head node, whose id is known only later.",
            },
        )


class ValidationDocument(_Document):
    """Carries out one request of a validation on the head node, as the cluster's user.

    Principals that may send it can start the product's own checks as Slurm jobs, read their results, cancel them, and
    drain nodes that they found bad. It takes no commands: cluster_assets/validation/request_handler.py lists the
    requests and refuses all others.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        request = {
            "type": "String",
            "description": "a request, then its arguments",
            "allowedPattern": REQUEST,
        }
        super().__init__(
            scope,
            construct_id,
            description="One request of the validation of a cluster, on its head node",
            step="Ask",
            # Where the bootstrap unpacks the cluster's assets on every node.
            commands=["exec bash /opt/trainyard/current/validation/request.sh {{ Request }}"],
            timeout_seconds=300,
            parameters={"Request": request},
        )


class PeopleDocument(_Document):
    """Shows (`plan`) or makes (`apply`) the differences of users and shares from `cluster/people.json`.

    Principals that may send it cannot change who has access: that is in the assets bucket.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Users, groups and shares of a cluster, on its head node",
            step="People",
            commands=["exec bash /opt/trainyard/current/people/apply.sh {{ Request }}"],
            timeout_seconds=300,
            parameters={
                "Request": {"type": "String", "description": "plan or apply", "allowedValues": ["plan", "apply"]}
            },
        )


class SessionDocument(Construct):
    """A shell of Session Manager as the user whom the caller's tag SSMSessionRunAs names; without the tag, none.

    Source: Systems Manager user guide, "Turn on Run As support for Linux and macOS managed nodes".
    """

    document_name: str

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        inputs = {
            "runAsEnabled": True,
            "runAsDefaultUser": "",
            "idleSessionTimeout": "60",
            "shellProfile": {"linux": "cd; exec bash -l", "windows": ""},
        }
        self.document_name = ssm.CfnDocument(
            self,
            "Document",
            document_type="Session",
            document_format="JSON",
            update_method="NewVersion",
            content={
                "schemaVersion": "1.0",
                "description": "A shell on a node of the cluster as the user of the caller's tag SSMSessionRunAs",
                "sessionType": "Standard_Stream",
                "inputs": inputs,
            },
        ).ref


class UsageDocument(_Document):
    """Reports who used the cluster, from Slurm's accounting.

    Principals that may send it can read names, users and times of all jobs. It changes nothing: it runs
    cluster_assets/usage/usage.py as Slurm's user, which lists the requests and refuses all others.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        request = {"type": "String", "description": "a request, then its arguments", "allowedPattern": USAGE_REQUEST}
        super().__init__(
            scope,
            construct_id,
            description="One request about the usage of a cluster, on its head node",
            step="Ask",
            commands=["exec bash /opt/trainyard/current/usage/request.sh {{ Request }}"],
            timeout_seconds=300,
            parameters={"Request": request},
        )


class JobCount(_Document):
    """Prints the number of jobs on nodes. It has no parameters: principals that may send it can run this only."""

    def __init__(self, scope: Construct, construct_id: str, *, cluster_stack_name: str) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Prints how many Slurm jobs are on nodes",
            step="CountJobs",
            commands=["set -euo pipefail", _COUNT_JOBS],
            timeout_seconds=20,
        )
        self._cluster_stack_name = cluster_stack_name

    def grant_send(self, role: iam.Role) -> None:
        """Let `role` send the document to the head nodes of the cluster stack's clusters and read its output.

        They are known by the ownership tag, because in a rename the old cluster has another name. ParallelCluster puts
        the tags of its configuration on the head node (pcluster/templates/cluster_stack.py, 3.16.1).
        """
        owner = cdk.Stack.of(self).format_arn(
            service="cloudformation", resource="stack", resource_name=f"{self._cluster_stack_name}/*"
        )
        condition = {
            "StringEquals": {"ssm:resourceTag/parallelcluster:node-type": "HeadNode"},
            "StringLike": {"ssm:resourceTag/trainyard:owner": owner},
        }
        self._allow_sending("Ask", role, condition)


class NewJobs(_Document):
    """Keeps Slurm from starting jobs, or lets it start them again. `Action` is one of two words, never a command."""

    def __init__(self, scope: Construct, construct_id: str, *, cluster_name: str) -> None:
        action = {"type": "String", "description": "stop or resume", "allowedValues": ["stop", "resume"]}
        super().__init__(
            scope,
            construct_id,
            description="Keeps Slurm from starting jobs, or lets it start them again",
            step="NewJobs",
            commands=NEW_JOBS.read_text("utf-8").splitlines()[1:],
            timeout_seconds=60,
            parameters={"Action": action},
        )
        self._cluster_name = cluster_name

    def grant_send(self, role: iam.Role) -> None:
        """Let `role` send the document to the cluster's head node and read its output."""
        self._allow_sending("Send", role, head_node_only(self._cluster_name))
