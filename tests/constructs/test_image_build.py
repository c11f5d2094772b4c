"""The CodeBuild project of the training image."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from aws_cdk.assertions import Template

from tests.constructs.stacks_of import allowed, listed, only, synthesize
from tests.jobs.conftest import load_module
from tests.stubs import fake_command
from trainyard.image_build import CONTEXT

pytestmark = pytest.mark.xdist_group("constructs-image-build")


def template(region: str = "eu-central-1", retention: Mapping[str, str] | None = None, **build: object) -> Template:
    return synthesize(region=region, images={"build": build}, retention=retention or {}).images


@pytest.fixture(scope="module")
def made() -> Template:
    return template(compute="2x-large", timeout_minutes=200, tag="nightly", every_days=7)


def project(made: Template) -> Mapping[str, Any]:
    found: Mapping[str, Any] = only(made, "AWS::CodeBuild::Project")["Properties"]
    return found


def variables(made: Template) -> dict[str, Any]:
    return {one["Name"]: one["Value"] for one in project(made)["Environment"]["EnvironmentVariables"]}


def statements(made: Template) -> dict[str, Mapping[str, Any]]:
    """Of the build's role, by Sid, which each has and no two share."""
    role = project(made)["ServiceRole"]["Fn::GetAtt"][0]
    found = [statement for granted in allowed(made, role).values() for statement in granted]
    by_sid: dict[str, Mapping[str, Any]] = {statement["Sid"]: statement for statement in found}
    assert all(statement == by_sid[statement["Sid"]] for statement in found)
    return by_sid


def test_there_is_none_by_default() -> None:
    images = synthesize().images
    for kind in ("AWS::CodeBuild::Project", "AWS::Logs::LogGroup", "AWS::Scheduler::Schedule", "AWS::IAM::Role"):
        images.resource_count_is(kind, 0)
    assert not images.find_outputs("*")


def test_machine_limits_and_target(made: Template) -> None:
    properties = project(made)
    assert properties["Environment"]["ComputeType"] == "BUILD_GENERAL1_2XLARGE"
    assert properties["Environment"]["PrivilegedMode"] is True
    assert (properties["TimeoutInMinutes"], properties["ConcurrentBuildLimit"]) == (200, 1)
    given = variables(made)
    assert given["IMAGE_TAG"] == "nightly"
    [repository] = made.find_resources("AWS::ECR::Repository")
    assert repository in json.dumps(given["IMAGE_REPOSITORY"])


def test_the_base_image_comes_from_awss_account_of_the_region() -> None:
    jakarta = template("ap-southeast-3")
    registry = "907027046896.dkr.ecr.ap-southeast-3."
    assert variables(jakarta)["BASE_REGISTRY"]["Fn::Join"][1][0] == registry
    base = statements(jakarta)["Base"]
    assert "PutImage" not in json.dumps(base)
    assert "907027046896" in json.dumps(base["Resource"])
    assert json.dumps(base["Resource"]).rstrip(']}"').endswith(":repository/pytorch")


def test_where_the_region_has_no_known_account_the_base_image_is_the_public_one() -> None:
    elsewhere = template("ap-southeast-5")
    assert variables(elsewhere)["BASE_REGISTRY"] == "public.ecr.aws/deep-learning-containers"
    assert "Base" not in statements(elsewhere)


def test_the_role_reaches_one_repository_one_object_and_one_log_group(made: Template) -> None:
    granted = statements(made)
    assert set(granted) == {"Login", "Push", "Context", "ContextBucket", "Log", "Base"}
    assert granted["Login"]["Action"] == "ecr:GetAuthorizationToken"
    [repository] = made.find_resources("AWS::ECR::Repository")
    assert granted["Push"]["Resource"] == {"Fn::GetAtt": [repository, "Arn"]}
    location = json.dumps(project(made)["Source"]["Location"])
    key = location.rstrip('"}]').rpartition("/")[2]
    assert key.endswith(".zip")
    assert json.dumps(granted["Context"]["Resource"]).rstrip('"}]').endswith(f"/{key}")
    assert set(granted["ContextBucket"]["Action"]) == {"s3:GetBucketAcl", "s3:GetBucketLocation"}
    assert json.dumps(granted["Context"]["Resource"]).startswith(json.dumps(granted["ContextBucket"]["Resource"])[:-4])
    [group] = made.find_resources("AWS::Logs::LogGroup")
    assert granted["Log"]["Resource"] == {"Fn::GetAtt": [group, "Arn"]}
    wild = [sid for sid, statement in granted.items() if "*" in listed(statement["Resource"])]
    assert wild == ["Login"]


def test_only_services_of_this_account_take_the_roles(made: Template) -> None:
    for role in made.find_resources("AWS::IAM::Role").values():
        [trust] = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}


def test_schedule_and_output_start_the_build(made: Template) -> None:
    schedule = only(made, "AWS::Scheduler::Schedule")["Properties"]
    assert schedule["ScheduleExpression"] == "rate(7 days)"
    assert json.dumps(schedule["Target"]["Arn"]).rstrip('"}]').endswith(":scheduler:::aws-sdk:codebuild:startBuild")
    [name] = made.find_resources("AWS::CodeBuild::Project")
    assert name in json.dumps(schedule["Target"]["Input"])
    [output] = made.find_outputs("StartImageBuild").values()
    command = "aws codebuild start-build --region eu-central-1 --project-name "
    assert output["Value"]["Fn::Join"][1] == [command, {"Ref": name}]


