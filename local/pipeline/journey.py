"""A walk from outside: executions one after the other while the pipeline changes itself, and what is told of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from local.commands.session import ROOT
from local.emulator.launch import Emulator
from local.pipeline import definition, report, walk
from local.pipeline.approval import Answers, Approver
from local.pipeline.artifacts import Artifacts
from local.pipeline.build import Builder
from local.pipeline.credentials import Endpoint
from local.pipeline.definition import Action, Pipeline
from local.pipeline.deploy import Deployer
from local.pipeline.invoke import Invoker
from local.pipeline.problem import Problem
from local.pipeline.record import Record
from local.pipeline.roles import Roles
from local.pipeline.source import Source
from local.pipeline.walk import Hands, Result, Walk
from local.steering import Steer

MOST_RESTARTS = 2
"""A pipeline that is another one after each of its own updates never ends."""


@dataclass(frozen=True)
class Options:
    """The command line.

    Attributes:
        name: the pipeline's file, a name under pipelines/ or a path.
        state: folder of the world, the record, logs and artifacts.
        checkout: the git repository that is walked.
        revision: of it.
        by_hand: patterns of stacks that a person deploys before the pipeline first runs.
        skip: commands of builds that are left out.
    """

    name: str
    state: Path
    checkout: Path
    revision: str
    port: int
    by_hand: tuple[str, ...]
    seeds: Path | None
    skip: tuple[str, ...]
    lend: bool
    approved: frozenset[str]
    approve_all: bool
    grace_s: float
    beside: int


def deployed(world: Emulator) -> Pipeline:
    """The pipeline that stands in the world.

    Raises:
        Problem: none does, or more than one.
    """
    client = Roles(world).root().client("codepipeline")
    names = [item["name"] for item in client.list_pipelines()["pipelines"]]
    if len(names) != 1:
        raise Problem(f"One pipeline is wanted in account {world.account}; found: {', '.join(names) or 'none'}")
    return definition.read(client.get_pipeline(name=names[0]))


@dataclass(frozen=True)
class Journey:
    """One walk of one commit in one world."""

    options: Options
    console: Console
    world: Emulator
    source: Source

    def go(self, pipeline: Pipeline, record: Record) -> Result:
        """Walk to the end and show the table: how it ended.

        Raises:
            Problem: an approval is given that the pipeline does not have, or the pipeline changes itself for ever.
        """
        self._check_approvals(pipeline)
        skipped: set[str] = set()
        while True:
            result, current = self._execution(pipeline, record)
            skipped |= {command for entry in record.entries.values() for command in entry.skipped}
            if result != "restart":
                break
            pipeline = deployed(self.world)
            if record.restarts == MOST_RESTARTS:
                raise Problem(f"The pipeline changed itself {MOST_RESTARTS + 1} times: no two syntheses are the same")
            record.restarts += 1
            walk.begin(record, pipeline)
            self.console.print("The pipeline has changed itself: it begins again with its new definition")
        self.console.print(report.table(pipeline, record))
        for command in self.options.skip:
            found = "left out, as was asked for" if command in skipped else "no build that ran has this command"
            self.console.print(f"[yellow]--skip {command!r}: {found}[/yellow]")
        self._advise(pipeline, record, current, result)
        return result

    def _check_approvals(self, pipeline: Pipeline) -> None:
        there = [action.key for action in pipeline.actions() if action.category == "Approval"]
        unknown = sorted(self.options.approved - set(there))
        if unknown:
            raise Problem(
                f"--approve {', '.join(unknown)}: no such approval; the pipeline has {', '.join(there) or 'none'}"
            )

    def _execution(self, pipeline: Pipeline, record: Record) -> tuple[Result, Walk]:
        options, roles, steer = self.options, Roles(self.world), Steer(self.world)
        artifacts = Artifacts(options.state / "artifacts" / record.execution)
        record.write(options.state)
        ask = _ask if sys.stdin.isatty() else None
        answers = Answers(options.approved, options.approve_all, options.grace_s, ask)
        with Endpoint() as endpoint:
            builder = Builder(
                roles=roles,
                pipeline=pipeline,
                artifacts=artifacts,
                checkout=ROOT,
                folder=options.state / "builds",
                endpoint=endpoint,
                commit=self.source.revision,
                skip=options.skip,
                lend=options.lend,
            )
            hands = Hands(
                self.source,
                builder,
                Deployer(roles, pipeline, artifacts, record.execution),
                Invoker(pipeline, steer),
                Approver(pipeline, roles, steer, answers),
            )
            self.console.print(f"Walking {pipeline.name}, execution {record.execution}")
            current = Walk(
                record,
                pipeline,
                hands,
                roles,
                state=options.state,
                beside=options.beside,
                say=lambda action, entry: self.console.print(report.line(action, entry)),
            )
            return current.run(lambda: deployed(self.world).version != record.version), current

    def _advise(self, pipeline: Pipeline, record: Record, current: Walk, result: Result) -> None:
        again = f"python -m local.pipeline resume {self.options.name}"
        for action in pipeline.actions():
            entry = record.of(action.key)
            if entry.status == "failed":
                self.console.print(f"\n{action.key} failed: {entry.note}", style="red", markup=False)
                if said := current.said(action):
                    self.console.print(f"The end of {current.log(action)}:\n{said}", markup=False)
            elif entry.status == "waiting":
                self.console.print(f"\n{action.key} waits for a person:", style="yellow", markup=False)
                self.console.print(f"{entry.note}\nApprove it: {again} --approve {action.key}", markup=False)
        self.console.print(f"Artifacts and reports: {current.artifacts.path('')}", markup=False)
        if result == "failed":
            self.console.print(f"Mend the cause and retry: {again}; or commit, and walk again", markup=False)


def _ask(action: Action, text: str) -> bool | None:
    print(f"\n{action.key} asks for approval:\n{text}")
    said = input("[a]pprove, [r]eject, anything else leaves it open: ").strip().lower()
    return {"a": True, "r": False}.get(said[:1])
