"""What a person does once before a pipeline first runs: accounts, `cdk bootstrap`, and the first `cdk deploy`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from local.commands.cdk import environment_for
from local.commands.session import ROOT, Session
from local.emulator import launch
from local.emulator.launch import Account, Emulator
from local.pipeline import assembly, installed
from local.pipeline.problem import Problem
from local.pipeline.source import Source
from settings import Faults, load

EXECUTION_POLICY = "arn:aws:iam::aws:policy/AdministratorAccess"
_TAIL_LINES = 25
Say = Callable[[str], None]
Seeds = Mapping[str, Mapping[str, Any]]
"""What exists in each account from the start, in the format of local/emulator/seeds.py."""


def prepare(
    name: str, source: Source, state: Path, *, port: int, by_hand: tuple[str, ...], seeds: Seeds | None, say: Say
) -> Emulator:
    """Synthesize, start the accounts that the stacks name, bootstrap them, deploy the pipeline and `by_hand`.

    Args:
        name: the pipeline's file, for `-c pipeline=`.
        source: what is synthesized.
        state: folder of the world.
        port: the first of the ports; the ParallelCluster APIs of the accounts take those after it.
        by_hand: patterns of stacks that a person deploys before the pipeline can.
        seeds: what exists in each account; where None, what the environment files take to be there.
        say: told what is done.

    Raises:
        Problem: one of it fails, with the end of what the CDK CLI said.
    """
    first = state / "first"
    log = state / "cdk.log"
    say("Synthesizing, as the first deployment by hand does")
    source.unpack(first, with_git=True)
    installed.lend(ROOT, first)
    out = first / "cdk.out"
    _cdk(["synth", "--quiet", "--context", f"pipeline={name}", "--output", str(out)], first, {}, log)
    found = assembly.stacks(out)
    pipeline = assembly.pipeline_stack(found)
    others = sorted({(stack.account, stack.region) for stack in found} - {(pipeline.account, pipeline.region)})
    wanted = seeds if seeds is not None else expected(first)
    say(f"Starting the emulated AWS: accounts {', '.join([pipeline.account, *(account for account, _ in others)])}")
    world = launch.start(
        state,
        pipeline.account,
        pipeline.region,
        port,
        port + 1,
        wanted.get(pipeline.account, {}),
        others=[
            Account(account, region, port + 2 + index, wanted.get(account, {}))
            for index, (account, region) in enumerate(others)
        ],
    )
    try:
        say("Bootstrapping each account: cdk bootstrap --trust " + pipeline.account)
        _bootstrap(world, [(pipeline.account, pipeline.region), *others], first, log)
        names = [pipeline.display_name, *(stack.display_name for stack in assembly.matching(found, by_hand))]
        say(f"Deploying by hand, once: cdk deploy {' '.join(names)}")
        _deploy(world, names, out, first, log)
    except BaseException:
        launch.stop(state)
        raise
    shutil.rmtree(first, ignore_errors=True)
    return world


def expected(checkout: Path) -> dict[str, dict[str, Any]]:
    """What the environment files take to be there, by account: reservations, quotas."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted((checkout / "environments").glob("*.yaml")):
        try:
            environment = load(file)
        except Faults:
            continue
        for key, entries in Session(file, environment, file.parent).seeds().items():
            if isinstance(entries, list):
                found.setdefault(environment.account, {}).setdefault(key, []).extend(entries)
    return found


def _bootstrap(world: Emulator, places: Sequence[tuple[str, str]], folder: Path, log: Path) -> None:
    def one(place: tuple[str, str]) -> None:
        account, region = place
        trust = [] if account == world.account else ["--trust", world.account]
        policies = ["--cloudformation-execution-policies", EXECUTION_POLICY]
        command = ["bootstrap", f"aws://{account}/{region}", *trust, *policies, "--app", "", "--progress", "events"]
        key = {"AWS_ACCESS_KEY_ID": account, "AWS_REGION": region, "AWS_DEFAULT_REGION": region}
        _cdk(command, folder, world.env() | key, log.with_name(f"bootstrap-{account}.log"))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, places))


def _deploy(world: Emulator, names: Sequence[str], out: Path, folder: Path, log: Path) -> None:
    command = ["deploy", *names, "--app", str(out), "--exclusively", "--require-approval", "never"]
    _cdk([*command, "--concurrency", "4", "--progress", "events"], folder, world.env(), log)


def _cdk(arguments: list[str], folder: Path, settings: Mapping[str, str], log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as stream:
        stream.write(f"\n$ cdk {' '.join(arguments)}\n")
        stream.flush()
        code = subprocess.run(
            [str(ROOT / "node_modules" / ".bin" / "cdk"), *arguments],
            cwd=folder,
            env=environment_for(settings),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if code:
        said = "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
        raise Problem(f"cdk {arguments[0]} failed; the end of {log}:\n{said}")