@pytest.mark.parametrize(("logs", "policy"), [("keep", "RetainExceptOnCreate"), ("delete", "Delete")])
def test_logs_are_kept_as_asked_and_there_is_no_schedule_by_default(logs: str, policy: str) -> None:
    default = template(retention={"logs": logs})
    assert only(default, "AWS::Logs::LogGroup", RetentionInDays=30)["DeletionPolicy"] == policy
    default.resource_count_is("AWS::Scheduler::Schedule", 0)


def test_the_build_file_uses_what_the_project_gives(made: Template) -> None:
    text = (CONTEXT / "buildspec.yml").read_text(encoding="utf-8")
    specification = yaml.safe_load(text)
    commands = [command for phase in specification["phases"].values() for command in phase["commands"]]
    assert all(isinstance(command, str) for command in commands)
    for name in variables(made):
        assert f"${{{name}" in text
    assert "ARG BASE_REGISTRY=" in (CONTEXT / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def check_image() -> ModuleType:
    """The program that runs at the end of a build."""
    return load_module(CONTEXT / "check_image.py")


def test_the_programs_of_the_validation_are_pinned(check_image: ModuleType) -> None:
    text = (CONTEXT / "Dockerfile").read_text(encoding="utf-8")
    pins = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", text))
    commits = {name: value for name, value in pins.items() if name.endswith("_COMMIT")}
    assert len(commits) == 5 and all(re.fullmatch(r"[0-9a-f]{40}", value) for value in commits.values())
    sources = re.findall(r"(?m)fetch (\S+) \S+/\S+ \"\$\{(\w+)\}\"", text)
    assert dict(sources) == {
        name: f"{name.replace('-', '_').upper()}_COMMIT" for name in ("nccl-tests", "ior", "fio", "nvbandwidth")
    }
    assert text.count("codeload.github.com") == 2, "the fetched sources, and Megatron-LM"
    assert len(re.findall(r"datacenter-gpu-manager\S+\$\{DCGM_VERSION\}", text)) == 2
    installed = re.findall(r"install --strip (.+) /programs/usr/local/bin", text.replace("src/", ""))
    assert " ".join(installed).split() == ["ior", "mdtest", "fio", "nvbandwidth"]
    collectives = re.search(r"build/\{(\S+)\}_perf", text)
    assert collectives and tuple(collectives.group(1).split(",")) == check_image.COLLECTIVES


@pytest.mark.parametrize(
    "file",
    [
        "container/Dockerfile",
        "cluster_assets/jobs/nccl-tests.sbatch",
        "cluster_assets/validation/request_handler.py",
        "local/slurm/remote.py",
        "docs/images.md",
        "docs/validation.md",
    ],
)
def test_one_folder_for_nccl_tests(check_image: ModuleType, file: str) -> None:
    assert f"{check_image.NCCL_TESTS}" in (CONTEXT.parent / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        ({"ldd": "", "fio": "echo fio-3.42"}, ""),
        ({"ldd": "echo 'libnvidia-ml.so.1 => not found'", "fio": "exit 127"}, ""),
        (
            {"ldd": "echo 'libcuda.so.1 => not found'; echo 'libmpi.so.40 => not found'", "fio": ""},
            "lacks libmpi.so.40",
        ),
        ({"ldd": "", "fio": "echo broken; exit 3"}, "fio --version ended with status 3: broken"),
        ({}, "no program fio"),
    ],
    ids=["starts", "needs the driver", "a library is missing", "another answer", "absent"],
)
def test_the_image_check_runs_programs(
    check_image: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: dict[str, str], expected: str
) -> None:
    for name, script in programs.items():
        fake_command(tmp_path / name, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = check_image.fault("fio", "--version", "fio-")
    assert expected in found and bool(found) is bool(expected)


def test_caches_are_where_a_read_only_container_can_write() -> None:
    text = (CONTEXT / "Dockerfile").read_text(encoding="utf-8")
    caches = dict(re.findall(r"([A-Z_]+(?:_HOME|_CACHE_DIR|_EXTENSIONS_DIR))=(/\w+)/", text.split("ENV HF_", 1)[1]))
    assert caches == {"TRITON_CACHE_DIR": "/tmp", "TORCH_EXTENSIONS_DIR": "/tmp"}  # noqa: S108 -- of the container
    assert "ENV HF_HOME=/tmp/" in text


def test_the_image_check_finds_a_megatron_lm_that_would_compile(check_image: ModuleType, tmp_path: Path) -> None:
    """The Makefile of core_v0.16.1 compiles helpers_cpp at the start of a training unless it is up to date."""
    folder = tmp_path / "megatron" / "core" / "datasets"
    folder.mkdir(parents=True)
    (folder / "helpers.cpp").touch()
    (folder / "Makefile").write_text("helpers_cpp.py: helpers.cpp\n\tfalse\n")
    assert "make would compile" in check_image.unprepared(tmp_path)
    subprocess.run(["make", "--touch", "--silent", f"--directory={folder}"], check=True)
    assert check_image.unprepared(tmp_path) == ""
    (folder / "helpers_cpp.py").write_text("import no_such_module\n")
    assert "cannot be imported" in check_image.unprepared(tmp_path)
    assert "make --touch --directory=Megatron-LM/megatron/core/datasets" in (CONTEXT / "Dockerfile").read_text()
