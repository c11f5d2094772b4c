"""A Lambda function in Python: own role, own log group, no rights but those granted; bundled without Docker."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_python_alpha as lambda_python
from aws_cdk import aws_logs as logs
from constructs import Construct

from trainyard.nag import acknowledge

RUNTIME = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64
# Files with which the CDK's PythonFunction would install packages.
REQUIREMENTS = ("requirements.txt", "Pipfile", "poetry.lock", "uv.lock")
# Byte code and caches: they differ between machines.
EXCLUDED = ("__pycache__", "*.pyc", ".DS_Store", ".mypy_cache", ".ruff_cache", ".pytest_cache")


class PythonFunction(Construct):
    """A function of a handler package under lambda/, with a role that may write its own log and nothing else.

    Functions use the standard library and the runtime's own boto3, so the package is the folder as it is.

    Args:
        entry: folder that holds the handler package.
        module: file of the handler inside `entry`, such as "cluster_resource/work.py"; its function is `handler`.
        log_removal: whether the log group is deleted with the stack.

    Raises:
        ValueError: `entry` has a file of requirements.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        entry: Path,
        module: str,
        description: str,
        timeout: cdk.Duration,
        memory_mib: int = 256,
        environment: Mapping[str, str] | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_removal: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN,
    ) -> None:
        super().__init__(scope, construct_id)
        if found := [name for name in REQUIREMENTS if (entry / name).exists()]:
            raise ValueError(
                f"{entry} has {found[0]}, but functions are packaged without installing anything. Use the standard "
                "library and boto3, or change the bundling in constructs/trainyard/python_function.py."
            )
        self.log_group = logs.LogGroup(self, "Log", retention=log_retention, removal_policy=log_removal)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Of the function: {description}",
        )
        self.log_group.grant_write(self.role)
        self.function = lambda_python.PythonFunction(
            self,
            "Function",
            entry=str(entry),
            index=module,
            handler="handler",
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            description=description,
            role=self.role,
            log_group=self.log_group,
            timeout=timeout,
            memory_size=memory_mib,
            environment=dict(environment or {}),
            bundling=lambda_python.BundlingOptions(image=CopyingImage()),
        )
        acknowledge(
            self.function,
            "AwsSolutions-L1",
            "Lambda supports Python 3.13 until 2029. A newer runtime is a decision, not an update.",
        )


class CopyingImage(cdk.DockerImage):
    """Copies the source on this machine, where the CDK's PythonFunction would start a container to do so."""

    def __init__(self) -> None:
        super().__init__("copied without a container")

    def run(self, *, volumes: Sequence[cdk.DockerVolume | dict[str, Any]]) -> None:  # type: ignore[override]
        """Copy /asset-input to /asset-output. jsii passes only the options that this signature names."""
        folders = {_field(volume, "container_path"): _field(volume, "host_path") for volume in volumes}
        copy(Path(folders["/asset-input"]), Path(folders["/asset-output"]))


def copy(source: Path, output: Path) -> None:
    """Copy `source` without byte code and caches, readable to the Lambda service whatever the user's umask."""
    shutil.copytree(source, output, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*EXCLUDED))
    for path in [output, *output.rglob("*")]:
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)


def _field(volume: cdk.DockerVolume | dict[str, Any], name: str) -> str:
    return str(volume[name] if isinstance(volume, dict) else getattr(volume, name))
