"""The ParallelCluster API: the public template of the pinned version, or an existing API."""

from __future__ import annotations

import tomllib
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from trainyard import parallelcluster
from trainyard.parallelcluster_api import ParallelClusterApi

PROJECT = Path(__file__).parents[2] / "parallelcluster"
BOUNDARY = "arn:aws:iam::111122223333:policy/boundary"


def test_the_version_is_the_one_that_the_genuine_package_is_installed_in() -> None:
    locked = tomllib.loads((PROJECT / "uv.lock").read_text(encoding="utf-8"))["package"]
    assert [item["version"] for item in locked if item["name"] == "aws-parallelcluster"] == [parallelcluster.version()]


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "us-east-1-aws-parallelcluster.s3.us-east-1.amazonaws.com"),
        ("us-gov-west-1", "us-gov-west-1-aws-parallelcluster.s3.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "cn-north-1-aws-parallelcluster.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_template_is_that_of_the_region_and_the_version(region: str, host: str) -> None:
    url = f"https://{host}/parallelcluster/{parallelcluster.version()}/api/parallelcluster-api.yaml"
    assert parallelcluster.api_template_url(region) == url


def test_a_project_without_one_pin_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\ndependencies = ["aws-parallelcluster>=3.16"]\n')
    monkeypatch.setattr(parallelcluster, "_PROJECT", project)
    with pytest.raises(
        ValueError, match=r"must pin aws-parallelcluster to one version.*it depends on aws-parallelcluster>=3.16"
    ):
        parallelcluster.version.__wrapped__()


def test_a_new_api_makes_roles_and_takes_calls_of_its_user_role_alone() -> None:
    stack = cdk.Stack()
    api = ParallelClusterApi(stack, "Api", region="us-west-2", permissions_boundary=BOUNDARY)
    Template.from_stack(stack).has_resource_properties(
        "AWS::CloudFormation::Stack",
        {
            "TemplateURL": parallelcluster.api_template_url("us-west-2"),
            "Parameters": {
                "Region": "us-west-2",
                "EnableIamAdminAccess": "true",
                "CreateApiUserRole": "true",
                "PermissionsBoundaryPolicy": BOUNDARY,
            },
        },
    )
    [_, output] = stack.resolve(api.url)["Fn::GetAtt"]
    assert output == "Outputs.ParallelClusterApiInvokeUrl"
    assert api.version == parallelcluster.version()


def test_what_we_use_of_the_public_template_is_recorded_from_upstream() -> None:
    facts = parallelcluster.facts("api")
    assert facts["source"]["commit"]
    assert parallelcluster.user_role_pattern() == "PCAPIUserRole-*"
    stack = cdk.Stack()
    api = ParallelClusterApi(stack, "Api", region="us-west-2", permissions_boundary=BOUNDARY)
    [nested] = Template.from_stack(stack).find_resources("AWS::CloudFormation::Stack").values()
    assert nested["Properties"]["Parameters"].keys() <= facts["parameters"].keys()
    used = {stack.resolve(value)["Fn::GetAtt"][1].removeprefix("Outputs.") for value in (api.url, api.user_role_arn)}
    assert used <= set(facts["outputs"])
