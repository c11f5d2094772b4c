"""What nodes may do and reach beyond Trainyard's own policies and security groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.cluster import HeadNode, LoginNodes, Queue
from settings.regions import partition
from settings.rules.items import Finding, Items, clashes, for_each, listed, queues

AWS_POLICIES = (
    *("AmazonS3ReadOnlyAccess", "AmazonSSMManagedInstanceCore", "AWSBatchFullAccess", "CloudWatchAgentServerPolicy"),
    *("EC2InstanceProfileForImageBuilder", "service-role/AmazonEC2ContainerServiceforEC2Role"),
    *("service-role/AmazonEC2SpotFleetTaggingRole", "service-role/AmazonECSTaskExecutionRolePolicy"),
    *("service-role/AWSBatchServiceRole", "service-role/AWSLambdaBasicExecutionRole"),
)
"""AWS managed policies that the ParallelCluster API may attach to roles.

Source: parallelcluster/facts/policies.json, statement IamPolicy.
"""


def _groups(environment: Environment) -> Items[HeadNode | LoginNodes | Queue]:
    yield ("cluster", "head_node"), environment.cluster.head_node
    if environment.cluster.login_nodes:
        yield ("cluster", "login_nodes"), environment.cluster.login_nodes
    yield from queues(environment)


@for_each(_groups)
def policies(environment: Environment, key: KeyPath, nodes: HeadNode | LoginNodes | Queue) -> Iterator[Finding]:
    """The role of the ParallelCluster API may attach a policy whose name or path begins with parallelcluster, of the
    environment's account, and some of AWS's. Source: as AWS_POLICIES.
    """
    here = f"arn:{partition(environment.region)}:iam:"
    attachable = {f"{here}:aws:policy/{name}" for name in AWS_POLICIES}
    for at, arn in listed((*key, "policies"), nodes.policies):
        if arn not in attachable and not arn.startswith(f"{here}:{environment.account}:policy/parallelcluster"):
            allowed = f"{here}:{environment.account}:policy/parallelcluster..., or of AWS's: {', '.join(AWS_POLICIES)}"
            advice = "the API may attach no other policy: create one with the path /parallelcluster/ and name that"
            yield Finding(at, arn, allowed, advice)


@for_each(_groups)
def once(_: Environment, key: KeyPath, nodes: HeadNode | LoginNodes | Queue) -> Iterator[Finding]:
    """Each policy and each security group is listed once."""
    both = chain(listed((*key, "policies"), nodes.policies), listed((*key, "security_groups"), nodes.security_groups))
    for at, value, *_rest in clashes(both, lambda one, other: one[1] == other[1]):
        yield Finding(at, f"{value} again", "each one once", "remove this line")


RULES = (policies, once)
