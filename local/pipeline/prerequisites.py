"""What a person does once before a pipeline first runs: accounts, `cdk bootstrap`, and the first `cdk deploy`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from local.commands.cdk import environment_for
from local.commands.session import ROOT, Session
from local.emulator import launch
from local.emulator.launch import Account, Emulator
from local.emulator.processes import log_tail
from local.pipeline.definition import PIPELINE_TYPE
from ops.problem import Problem
from ops.review.stacks import Stack, synthesized
from settings import load

EXECUTION_POLICY = "arn:aws:iam::aws:policy/AdministratorAccess"
_INSTALLED = (".venv", ".tools", "node_modules", "local/.venv", "local/node_modules", "parallelcluster/.venv")
_LOCK_FILES = ("**/pyproject.toml", "**/uv.lock", "**/package.json", "**/package-lock.json")


def copy_source(checkout: Path, target: Path) -> None:
    """Copy the files of a checkout, committed or not, to a git repository with links to what `make setup` installed."""
    shutil.rmtree(target, ignore_errors=True)
    listing = ["git", "-C", str(checkout), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (checkout / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, target / name, follow_symlinks=False)
    identity = ["-c", "user.name=Trainyard", "-c", "user.email=trainyard@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Promoted files"]):
        subprocess.run(["git", "-C", str(target), *identity, *command], check=True)
    for file in (file for pattern in _LOCK_FILES for file in target.glob(pattern)):
        os.utime(file, (0, 0))  # older than .ready, or `make setup` of a step would install into the linked folders
    for folder in _INSTALLED:
        (target / folder).symlink_to(ROOT / folder)


def python_path(source: Path) -> str:
    """PYTHONPATH with which the linked environments import the copy instead of the checkout."""
    return os.pathsep.join(map(str, [source, source / "constructs", *sorted((source / "lambda").iterdir())]))


def prepare(name: str, state: Path, port: int, seeds: Path | None) -> Emulator:
    """Synthesize, start and bootstrap the accounts, deploy the pipeline and the roles that its gates use.

    Args:
        name: the pipeline's file, as `-c pipeline=` takes it.
        state: folder of the copied source, the emulator and the logs.
        port: first of the emulator's ports; each account takes one more.
        seeds: what exists in each account; by default the reservations and quotas that the environments expect.

    Raises:
        Problem: a CDK command failed; the message has the end of its log.
    """
    print("Synthesizing the pipeline", flush=True)
    _cdk(state, {}, "synth", "--quiet", "--context", f"pipeline={name}", "--output", str(_assembly(state)))
    pipeline, stacks = pipeline_stack(state), _stacks(_assembly(state))
    home = (pipeline.account, pipeline.region)
    places = [home, *sorted({(stack.account, stack.region) for stack in stacks.values()} - {home})]
    emulator = launch.find(state)
    if emulator is None:
        print(f"Starting and bootstrapping accounts: {', '.join(account for account, _ in places)}", flush=True)
        given = json.loads(seeds.read_text()) if seeds else expected(state / "source")
        others = [
            Account(account, region, port + 2 + index, given.get(account, {}))
            for index, (account, region) in enumerate(places[1:])
        ]
        emulator = launch.start(state, *home, port, port + 1, given.get(home[0], {}), others=others)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(partial(_bootstrap, state, emulator), places))
    paths = [pipeline.id, *(path for path in stacks if path.endswith("/promotion"))]
    print(f"Deploying the pipeline and the roles of its gates: cdk deploy {' '.join(paths)}", flush=True)
    options = ["--app", str(_assembly(state)), "--exclusively", "--require-approval", "never", "--concurrency", "4"]
    _cdk(state, emulator.env(), "deploy", *paths, *options)
    return emulator


def pipeline_stack(state: Path) -> Stack:
    """The stack of the pipeline, as it was last synthesized."""
    stacks = synthesized(_assembly(state)).values()
    found = [stack for stack in stacks if any(item["Type"] == PIPELINE_TYPE for item in stack.resources.values())]
    if len(found) != 1:
        raise Problem(f"The app has {len(found)} stacks with a pipeline; one is needed. Has the file a `source`?")
    return found[0]


def expected(source: Path) -> dict[str, dict[str, Any]]:
    """Reservations and quotas that the environment files expect, by account."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted((source / "environments").glob("*.yaml")):
        environment = load(file)
        for key, entries in Session(file, environment, file.parent).seeds().items():
            found.setdefault(environment.account, {}).setdefault(key, []).extend(entries)
    return found


def _assembly(state: Path) -> Path:
    return state / "prerequisites"


def _stacks(assembly: Path) -> dict[str, Stack]:
    """The stacks of an assembly and of its stages, by their paths for the CDK CLI."""
    found = synthesized(assembly)
    for artifact in json.loads((assembly / "manifest.json").read_text())["artifacts"].values():
        if artifact["type"] == "cdk:cloud-assembly":
            stage = artifact["properties"]
            inner = synthesized(assembly / stage["directoryName"])
            found |= {f"{stage['displayName']}/{key}": stack for key, stack in inner.items()}
    return found


def _bootstrap(state: Path, emulator: Emulator, place: tuple[str, str]) -> None:
    account, region = place
    trust = ["--trust", emulator.account] if account != emulator.account else []
    policies = ["--cloudformation-execution-policies", EXECUTION_POLICY]
    key = {"AWS_ACCESS_KEY_ID": account, "AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    _cdk(state, emulator.env() | key, "bootstrap", f"aws://{account}/{region}", "--app", "", *trust, *policies)


def _cdk(state: Path, settings: Mapping[str, str], *arguments: str) -> None:
    source, log = state / "source", state / "cdk.log"
    command = [str(ROOT / "node_modules" / ".bin" / "cdk"), *arguments, "--progress", "events"]
    environment = environment_for({**settings, "PYTHONPATH": python_path(source)})
    with log.open("a") as stream:
        code = subprocess.call(command, cwd=source, env=environment, stdout=stream, stderr=stream)
    if code:
        raise Problem(f"cdk {arguments[0]} failed. The end of {log}:\n{log_tail(log)}")
