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
from constructs import Construct

from trainyard.nag import acknowledge
from trainyard.retention import FunctionLogs

_HANDLERS = Path(__file__).resolve().parents[2] / "lambda"
# Files with which the CDK's PythonFunction would install packages.
REQUIREMENTS = ("requirements.txt", "Pipfile", "poetry.lock", "uv.lock")
# Byte code and caches: they differ between machines.
_EXCLUDED = ("__pycache__", "*.pyc", ".DS_Store", ".mypy_cache", ".ruff_cache", ".pytest_cache")


class PythonFunction(Construct):
    """A function of a handler package, with a role that may write its own log and nothing else.

    Functions use the standard library and the runtime's own boto3, so the package is the folder as it is.

    Args:
        module: file of the handler in a folder of lambda/, such as "cluster_resource/handler.py" in the folder
            cluster_resource; its function is `handler`.
        handlers: the folder lambda/.

    Raises:
        ValueError: the folder has a file of requirements.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        module: str,
        description: str,
        timeout: cdk.Duration,
        logs: FunctionLogs,
        environment: Mapping[str, str] | None = None,
        handlers: Path = _HANDLERS,
    ) -> None:
        super().__init__(scope, construct_id)
        entry = handlers / module.partition("/")[0]
        if found := [name for name in REQUIREMENTS if (entry / name).exists()]:
            raise ValueError(
                f"{entry} has {found[0]}, but functions are packaged without installing anything. Use the standard "
                "library and boto3, or change the bundling in constructs/trainyard/python_function.py."
            )
        log_group = logs.group(self)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Of the function: {description}",
        )
        log_group.grant_write(self.role)
        self.function = lambda_python.PythonFunction(
            self,
            "Function",
            entry=str(entry),
            index=module,
            handler="handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            description=description,
            role=self.role,
            log_group=log_group,
            timeout=timeout,
            memory_size=256,
            environment=environment,
            bundling=lambda_python.BundlingOptions(image=_CopyingImage()),
        )
        reason = "Lambda supports Python 3.13 until 2029. A newer runtime is a decision, not an update."
        acknowledge(self.function, {"AwsSolutions-L1": reason})


class _CopyingImage(cdk.DockerImage):
    """Copies the source on this machine, where the CDK's PythonFunction would start a container to do so."""

    def __init__(self) -> None:
        super().__init__("copied without a container")

    def run(self, *, volumes: Sequence[cdk.DockerVolume | dict[str, Any]]) -> None:  # type: ignore[override]
        """Copy /asset-input to /asset-output. jsii passes only the options that this signature names.

        Byte code and caches stay behind. The Lambda service can read the copy whatever the user's umask.
        """
        folders = {_field(volume, "container_path"): Path(_field(volume, "host_path")) for volume in volumes}
        output = folders["/asset-output"]
        shutil.copytree(folders["/asset-input"], output, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_EXCLUDED))
        for path in [output, *output.rglob("*")]:
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)


def _field(volume: cdk.DockerVolume | dict[str, Any], name: str) -> str:
    return str(volume[name] if isinstance(volume, dict) else getattr(volume, name))
