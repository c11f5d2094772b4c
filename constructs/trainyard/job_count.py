"""How many jobs run on a cluster: one fixed question that the head node may be asked, and nothing else."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from trainyard.nag import acknowledge, acknowledge_resource

# Jobs on nodes, however they are about to leave them; pending ones lose nothing by a stop.
_COUNT = (
    "/opt/slurm/bin/squeue --noheader --format=%i --states=RUNNING,COMPLETING,CONFIGURING,SUSPENDED,STOPPED,SIGNALING"
    " | wc -l"
)
_SECONDS = "20"
_TAG = "ssm:resourceTag/parallelcluster"


class JobCount(Construct):
    """An SSM document without parameters that prints the number of jobs on nodes.

    Whoever may send it can run this command and no other, on the head node of the cluster of that name.

    Attributes:
        document_name: its name.
    """

    document_name: str

    def __init__(self, scope: Construct, construct_id: str, *, cluster_name: str) -> None:
        super().__init__(scope, construct_id)
        self._cluster_name = cluster_name
        document = ssm.CfnDocument(
            self,
            "Document",
            document_type="Command",
            document_format="JSON",
            target_type="/AWS::EC2::Instance",
            update_method="NewVersion",
            content={
                "schemaVersion": "2.2",
                "description": "Prints how many Slurm jobs are on nodes",
                "mainSteps": [
                    {
                        "action": "aws:runShellScript",
                        "name": "CountJobs",
                        "inputs": {
                            # Without a first line like this the agent takes sh, which may know no pipefail.
                            "runCommand": ["#!/bin/bash", "set -euo pipefail", _COUNT],
                            "timeoutSeconds": _SECONDS,
                        },
                    }
                ],
            },
        )
        self.document_name = document.ref

    def grant_ask(self, role: iam.Role) -> None:
        """Let `role` send the document to the head node and read the answer."""
        stack = cdk.Stack.of(self)
        document = stack.format_arn(service="ssm", resource="document", resource_name=self.document_name)
        instances = stack.format_arn(service="ec2", resource="instance", resource_name="*")
        policy = iam.Policy(
            self,
            "Ask",
            roles=[role],
            statements=[
                iam.PolicyStatement(actions=["ssm:SendCommand"], resources=[document]),
                iam.PolicyStatement(
                    actions=["ssm:SendCommand"],
                    resources=[instances],
                    conditions={
                        "StringEquals": {
                            f"{_TAG}:cluster-name": self._cluster_name,
                            f"{_TAG}:node-type": "HeadNode",
                        }
                    },
                ),
                iam.PolicyStatement(actions=["ssm:GetCommandInvocation"], resources=["*"]),
            ],
        )
        acknowledge(policy, "AwsSolutions-IAM5[Resource::*]", "GetCommandInvocation knows no resources.")
        acknowledge_resource(policy, instances, "Narrowed by tags to the head node, whose id is known only later.")
