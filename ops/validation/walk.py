"""Runs the checks of a plan one after the other: submits each job, waits for it, judges it, cancels it if overdue."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from ops.problem import Problem
from ops.validation import judge
from ops.validation.head_node import Refused
from ops.validation.plan import Job, Plan
from ops.validation.report import Line, Outcome

GRACE_MINUTES = 5
"""Minutes after its time limit until a job is canceled here."""
TOTAL_MINUTES = 200
"""Minutes for all jobs together. A pipeline's step has 240 minutes, and a step that is stopped leaves no report."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 15.0
_NOT_STARTED = ("PENDING", "CONFIGURING")
_SECONDS_OF_A_MINUTE = 60


class Asked(Protocol):
    """The part of a head node that a walk needs."""

    def ask(self, *words: str) -> dict[str, Any]: ...


@dataclass
class Walk:
    """A running validation.

    Attributes:
        head_node: where the requests go.
        run: name of the folders of this run's results.
        start_minutes: how long a job may wait for its nodes.
        progress: called with a line of text when something begins.
        total_minutes: how long all jobs may take together.
        sleep, clock: replaced in tests.
    """

    head_node: Asked
    run: str
    start_minutes: float
    progress: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    total_minutes: float = TOTAL_MINUTES
    _number: int = field(default=0, init=False)
    _until: float = field(default=0, init=False)
    _busy: dict[str, str] = field(default_factory=dict, init=False)
    _insisted: Collection[str] = field(default=(), init=False)

    def lines(self, plan: Plan) -> Iterator[Line]:
        """The lines of all checks, as they arrive.

        Raises:
            Problem: the head node cannot be reached. The running job is canceled first, if possible.
        """
        self._until = self.clock() + self.total_minutes * _SECONDS_OF_A_MINUTE
        self._insisted = plan.insisted
        if plan.head_scan:
            self.progress("scan of the head node")
            yield from self._head_scan()
        for job in plan.jobs:
            if why := self._busy.get(job.place.name):
                yield judge.not_asked(job, why, job.check in self._insisted)
            elif self.clock() >= self._until:
                yield judge.out_of_time(job, "not begun: the time was over", self.total_minutes)
            else:
                self._number += 1
                yield from self._one(job)
        yield from plan.left_out

    def _head_scan(self) -> list[Line]:
        try:
            return judge.head_scan(self.head_node.ask("scan"))
        except Refused as refused:
            return [
                Line(
                    "head-scan", "head node", "scan of the head node", str(refused), "a report", Outcome.FAILED,
                    "run it there by hand: scan-host-environment.sh head",
                )
            ]  # fmt: skip

    def _one(self, job: Job) -> list[Line]:
        place = job.place
        self.progress(f"{job.job} on {place.nodes} x {place.name}, {job.minutes} min at most")
        try:
            sent = self.head_node.ask(
                "submit", job.job, place.queue, place.feature, str(place.nodes), str(job.minutes),
                f"{self.run}-{self._number}", *job.options,
            )  # fmt: skip
        except Refused as refused:
            return [judge.refused(job, str(refused))]
        number, folder = str(sent["job"]), str(sent["folder"])
        with self._ended_with_us(number):
            return self._wait(job, number, folder)

    def _wait(self, job: Job, number: str, folder: str) -> list[Line]:
        begun, pause = self.clock(), _FIRST_PAUSE_S
        started: float | None = None
        reported = ""
        down: list[str] = []
        while True:
            self.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)
            answer = self.head_node.ask("look", number, folder)
            now = self.clock()
            if answer["ended"]:
                return judge.ended(job, answer)
            if answer["state"] in _NOT_STARTED:
                # A job whose node was lost waits again.
                started, begun = None, now if started is not None else begun
                reported = self._report_wait(number, answer, reported)
                # Nodes that fail to come up are listed for a while only.
                down = list(answer.get("down") or down)
                limit = min(begun + self.start_minutes * _SECONDS_OF_A_MINUTE, self._until)
                if now > limit:
                    self._cancel(number)
                    return [self._unstarted(job, {**answer, "down": down}, (now - begun) / _SECONDS_OF_A_MINUTE)]
                continue
            started = now if started is None else started
            minutes = job.minutes + GRACE_MINUTES
            if now - started > minutes * _SECONDS_OF_A_MINUTE:
                self._cancel(number)
                return [judge.overdue(job, answer, minutes)]
            if now > self._until:
                self._cancel(number)
                return [judge.out_of_time(job, f"ended while it was {answer['state']}", self.total_minutes)]

    def _unstarted(self, job: Job, answer: Mapping[str, Any], minutes: float) -> Line:
        minutes = min(float(round(minutes)), self.start_minutes)
        if not judge.busy(answer):
            return judge.unstarted(job, answer, minutes)
        # The next job would wait for the same nodes.
        self._busy[job.place.name] = f"nodes are taken by other jobs, {minutes:g} min long"
        return judge.not_asked(job, self._busy[job.place.name], job.check in self._insisted)

    def _report_wait(self, number: str, answer: Mapping[str, Any], reported: str) -> str:
        text = f"job {number} waits: {answer['state'].lower()}, {answer.get('reason') or 'no reason'}"
        if text != reported:
            self.progress(text)
        return text

    @contextmanager
    def _ended_with_us(self, number: str) -> Iterator[None]:
        """Cancels the job if this program ends early."""
        try:
            yield
        except BaseException:
            self._cancel(number)
            raise

    def _cancel(self, number: str) -> None:
        try:
            self.head_node.ask("cancel", number)
        except (Refused, Problem) as problem:
            self.progress(f"job {number} could not be ended ({problem}): end it on the head node with scancel {number}")
