"""What `walk`, `resume`, `status` and `stop` do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rich.console import Console

from local.commands.session import forget_users_aws
from local.emulator import launch
from local.emulator.launch import Emulator
from local.pipeline import ground, report, walk
from local.pipeline.journey import Journey, Options, deployed
from local.pipeline.problem import Problem
from local.pipeline.record import Record
from local.pipeline.record import read as read_record
from local.pipeline.source import WORKING_TREE, Source

SUCCEEDED, FAILED, WAITING, WRONG = 0, 1, 3, 4
_STATUS: dict[str, int] = {"succeeded": SUCCEEDED, "failed": FAILED, "waiting": WAITING}
DEFAULT_PORT = 4640


def begin(options: Options, console: Console) -> int:
    """Walk a revision from the start; the world is made where it does not run."""
    forget_users_aws()
    source = Source.at(options.checkout, options.revision)
    if options.revision != WORKING_TREE and (uncommitted := source.uncommitted()):
        console.print(
            f"[yellow]{uncommitted} uncommitted files are left out: a pipeline sees commits. "
            "--working-tree takes them.[/yellow]"
        )
    world = launch.find(options.state)
    if world is None:
        world = ground.prepare(
            options.name,
            source,
            options.state,
            port=options.port,
            by_hand=options.by_hand,
            seeds=_seeds(options.seeds),
            say=console.print,
        )
    pipeline = deployed(world)
    record = Record(options.name, source.revision)
    walk.begin(record, pipeline)
    return _STATUS[Journey(options, console, world, source).go(pipeline, record)]


def resume(options: Options, console: Console) -> int:
    """Go on where a walk failed or waits, with the same commit."""
    forget_users_aws()
    world, record = _standing(options)
    pipeline = deployed(world)
    if pipeline.version != record.version:
        raise Problem("The pipeline was changed since: begin again with `walk`")
    source = Source(options.checkout, record.revision)
    return _STATUS[Journey(options, console, world, source).go(pipeline, record)]


def status(options: Options, console: Console) -> int:
    """The table of the last walk; the exit status is the walk's."""
    forget_users_aws()
    world, record = _standing(options)
    pipeline = deployed(world)
    console.print(report.table(pipeline, record))
    statuses = {entry.status for entry in record.entries.values()}
    return FAILED if "failed" in statuses else SUCCEEDED if statuses == {"succeeded"} else WAITING


def stop(options: Options, console: Console) -> int:
    """End the world, and forget the walk; logs stay."""
    launch.stop(options.state)
    for name in ("artifacts", "builds", "first"):
        shutil.rmtree(options.state / name, ignore_errors=True)
    (options.state / "walk.json").unlink(missing_ok=True)
    console.print(f"Stopped. Logs are in {options.state}")
    return SUCCEEDED


def _standing(options: Options) -> tuple[Emulator, Record]:
    world, record = launch.find(options.state), read_record(options.state)
    if world is None or record is None:
        raise Problem(
            f"Nothing is walked in {options.state}: begin with `python -m local.pipeline walk {options.name}`"
        )
    return world, record


def _seeds(file: Path | None) -> ground.Seeds | None:
    if file is None:
        return None
    try:
        found: ground.Seeds = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise Problem(
            f"--seeds {file}: {error}. Give a JSON file: {{account: seeds of local/emulator/seeds.py}}"
        ) from error
    return found
