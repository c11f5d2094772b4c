"""What the head node may be asked to validate the cluster: one document with one parameter, and nothing else."""

from __future__ import annotations

from aws_cdk import aws_ssm as ssm
from constructs import Construct

# Where the bootstrap unpacks the cluster's assets on every node.
REQUEST_SCRIPT = "/opt/trainyard/current/validation/request.sh"
# Words without anything that a shell would read into them: what comes in is put into a command line.
REQUEST = r"^[a-z]+( [A-Za-z0-9_.,:/=-]{1,200}){0,24}$"
_SECONDS = "300"


class ClusterChecks(Construct):
    """An SSM document that carries out one request of a validation on the head node, as the cluster's user.

    Whoever may send it can start the product's own checks as Slurm jobs, look at them and end them. It takes no
    commands: cluster_assets/validation/request_handler.py lists the requests, and refuses every other.

    Attributes:
        document_name: its name.
    """

    document_name: str

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        document = ssm.CfnDocument(
            self,
            "Document",
            document_type="Command",
            document_format="JSON",
            target_type="/AWS::EC2::Instance",
            update_method="NewVersion",
            content={
                "schemaVersion": "2.2",
                "description": "One request of the validation of a cluster, on its head node",
                "parameters": {
                    "Request": {
                        "type": "String",
                        "description": "facts, scan, submit, look or cancel, and its words",
                        "allowedPattern": REQUEST,
                    }
                },
                "mainSteps": [
                    {
                        "action": "aws:runShellScript",
                        "name": "Ask",
                        "inputs": {
                            # The agent runs a script without a first line like this by sh.
                            "runCommand": ["#!/bin/bash", f"exec bash {REQUEST_SCRIPT} {{{{ Request }}}}"],
                            "timeoutSeconds": _SECONDS,
                        },
                    }
                ],
            },
        )
        self.document_name = document.ref
