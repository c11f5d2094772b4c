"""A CodeBuild action: the project's buildspec, run in copies of the input artifacts with the project's role."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from local.commands.cdk import KEPT
from local.pipeline import buildspec, installed
from local.pipeline.artifacts import Artifacts
from local.pipeline.credentials import Endpoint
from local.pipeline.definition import Action, Pipeline
from local.pipeline.problem import ActionFailed
from local.pipeline.roles import CODEBUILD, Roles, Session
from local.pipeline.shell import Shell, run_phases

TOOLS = Path(__file__).resolve().parent / "tools"
PACKAGES = ("UV_", "PIP_", "npm_config_", "NPM_CONFIG_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Variables of the user's, by how they begin, that say where packages come from."""
_DIRECT = "PLAINTEXT"


@dataclass(frozen=True)
class Built:
    """A build that succeeded: its id and link, exported variables, the commands that were left out."""

    build_id: str
    url: str
    variables: dict[str, str]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Builder:
    """What all builds of a walk have in common.

    Attributes:
        lend: whether the checkout's installed environments are lent to builds that want the same.
        skip: commands that are left out.
    """

    roles: Roles
    pipeline: Pipeline
    artifacts: Artifacts
    checkout: Path
    folder: Path
    endpoint: Endpoint
    commit: str
    skip: tuple[str, ...]
    lend: bool = True

    def run(self, action: Action, configuration: Mapping[str, str], actor: Session, log: Path) -> Built:
        """Run one build.

        Args:
            action: the action.
            configuration: its configuration, resolved.
            actor: the action's role, which starts the build.
            log: where all that the build says is written.

        Raises:
            ActionFailed: the build fails, and why.
        """
        name = configuration["ProjectName"]
        # The service knows its project; the build is started by the action's role, which must be allowed to.
        found = self.roles.root().client("codebuild").batch_get_projects(names=[name])["projects"]
        if not found:
            raise ActionFailed(f"there is no build project {name}")
        project = found[0]
        build = actor.client("codebuild").start_build(projectName=name)["build"]
        session = self.roles.of_service(project["serviceRole"], CODEBUILD, project["arn"])
        work = self.folder / build["id"].rpartition(":")[2]
        sources = self._unpack(action, configuration, work)
        spec = buildspec.parse(_buildspec(project["source"].get("buildspec", ""), sources[0]))
        url = _url(build, self.roles.world.region)
        environment = {
            **_base_environment(work),
            **self.roles.world.env(),
            **self._about(build, project, sources, url),
            **secondary_variables(action, configuration, sources),
            **self.endpoint.serve(session),
            **spec.variables,
            **{key: _parameter(session, item) for key, item in spec.parameters.items()},
            **_given(session, project["environment"].get("environmentVariables", [])),
            **_given(session, json.loads(configuration.get("EnvironmentVariables", "[]"))),
        }
        if spec.secrets:
            raise ActionFailed("the local executor does not do env.secrets-manager of a buildspec")
        # CodeBuild's containers have no keys in their environment, but the endpoint above.
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.pop(key, None)
        minutes = float(configuration.get("TimeoutInMinutes") or project.get("timeoutInMinutes", 60))
        shell = Shell(spec.shell, environment, sources[0], work, log, time.monotonic() + 60 * minutes)
        outcome = run_phases(shell, spec, self.skip)
        self._collect(action, spec, sources[0], failed=bool(outcome.failure))
        if outcome.failure:
            raise ActionFailed(outcome.failure)
        exported = {key: shell.environment.get(key, "") for key in spec.exported}
        shutil.rmtree(work, ignore_errors=True)
        return Built(build["id"], url, exported, outcome.skipped)

    def _unpack(self, action: Action, configuration: Mapping[str, str], work: Path) -> list[Path]:
        """Copies of the inputs, the primary one first."""
        primary = configuration.get("PrimarySource") or next(iter(action.inputs), "")
        ordered = [primary, *(name for name in action.inputs if name != primary)] if primary else []
        folders = [work / "src" / (f"{index:02d}" if index else "src") for index in range(len(ordered) or 1)]
        folders[0].mkdir(parents=True)
        for name, folder in zip(ordered, folders, strict=False):
            self.artifacts.unpack(name, folder)
        if self.lend:
            installed.lend(self.checkout, folders[0])
        return folders

    def _about(self, build: dict[str, Any], project: dict[str, Any], sources: list[Path], url: str) -> dict[str, str]:
        """CodeBuild's own variables."""
        return {
            "CI": "true",
            "CODEBUILD_BUILD_ARN": build["arn"],
            "CODEBUILD_BUILD_ID": build["id"],
            "CODEBUILD_BUILD_IMAGE": project["environment"]["image"],
            "CODEBUILD_BUILD_NUMBER": str(build.get("buildNumber", 1)),
            "CODEBUILD_BUILD_URL": url,
            "CODEBUILD_INITIATOR": f"codepipeline/{self.pipeline.name}",
            "CODEBUILD_RESOLVED_SOURCE_VERSION": self.commit,
            "CODEBUILD_SOURCE_VERSION": f"arn:aws:s3:::{self.pipeline.bucket}",
            "CODEBUILD_SRC_DIR": str(sources[0]),
            "CODEBUILD_START_TIME": str(int(time.time() * 1000)),
            "PIPELINE_CHECKOUT": str(self.checkout),
            "PIPELINE_NPM": shutil.which("npm") or "npm",
            "PIPELINE_AWS": _aws_cli(),
        }

    def _collect(self, action: Action, spec: buildspec.Buildspec, source: Path, *, failed: bool) -> None:
        """Hand on what the build made. Of a failed one too, so that its reports can be read; nothing runs after it."""
        wanted = dict(spec.secondary)
        if spec.artifact and action.outputs:
            wanted.setdefault(action.outputs[0], spec.artifact)
        for name, artifact in wanted.items():
            if name not in action.outputs:
                continue
            try:
                self.artifacts.collect(name, artifact, source)
            except ActionFailed:
                if not failed:
                    raise


