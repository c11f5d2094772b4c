"""One validation: submits each job, waits for it, judges it, and cancels it if overdue, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ops.cost.prices import Prices
from ops.preflight.aws import emulated
from ops.problem import Problem
from ops.validation import head_node, history, judge
from ops.validation.head_node import HeadNode, Refused
from ops.validation.plan import (
    CHECKS,
    NODE_MINUTES,
    OF_NODES,
    STORAGE,
    Job,
    Place,
    Planner,
    Selection,
    at_most,
    together,
)
from ops.validation.report import HEAD_SCAN, Earlier, Line, Outcome, Report
from settings import Environment
from settings.model.environment import Validation

if TYPE_CHECKING:
    import boto3

GRACE_MINUTES = 5
"""Minutes after its time limit until a job is canceled here."""
TOTAL_MINUTES = 200
"""Minutes for all jobs together. A pipeline's step has 240 minutes, and a step that is stopped leaves no report."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 15.0
_NOT_STARTED = ("PENDING", "CONFIGURING")
_MINUTE = 60


def selection_of(
    file: Validation,
    *,
    only: tuple[str, ...] | None,
    skip: tuple[str, ...],
    nodes: int,
    image: str,
    storage_percent: int,
    drain: bool,
) -> Selection:
    """The options of the command line; the environment file supplies what they leave out."""
    checks = only or tuple(check for check in CHECKS if check not in skip)
    if not checks:
        raise Problem("--skip names every check: remove at least one from the list")
    required = only or tuple(check for check in file.required if check in checks)
    if drain and not set(checks) & set(OF_NODES):
        raise Problem(f"--drain drains what these checks find: {', '.join(OF_NODES)}; run at least one of them")
    return Selection(checks, required, nodes, image or file.image or "", storage_percent, drain)


def validate(
    environment: Environment,
    selection: Selection,
    session: boto3.Session,
    *,
    start_minutes: float,
    total_minutes: float,
    node_minutes: int = NODE_MINUTES,
    progress: Callable[[str], None],
) -> Report:
    """Run the checks and wait for them.

    Raises:
        Problem: there is no cluster, or its head node does not answer.
    """
    from ops.report import json_text
    from ops.report.commands import validation_report

    ssm = session.client("ssm")
    document = head_node.document(ssm, environment.name)
    instance = head_node.find(session.client("ec2"), environment.cluster_name)
    node = HeadNode(ssm, instance, document)
    if simulated := emulated(ssm):
        progress("simulated: the emulated AWS has stand-ins for GPUs, EFA and what measures them")
    progress(f"asking {instance}, the head node of {environment.cluster_name}")
    try:
        facts = node.ask("facts")
    except Refused as refused:
        raise Problem(str(refused)) from refused
    if selection.image and "/" not in selection.image and selection.image not in facts["images"]:
        known = ", ".join(facts["images"]) or "none"
        raise Problem(
            f"The image {selection.image} is not on the cluster; imported are: {known}.\n"
            f"Import it on the head node: import-container.sh IMAGE_URI {selection.image}"
        )
    price = Prices.of(environment).instance
    made = Planner(environment, selection, facts["programs"], facts["images"], price, simulated).plan()
    for most in at_most(made[0], node_minutes):
        progress(f"at most {most}{' (simulated)' * simulated}")
    now = datetime.now(UTC)
    run = f"{now:%Y%m%d-%H%M%S}"
    earlier: tuple[Earlier, ...] = ()
    with _without_history(progress):
        earlier = history.earlier(node)
    walk = Walk(
        node,
        run,
        start_minutes,
        progress,
        total_minutes=total_minutes,
        emulated=simulated,
        drain=selection.drain,
        node_minutes=node_minutes,
    )
    lines = tuple(walk.lines(*made))
    used = tuple(together(walk.node_hours))
    lines += tuple(history.slower(lines, earlier))
    time = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    report = Report(environment.name, environment.cluster_name, instance, lines, simulated, used, time)
    with _without_history(progress):
        history.keep(node, run, json_text(validation_report(report)))
    return replace(report, earlier=earlier)


