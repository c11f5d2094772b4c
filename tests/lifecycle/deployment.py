"""The base of every life cycle: one emulator, and in it the default environment's base stacks, by the CDK CLI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.commands import cdk
from local.control import Control
from local.emulator import launch
from tests.e2e.conftest import call_api, client_of

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "environments" / "local.yaml"
NAME, ACCOUNT, REGION = "local", "000000000000", "us-east-1"
STACKS = ("network", "storage", "images", "api")
# The product polls every 20 s; 0.6 s here.
WAIT_SCALE = 0.03


@dataclass(frozen=True)
class Base:
    """The deployed base of the suite."""

    emulator: launch.Emulator
    control: Control
    service_token: str
    api_url: str
    api_user_role_arn: str
    subnet: str

    def client(self, service: str) -> Any:  # noqa: ANN401 - a boto3 client of any service
        return client_of(self.emulator, service)

    def cdk(self, *arguments: str) -> tuple[int, str]:
        """Run the CDK CLI against the emulator: exit status and output."""
        log = self.emulator.state_dir / "cdk.log"
        code = cdk.run(self.emulator, *arguments, log=log)
        return code, log.read_text().rpartition("\n$ cdk ")[2]

    def api(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Call the ParallelCluster API behind CloudFormation's back, around the gate."""
        return call_api(self.emulator, method, path, body)


def deploy(state: Path, port: int) -> Base:
    """Start an emulator and deploy the base to it with the CDK CLI, or take an existing one."""
    emulator = launch.start(state, ACCOUNT, REGION, port, port + 1, {}, wait_scale=WAIT_SCALE)
    base = Base(emulator, Control(emulator), "", "", "", "")
    stacks = base.client("cloudformation")
    existing = {item["StackName"] for item in stacks.describe_stacks()["Stacks"]}
    if not {f"{NAME}-{stack}" for stack in STACKS} <= existing:
        for line in (
            ("bootstrap", f"aws://{ACCOUNT}/{REGION}", "--app", ""),
            (
                "deploy",
                *STACKS,
                *("--context", f"env={ENVIRONMENT}", "--output", str(state / "cdk.out")),
                *("--require-approval", "never", "--concurrency", "3", "--progress", "events"),
            ),
        ):
            code, said = base.cdk(*line)
            assert code == 0, said
    return _described(base)


def _described(base: Base) -> Base:
    [on_event] = _ids(base, f"{NAME}-api", "AWS::Lambda::Function", "OnEvent")
    [nested] = _ids(base, f"{NAME}-api", "AWS::CloudFormation::Stack")
    [stack] = base.client("cloudformation").describe_stacks(StackName=nested)["Stacks"]
    outputs = {item["OutputKey"]: item["OutputValue"] for item in stack["Outputs"]}
    return Base(
        emulator=base.emulator,
        control=base.control,
        service_token=base.client("lambda").get_function(FunctionName=on_event)["Configuration"]["FunctionArn"],
        api_url=outputs["ParallelClusterApiInvokeUrl"],
        api_user_role_arn=outputs["ParallelClusterApiUserRole"],
        subnet=_ids(base, f"{NAME}-network", "AWS::EC2::Subnet", "Private")[0],
    )


def _ids(base: Base, stack: str, kind: str, part: str = "") -> list[str]:
    found = base.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
    return [
        item["PhysicalResourceId"]
        for item in found
        if item["ResourceType"] == kind and part.lower() in item["LogicalResourceId"].lower()
    ]
