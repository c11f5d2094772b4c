"""What leaves a network without internet access: a node's calls do, data to another account does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.constructs.stacks_of import synthesize

pytestmark = pytest.mark.xdist_group("constructs-endpoint-policies")

OWN, AWS, OTHER = "111122223333", "amazon", "999988887777"
REGION = "eu-central-1"
Request = tuple[str, str, str, str | None, str]
"""Endpoint, action, ARN, the caller's account if the request is signed with credentials, and the resource's account."""
LIMIT_CHARACTERS = 20_480
"""AWS PrivateLink guide, "Control access to VPC endpoints using endpoint policies"."""


@pytest.fixture(scope="module")
def policies() -> Mapping[str, dict[str, Any]]:
    """The policy of each endpoint, by the last part of its name."""
    secret = f"arn:aws:secretsmanager:{REGION}:{OWN}:secret:db"
    everything = {
        "login_nodes": {},
        "slurm": {"accounting": {"uri": "db", "user": "slurm", "password_secret_arn": secret}},
    }
    network = synthesize(network={"egress": "endpoints-only"}, cluster=everything).network
    found = {}
    for endpoint in network.find_resources("AWS::EC2::VPCEndpoint").values():
        name = endpoint["Properties"]["ServiceName"]
        name = name if isinstance(name, str) else f"{REGION}{name['Fn::Join'][1][-1]}"
        found[name.split(f"{REGION}.")[1]] = endpoint["Properties"]["PolicyDocument"]
    return found


def _texts(given: Any) -> list[str]:  # noqa: ANN401 - one or several texts of a policy
    several = given if isinstance(given, list) else [given]
    parts = (item["Fn::Join"][1] if isinstance(item, dict) else [item] for item in several)
    return ["".join(part if isinstance(part, str) else "aws" for part in each) for each in parts]


def allows(policy: Mapping[str, Any], action: str, arn: str, caller: str | None, owner: str) -> bool:
    """Whether a statement allows the request. Without a `caller` it has no keys that name a principal."""
    keys = {"aws:ResourceAccount": owner, **({"aws:PrincipalAccount": caller} if caller else {})}
    for statement in policy["Statement"]:
        assert (statement["Effect"], statement["Principal"]) == ("Allow", "*")
        wanted = statement.get("Condition", {"StringEquals": {}})["StringEquals"]
        if (
            any(fnmatchcase(action, pattern) for pattern in _texts(statement["Action"]))
            and any(fnmatchcase(arn, pattern) for pattern in _texts(statement["Resource"]))
            and all(keys.get(key) == value for key, value in wanted.items())
        ):
            return True
    return False


BOOT: list[Request] = [
    ("s3", "s3:PutObject", f"arn:aws:s3:::cloudformation-waitcondition-{REGION}/a", None, AWS),
    ("s3", "s3:GetObject", f"arn:aws:s3:::prod-{REGION}-starport-layer-bucket/a", None, AWS),
    ("s3", "s3:GetObject", f"arn:aws:s3:::amazon-ssm-{REGION}/a", OWN, AWS),
    ("s3", "s3:GetObject", f"arn:aws:s3:::al2023-repos-{REGION}-de612dc2/a", None, AWS),
    ("s3", "s3:GetObject", f"arn:aws:s3:::{REGION}-aws-parallelcluster/a", OWN, AWS),
    ("s3", "s3:PutObject", "arn:aws:s3:::checkpoints/a", OWN, OWN),
    ("dynamodb", "dynamodb:PutItem", f"arn:aws:dynamodb:{REGION}:{OWN}:table/parallelcluster-a", OWN, OWN),
    ("ec2", "ec2:RunInstances", f"arn:aws:ec2:{REGION}::image/ami-1", OWN, AWS),
    ("ec2", "ec2:RunInstances", f"arn:aws:ec2:{REGION}:{OTHER}:capacity-reservation/cr-1", OWN, OTHER),
    ("ec2", "ec2:DescribeInstances", "*", OWN, OWN),
    ("cloudformation", "cloudformation:DescribeStackResource", f"arn:aws:cloudformation:{REGION}:{OWN}:a", None, OWN),
    ("ssm", "ssm:GetDocument", f"arn:aws:ssm:{REGION}::document/AWS-RunShellScript", OWN, AWS),
    ("ssm", "ssm:UpdateInstanceInformation", f"arn:aws:ec2:{REGION}:{OWN}:instance/i-1", OWN, OWN),
    ("ssmmessages", "ssmmessages:OpenDataChannel", "*", OWN, OWN),
    ("logs", "logs:PutLogEvents", f"arn:aws:logs:{REGION}:{OWN}:log-group:a", OWN, OWN),
    ("monitoring", "cloudwatch:PutMetricData", "*", OWN, OWN),
    ("sts", "sts:GetCallerIdentity", "*", OWN, OWN),
    ("ecr.api", "ecr:GetAuthorizationToken", "*", OWN, OWN),
    ("ecr.dkr", "ecr:BatchGetImage", f"arn:aws:ecr:{REGION}:{OWN}:repository/a", OWN, OWN),
    ("secretsmanager", "secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:{REGION}:{OWN}:secret:db", OWN, OWN),
    ("elasticloadbalancing", "elasticloadbalancing:DescribeTargetHealth", "*", OWN, OWN),
    ("autoscaling", "autoscaling:CompleteLifecycleAction", f"arn:aws:autoscaling:{REGION}:{OWN}:a", OWN, OWN),
]  # fmt: skip
"""What nodes of ParallelCluster 3.16.1 call, by its policies of them and its user data; what Systems Manager needs."""

LEAKS: list[Request] = [
    ("s3", "s3:PutObject", "arn:aws:s3:::others/a", OWN, OTHER),
    ("s3", "s3:GetObject", "arn:aws:s3:::others/a", OWN, OTHER),
    ("s3", "s3:PutObject", "arn:aws:s3:::others/a", OTHER, OTHER),
    ("s3", "s3:PutObject", "arn:aws:s3:::others/a", None, OTHER),
    ("s3", "s3:PutObject", f"arn:aws:s3:::amazon-ssm-{REGION}/a", OWN, AWS),
    ("dynamodb", "dynamodb:PutItem", f"arn:aws:dynamodb:{REGION}:{OTHER}:table/a", OTHER, OTHER),
    ("ecr.dkr", "ecr:PutImage", f"arn:aws:ecr:{REGION}:{OTHER}:repository/a", OWN, OTHER),
    ("logs", "logs:PutLogEvents", f"arn:aws:logs:{REGION}:{OTHER}:log-group:a", OTHER, OTHER),
    ("secretsmanager", "secretsmanager:PutSecretValue", f"arn:aws:secretsmanager:{REGION}:{OTHER}:a", OWN, OTHER),
    ("ssm", "ssm:PutParameter", f"arn:aws:ssm:{REGION}:{OTHER}:parameter/a", OTHER, OTHER),
    ("cloudformation", "cloudformation:CreateStack", f"arn:aws:cloudformation:{REGION}:{OTHER}:stack/a", OTHER, OTHER),
    ("sts", "sts:GetCallerIdentity", "*", OTHER, OTHER),
]  # fmt: skip


def _id(request: Request) -> str:
    return f"{request[1]} {request[2]}"


@pytest.mark.parametrize("asked", BOOT, ids=_id)
def test_a_nodes_own_calls_pass(policies: Mapping[str, dict[str, Any]], asked: Request) -> None:
    assert allows(policies[asked[0]], *asked[1:])


@pytest.mark.parametrize("asked", LEAKS, ids=_id)
def test_nothing_goes_to_another_account(policies: Mapping[str, dict[str, Any]], asked: Request) -> None:
    assert not allows(policies[asked[0]], *asked[1:])


def test_every_endpoint_has_a_call_above_and_a_policy_of_legal_size(policies: Mapping[str, dict[str, Any]]) -> None:
    assert set(policies) == {endpoint for endpoint, *_ in BOOT}
    assert all(len(json.dumps(policy)) < LIMIT_CHARACTERS for policy in policies.values())


def test_the_workspace_of_grafana_takes_requests_without_a_principal() -> None:
    """Its bearer token names no IAM principal, which every other endpoint demands."""
    network = synthesize(network={"egress": "endpoints-only"}, observability={"mode": "managed"}).network
    endpoints = network.find_resources("AWS::EC2::VPCEndpoint").values()
    [workspace] = [item for item in endpoints if "grafana-workspace" in str(item["Properties"]["ServiceName"])]
    assert "PolicyDocument" not in workspace["Properties"]


def test_a_network_with_internet_access_keeps_the_default_policy() -> None:
    for endpoint in synthesize().network.find_resources("AWS::EC2::VPCEndpoint").values():
        assert "PolicyDocument" not in endpoint["Properties"]