def _buildspec(given: str, source: Path) -> str:
    """The buildspec itself: a project has it in its definition, or names a file of the source."""
    if "\n" in given:
        return given
    file = source / (given or "buildspec.yml")
    if not file.is_file():
        raise ActionFailed(f"YAML_FILE_ERROR: the source has no buildspec file {file.name}")
    return file.read_text()


def secondary_variables(action: Action, configuration: Mapping[str, str], sources: list[Path]) -> dict[str, str]:
    """CODEBUILD_SRC_DIR_<artifact> of the inputs beside the primary one."""
    primary = configuration.get("PrimarySource") or next(iter(action.inputs), "")
    others = [name for name in action.inputs if name != primary]
    return {f"CODEBUILD_SRC_DIR_{name}": str(folder) for name, folder in zip(others, sources[1:], strict=True)}


def _base_environment(work: Path) -> dict[str, str]:
    kept = {key: text for key, text in os.environ.items() if key in KEPT or key.startswith(PACKAGES)}
    kept["PATH"] = os.pathsep.join([str(work / "npm" / "bin"), str(TOOLS), kept.get("PATH", os.defpath)])
    return kept | {"npm_config_prefix": str(work / "npm"), "TERM": "dumb"}


@cache
def _aws_cli() -> str:
    """The machine's AWS CLI where it is version 2, or nothing."""
    program = shutil.which("aws")
    if not program:
        return ""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return program if said.stdout.startswith("aws-cli/2") else ""


def _given(session: Session, variables: list[dict[str, Any]]) -> dict[str, str]:
    found = {}
    for variable in variables:
        kind = variable.get("type", _DIRECT)
        if kind == "PARAMETER_STORE":
            found[variable["name"]] = _parameter(session, variable["value"])
        elif kind == _DIRECT:
            found[variable["name"]] = variable["value"]
        else:
            raise ActionFailed(f"the local executor does not do variables of type {kind} ({variable['name']})")
    return found


def _parameter(session: Session, name: str) -> str:
    return str(session.client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])


def _url(build: dict[str, Any], region: str) -> str:
    account = build["arn"].split(":")[4]
    identifier = build["id"].replace(":", "%3A")
    return (
        f"https://{region}.console.aws.amazon.com/codesuite/codebuild/{account}/projects/{build['projectName']}"
        f"/build/{identifier}"
    )