@contextmanager
def _without_history(progress: Callable[[str], None]) -> Iterator[None]:
    """A head node of an older version, or a full file system, does not end a validation."""
    try:
        yield
    except Problem as problem:
        progress(f"earlier runs are not compared, or this one is not kept: {problem}")


@dataclass
class Walk:
    """A running validation.

    Attributes:
        run: name of the folders of this run's results.
        start_minutes: how long a job may wait for its nodes.
        progress: called with a line of text when something begins.
        total_minutes: how long all jobs may take together.
        emulated: the head node is one of the emulated AWS.
        drain: drain the nodes that checks find bad, after the last job.
        sleep, clock: replaced in tests.
        node_minutes: how long each node may work, apart from storage.
        node_hours: those used.
    """

    head_node: HeadNode
    run: str
    start_minutes: float
    progress: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    total_minutes: float = TOTAL_MINUTES
    emulated: bool = False
    drain: bool = False
    node_minutes: int = NODE_MINUTES
    node_hours: dict[Place, float] = field(default_factory=dict, init=False)
    _worked: dict[str, float] = field(default_factory=dict, init=False)
    _until: float = field(default=0, init=False)
    _busy: dict[str, str] = field(default_factory=dict, init=False)
    _bad: list[tuple[Job, str]] = field(default_factory=list, init=False)
    _seconds: float = field(default=0, init=False)

    def lines(self, jobs: list[Job], left_out: list[Line]) -> Iterator[Line]:
        """The lines of all checks, as they arrive.

        Raises:
            Problem: the head node cannot be reached. The running job is canceled first, if possible.
        """
        self._until = self.clock() + self.total_minutes * _MINUTE
        for number, job in enumerate(jobs, 1):
            if job.check == HEAD_SCAN:
                yield from self._head_scan(job)
            elif why := self._busy.get(job.place.name):
                yield self._skipped(job, why)
            elif self.clock() >= self._until:
                yield self._out_of_time(job, "not begun: the time was over")
            elif job.check != STORAGE and (left := self.node_minutes - self._worked.get(job.place.name, 0)) < 1:
                found = f"not begun: {job.place.name} worked {self.node_minutes - left:.0f} min for other checks"
                action = "--node-minutes allows more; or ask in parts: --only, --skip"
                yield job.line(found, f"{self.node_minutes} min for all checks but storage", action=action)
            else:
                limited = job if job.check == STORAGE else replace(job, most_minutes=int(left))
                yield from self._submit(limited, f"{self.run}-{number}")
        # A job that asks for all nodes would wait for those that are drained.
        for job, folder in self._bad if self.drain else ():
            yield self._drain(job, folder)
        yield from left_out

    def _head_scan(self, job: Job) -> Iterator[Line]:
        self.progress("scan of the head node")
        try:
            answer = self.head_node.ask("scan")
        except Refused as refused:
            yield job.line(str(refused), "a report")
        else:
            for line in judge.scan(job, f"head node {answer.get('host', '')}".strip(), answer):
                yield judge.simulated(job, line) if self.emulated else line

    def _submit(self, job: Job, run: str) -> list[Line]:
        place, kind = job.place, job.kind
        self.progress(f"{kind.job} on {place.nodes} x {place.name}, {job.time}")
        words = (kind.job, place.queue, place.feature, str(place.nodes), str(job.minutes), run)
        try:
            sent = self.head_node.ask("submit", *words, *job.options)
        except Refused as refused:
            action = "is the queue up (sinfo), and is what the environment file says deployed?"
            return [job.line(str(refused), "a job that Slurm takes", action=action)]
        number = str(sent["job"])
        answer: dict[str, Any] | Line | None = None
        try:
            answer = self._wait(job, number, str(sent["folder"]))
            if isinstance(answer, dict) and "seconds" in answer:
                self._seconds = float(answer["seconds"])
            self._count(job)
        finally:
            # Also if this program ends early.
            if not isinstance(answer, dict):
                self._cancel(number)
        if isinstance(answer, Line):
            return [answer]
        lines = judge.ended(job, answer, emulated=self.emulated)
        if job.check in OF_NODES and any(line.outcome is Outcome.FAILED for line in lines):
            self._bad.append((job, str(sent["folder"])))
        return lines

    def _drain(self, job: Job, folder: str) -> Line:
        """Drain the nodes that a job found bad."""
        wanted = "bad nodes are drained (--drain)"
        try:
            answer = self.head_node.ask("drain", folder)
        except Refused as refused:
            return job.line(
                str(refused), wanted, action="drain them by hand: scontrol update nodename=NAME state=drain"
            )
        drained, out = answer["drain"], answer["out"]
        found = ", ".join(drained) or "none" + ("" if out else ", no fault is of a node alone")
        found += f"; already out of service: {', '.join(out)}" if out else ""
        action = "after the repair: scontrol update nodename=NAME state=resume" if drained else ""
        return job.line(f"drained: {found}", wanted, Outcome.WARNING, action)

    def _wait(self, job: Job, number: str, folder: str) -> dict[str, Any] | Line:
        """The answer about the job at its end, or why it must be canceled."""
        begun, pause, self._seconds = self.clock(), _FIRST_PAUSE_S, 0.0
        started: float | None = None
        reported = ""
        down: list[str] = []
        limit = job.minutes + GRACE_MINUTES
        while True:
            self.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)
            answer, now = self.head_node.ask("look", number, folder), self.clock()
            state = answer["state"]
            if answer["ended"]:
                return answer
            if state in _NOT_STARTED:
                # A job whose node was lost waits again.
                started, begun = None, now if started is not None else begun
                text = f"job {number} waits: {state.lower()}, {answer.get('reason') or 'no reason'}"
                if text != reported:
                    self.progress(text)
                reported = text
                # Nodes that fail to come up are listed for a while only.
                down = list(answer.get("down") or down)
                if now > min(begun + self.start_minutes * _MINUTE, self._until):
                    minutes = min(round((now - begun) / _MINUTE, 1), self.start_minutes)
                    return self._unstarted(job, {**answer, "down": down}, minutes)
                continue
            started = now if started is None else started
            self._seconds = now - started
            if now - started > limit * _MINUTE:
                action = "do its nodes answer? sinfo -R; scontrol show job"
                return job.line(f"still {state} after {limit} min", f"at most {job.minutes} min", action=action)
            if now > self._until:
                return self._out_of_time(job, f"ended while it was {state}")

    def _count(self, job: Job) -> None:
        """Add the running time of a job."""
        place, hours = job.place, job.place.nodes * self._seconds / 3600
        self.node_hours[place] = self.node_hours.get(place, 0) + hours
        if job.check != STORAGE:
            self._worked[place.name] = self._worked.get(place.name, 0) + self._seconds / _MINUTE

    def _unstarted(self, job: Job, answer: dict[str, Any], minutes: float) -> Line:
        if not judge.busy(answer):
            return judge.unstarted(job, answer, minutes)
        # The next job would wait for the same nodes.
        self._busy[job.place.name] = f"nodes are taken by other jobs, {minutes:g} min long"
        return self._skipped(job, self._busy[job.place.name])

    def _skipped(self, job: Job, why: str) -> Line:
        """A job for which no nodes were free. It says nothing about the cluster, unless the check is required."""
        outcome = Outcome.FAILED if job.required else Outcome.SKIPPED
        action = "validate again when nodes are free (squeue); --start-minutes waits longer"
        return job.line(why, f"{job.nodes} that are free", outcome, action)

    def _out_of_time(self, job: Job, found: str) -> Line:
        action = "--total-minutes allows more; or ask in parts: --only, --skip"
        return job.line(found, f"the whole validation within {self.total_minutes:g} min", action=action)

    def _cancel(self, number: str) -> None:
        try:
            self.head_node.ask("cancel", number)
        except Problem as problem:
            self.progress(f"job {number} could not be ended ({problem}): end it on the head node with scancel {number}")
