"""IAM policies of the people of a cluster: user, operator, administrator. Attach them to roles or permission sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from settings.model import Environment
from settings.regions import partition
from trainyard.cluster_people import PEOPLE
from trainyard.head_node_documents import head_node_only
from trainyard.nag import ANY_RESOURCE, acknowledge, wildcard

Persona = Literal["user", "operator", "administrator"]
RUN_AS = "SSMSessionRunAs"
"""The principal tag with a person's login name (Systems Manager user guide, "Run As support")."""


class Personas(Construct):
    """Managed policies, each with what the one before it has.

    user: sessions on the cluster's head and login nodes as the user of the caller's tag SSMSessionRunAs, and SSH as
    that user. operator: also validations, logs, and `plan` and `apply` of people. administrator: also who the people
    are, and shells as the cluster's user, who may use sudo. Deployments need the roles of `cdk bootstrap` instead.
    """

    policies: Mapping[Persona, iam.ManagedPolicy]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        session_document: str,
        assets: s3.IBucket,
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        user = self._user(session_document)
        operator = [*user, *self._operator()]
        administrator = [*operator, *self._administrator(assets)]
        statements: dict[Persona, list[iam.PolicyStatement]] = {
            "user": user,
            "operator": operator,
            "administrator": administrator,
        }
        self.policies = {name: self._policy(name, found) for name, found in statements.items()}

    def _policy(self, name: Persona, statements: list[iam.PolicyStatement]) -> iam.ManagedPolicy:
        policy = iam.ManagedPolicy(
            self,
            name.capitalize(),
            path="/trainyard/",
            description=f"Trainyard {self._environment.name}: {name} of the cluster",
            statements=[statement.copy() for statement in statements],
        )
        found = {resource for statement in statements for resource in statement.resources if "*" in resource}
        reasons = {
            self._arn("ec2", "instance/*"): "Instances come and go; conditions take those of this cluster.",
            self._arn("ssm", "session/${aws:userid}-*"): "The caller's own sessions, which AWS names after the caller.",
        }
        own = "Resources of this environment; the rest of the name is CloudFormation's or ParallelCluster's."
        acknowledge(
            policy,
            {
                ANY_RESOURCE: "Descriptions of instances and results of commands take no ARN.",
                # cdk-nag writes the variables of policies as it writes references.
                **{
                    wildcard(self, arn.replace("${aws:userid}", "<aws:userid>")): reasons.get(arn, own)
                    for arn in found - {"*"}
                },
            },
        )
        return policy

    def _user(self, session_document: str) -> list[iam.PolicyStatement]:
        nodes = self._nodes("ssm:resourceTag")
        own = {"ec2:osuser": f"${{aws:PrincipalTag/{RUN_AS}}}"}
        document = self._arn("ssm", f"document/{session_document}")
        return [
            # SessionDocumentAccessCheck: without it a caller may name any document, also one without Run As.
            _statement(
                "Sessions",
                ["ssm:StartSession"],
                [self._arn("ec2", "instance/*")],
                {"StringEquals": nodes, "BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}},
            ),
            _statement("SessionDocuments", ["ssm:StartSession"], [document, self._public("AWS-StartSSHSession")]),
            _statement(
                "OwnSessions",
                ["ssm:ResumeSession", "ssm:TerminateSession"],
                [self._arn("ssm", "session/${aws:userid}-*")],
            ),
            _statement(
                "SshKeys",
                ["ec2-instance-connect:SendSSHPublicKey"],
                [self._arn("ec2", "instance/*")],
                {"StringEquals": {**self._nodes("aws:ResourceTag"), **own}},
            ),
            _statement("FindNodes", ["ec2:DescribeInstances"], ["*"]),
        ]

    def _operator(self) -> list[iam.PolicyStatement]:
        name, cluster = self._environment.name, self._environment.cluster_name
        return [
            _statement("Documents", ["ssm:SendCommand"], [self._arn("ssm", f"document/{name}-cluster-*")]),
            _statement(
                "HeadNode", ["ssm:SendCommand"], [self._arn("ec2", "instance/*")], dict(head_node_only(cluster))
            ),
            _statement("Results", ["logs:DescribeLogGroups", "ssm:GetCommandInvocation"], ["*"]),
            _statement("Names", ["ssm:GetParameter"], [self._arn("ssm", f"parameter/trainyard/{name}/*")]),
            _statement(
                "Stacks",
                ["cloudformation:DescribeStackEvents", "cloudformation:DescribeStacks", "cloudformation:GetTemplate"],
                [self._arn("cloudformation", f"stack/{name}-*/*")],
            ),
            _statement(
                "Logs",
                ["logs:DescribeLogStreams", "logs:FilterLogEvents"],
                [self._arn("logs", f"log-group:/aws/parallelcluster/{cluster}-*")],
            ),
        ]

    def _administrator(self, assets: s3.IBucket) -> list[iam.PolicyStatement]:
        return [
            _statement("People", ["s3:GetObject", "s3:PutObject"], [assets.arn_for_objects(PEOPLE)]),
            _statement("Shells", ["ssm:StartSession"], [self._public("AWS-StartInteractiveCommand")]),
        ]

    def _nodes(self, key: str) -> dict[str, object]:
        """The head and login nodes of the cluster; ParallelCluster puts the tags on them."""
        return {
            f"{key}/parallelcluster:cluster-name": self._environment.cluster_name,
            f"{key}/parallelcluster:node-type": ["HeadNode", "LoginNode"],
        }

    def _arn(self, service: str, resource: str) -> str:
        environment = self._environment
        place = f"{environment.region}:{environment.account}"
        return f"arn:{partition(environment.region)}:{service}:{place}:{resource}"

    def _public(self, document: str) -> str:
        """A document of AWS."""
        region = self._environment.region
        return f"arn:{partition(region)}:ssm:{region}::document/{document}"


def _statement(
    sid: str, actions: list[str], resources: list[str], conditions: Mapping[str, object] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(sid=sid, actions=actions, resources=resources, conditions=conditions)
