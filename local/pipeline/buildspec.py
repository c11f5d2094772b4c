"""Build specifications of CodeBuild, version 0.2: what is read of them, and what is refused because it is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from local.pipeline.problem import ActionFailed

PHASES = ("install", "pre_build", "build", "post_build")
SHELLS = ("sh", "bash")
_TOP = ("version", "env", "phases", "artifacts", "reports", "cache", "run-as", "proxy")
"""reports, cache and proxy have no effect on the outcome of a build; run-as is refused."""
_REFUSED = ("run-as", "batch")
_ENV = ("shell", "variables", "parameter-store", "secrets-manager", "exported-variables", "git-credential-helper")
_ON_FAILURE = ("ABORT", "CONTINUE")


@dataclass(frozen=True)
class Phase:
    """Commands of one phase; `last` are run whatever became of the others."""

    name: str
    commands: tuple[str, ...]
    last: tuple[str, ...] = ()
    on_failure: str = "ABORT"


@dataclass(frozen=True)
class Artifact:
    """What a build hands on: files below `base`, by glob."""

    files: tuple[str, ...]
    base: str = ""
    exclude: tuple[str, ...] = ()
    discard_paths: bool = False


@dataclass(frozen=True)
class Buildspec:
    """One build specification."""

    shell: str
    phases: tuple[Phase, ...]
    variables: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    exported: tuple[str, ...] = ()
    artifact: Artifact | None = None
    secondary: dict[str, Artifact] = field(default_factory=dict)


def parse(text: str) -> Buildspec:
    """Read a buildspec, YAML or JSON.

    Raises:
        ActionFailed: it is none, or asks for what this executor does not do.
    """
    try:
        spec = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ActionFailed(f"YAML_FILE_ERROR: the buildspec cannot be read: {error}") from error
    if not isinstance(spec, dict):
        raise ActionFailed("YAML_FILE_ERROR: the buildspec is not a mapping")
    if str(spec.get("version")) != "0.2":
        raise ActionFailed(f"YAML_FILE_ERROR: buildspec version {spec.get('version')!r}; this executor runs 0.2")
    _known("buildspec", spec, _TOP)
    refused = [key for key in _REFUSED if key in spec]
    if refused:
        raise ActionFailed(f"the local executor does not do {', '.join(refused)} of a buildspec")
    env = spec.get("env") or {}
    _known("env", env, _ENV)
    shell = env.get("shell", "sh")
    if shell not in SHELLS:
        raise ActionFailed(f"env.shell is {shell!r}; this executor has {', '.join(SHELLS)}")
    phases = spec.get("phases") or {}
    _known("phases", phases, PHASES)
    artifacts = spec.get("artifacts") or {}
    return Buildspec(
        shell=shell,
        phases=tuple(_phase(name, phases[name]) for name in PHASES if phases.get(name)),
        variables=_texts(env.get("variables")),
        parameters=_texts(env.get("parameter-store")),
        secrets=_texts(env.get("secrets-manager")),
        exported=tuple(env.get("exported-variables") or ()),
        artifact=_artifact(artifacts) if artifacts.get("files") else None,
        secondary={name: _artifact(item) for name, item in (artifacts.get("secondary-artifacts") or {}).items()},
    )


def _phase(name: str, given: dict[str, Any]) -> Phase:
    _known(f"phases.{name}", given, ("commands", "finally", "on-failure", "runtime-versions", "run-as"))
    if "run-as" in given:
        raise ActionFailed(f"the local executor does not do run-as of phases.{name}")
    on_failure = given.get("on-failure", "ABORT")
    if on_failure not in _ON_FAILURE:
        raise ActionFailed(f"phases.{name}.on-failure is {on_failure!r}; this executor does {', '.join(_ON_FAILURE)}")
    return Phase(name, _commands(given.get("commands")), _commands(given.get("finally")), on_failure)


def _commands(given: list[Any] | str | None) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    return tuple(str(command) for command in given or ())


def _artifact(given: dict[str, Any]) -> Artifact:
    files = given["files"]
    return Artifact(
        files=(files,) if isinstance(files, str) else tuple(files),
        base=str(given.get("base-directory", "")),
        exclude=tuple(given.get("exclude-paths") or ()),
        discard_paths=str(given.get("discard-paths", "no")).lower() in ("yes", "true"),
    )


def _texts(given: dict[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (given or {}).items()}


def _known(where: str, given: dict[str, Any], allowed: tuple[str, ...]) -> None:
    unknown = sorted(set(given) - set(allowed) - set(_REFUSED))
    if unknown:
        raise ActionFailed(f"YAML_FILE_ERROR: unknown {', '.join(unknown)} in {where}; allowed: {', '.join(allowed)}")
