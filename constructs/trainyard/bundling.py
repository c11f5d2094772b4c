"""Bundling of Python Lambda functions, the same files with Docker and without.

`PythonFunction` bundles in a container and knows no other way. `BundlingImage` is a Docker image to it, and where a
container engine answers it is one. Where none does, its `run` does the container's work on this machine: it copies the
source and lets pip install the requirements for the Lambda platform. Both ways pip is steered by the same environment
variables to binary wheels for that platform, and both end with the same clean-up, so that the same files come out,
under the same hash.

A requirement that has no wheel for the platform fails in both, rather than being built for whatever machine this is.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_python_alpha as lambda_python

INPUT = "/asset-input"
OUTPUT = "/asset-output"
REQUIREMENTS = "requirements.txt"
# Byte code, and what tools leave beside sources. The names are patterns of rsync and of fnmatch alike.
EXCLUDED = ("__pycache__", "*.pyc", ".DS_Store", ".mypy_cache", ".ruff_cache", ".pytest_cache")
_GLIBC_TAGS = (
    "manylinux_2_28",
    "manylinux2014",
)  # Amazon Linux 2023, the base of Python 3.12 and later, has glibc 2.34
_ENGINE_TIMEOUT_SECONDS = 20

Volume = cdk.DockerVolume | dict[str, Any]


class BundlingError(Exception):
    """Bundling failed; the message says why and what to do next."""


def pip_environment(runtime: lambda_.Runtime, architecture: lambda_.Architecture) -> dict[str, str]:
    """The variables that make pip install for a Lambda runtime on any machine."""
    cpu = {"arm64": "aarch64", "x86_64": "x86_64"}[architecture.name]
    return {
        "PIP_COMPILE": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_IMPLEMENTATION": "cp",
        "PIP_ONLY_BINARY": ":all:",
        "PIP_PLATFORM": " ".join(f"{tag}_{cpu}" for tag in _GLIBC_TAGS),
        "PIP_PYTHON_VERSION": runtime.name.removeprefix("python"),
        "PIP_ROOT_USER_ACTION": "ignore",
    }


def bundling_options(runtime: lambda_.Runtime, architecture: lambda_.Architecture) -> lambda_python.BundlingOptions:
    """The `bundling` of a `PythonFunction` for which Docker is welcome but not needed."""
    return lambda_python.BundlingOptions(
        image=BundlingImage(runtime, architecture),
        environment=pip_environment(runtime, architecture),
        asset_excludes=list(EXCLUDED),
        command_hooks=_CleanUp(),
    )


@functools.cache
def engine_answers() -> bool:
    """Whether a container engine answers. A Docker client on the path is not enough: its daemon must run."""
    engine = os.environ.get("CDK_DOCKER", "docker")
    try:
        answer = subprocess.run([engine, "version"], capture_output=True, timeout=_ENGINE_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


class BundlingImage(cdk.DockerImage):
    """The SAM build image of a runtime, for which this machine stands in where no container engine answers."""

    def __init__(
        self,
        runtime: lambda_.Runtime,
        architecture: lambda_.Architecture,
        *,
        engine: Callable[[], bool] = engine_answers,
    ) -> None:
        super().__init__(runtime.bundling_image.image)
        self._platform = architecture.docker_platform
        self._engine = engine

    def run(  # jsii hands over only the options that the signature names, so all are named
        self,
        *,
        command: Sequence[str] | None = None,
        entrypoint: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        network: str | None = None,
        platform: str | None = None,
        security_opt: str | None = None,
        user: str | None = None,
        volumes: Sequence[Volume] | None = None,
        volumes_from: Sequence[str] | None = None,
        working_directory: str | None = None,
    ) -> None:
        """Bundle; the options are those of `docker run` as CDK gives them."""
        if self._engine():
            super().run(
                command=command,
                entrypoint=entrypoint,
                environment=environment,
                network=network,
                platform=platform or self._platform,
                security_opt=security_opt,
                user=user,
                volumes=volumes,
                volumes_from=volumes_from,
                working_directory=working_directory,
            )
            return
        folders = {_field(volume, "container_path"): _field(volume, "host_path") for volume in volumes or ()}
        bundle(Path(folders[INPUT]), Path(folders[OUTPUT]), environment or {})


def bundle(source: Path, output: Path, environment: Mapping[str, str]) -> None:
    """Do what the container would do: copy `source` to `output`, install its requirements there, clean up.

    Raises:
        BundlingError: pip is missing or failed.
    """
    # Symbolic links are followed, as `rsync -L` does it.
    shutil.copytree(source, output, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*EXCLUDED))
    if (output / REQUIREMENTS).exists():
        _install(output, environment)
    _clean(output)
    _normalise_modes(output)


def _install(folder: Path, environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS, "-t", str(folder)]
    # Output goes to stderr: the stdout of a synthesis belongs to the CDK CLI.
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=sys.stderr,
        stderr=subprocess.PIPE,
        text=True,
        umask=0o022,
        check=False,
    )
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise BundlingError(
            f"No container engine answers, and {sys.executable} has no pip to bundle with instead. "
            "Run `make setup`, or start Docker."
        )
    platform = f"Python {environment['PIP_PYTHON_VERSION']} on {environment['PIP_PLATFORM']}"
    raise BundlingError(
        f"pip could not install {REQUIREMENTS} for {platform} (binary wheels only):\n{done.stderr.strip()}\n"
        "Pin versions that have wheels for this platform, or check that the package index can be reached."
    )


def _clean(folder: Path) -> None:
    """Remove what names the interpreter that installed: console scripts, byte code, the records that list them."""
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for record in folder.glob("*.dist-info/RECORD"):
        record.unlink()
    for cache in list(folder.rglob("__pycache__")):
        shutil.rmtree(cache)


def _normalise_modes(folder: Path) -> None:
    """Make everything readable to the Lambda service, whatever the umask of the user who bundles."""
    for path in [folder, *folder.rglob("*")]:
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)


@jsii.implements(lambda_python.ICommandHooks)
class _CleanUp:
    """`_clean` and `_normalise_modes`, said in the shell of the container."""

    def before_bundling(self, input_dir: str, output_dir: str) -> list[str]:  # noqa: ARG002 - fixed by CDK
        return []

    def after_bundling(self, input_dir: str, output_dir: str) -> list[str]:  # noqa: ARG002 - fixed by CDK
        return _shell_clean_up(output_dir)


def _shell_clean_up(folder: str) -> list[str]:
    return [
        f"rm -rf {folder}/bin {folder}/*.dist-info/RECORD",
        f"find {folder} -name __pycache__ -type d -prune -exec rm -rf {{}} +",
        f"chmod -R u=rwX,go=rX {folder}",
    ]


def _field(volume: Volume, name: str) -> str:
    if isinstance(volume, Mapping):
        return str(volume[name])
    return str(getattr(volume, name))
