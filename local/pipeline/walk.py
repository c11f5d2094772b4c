"""The execution itself: stage by stage, run order by run order, as CodePipeline does it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Semaphore
from typing import Literal

from local.pipeline.approval import Approver, Waiting
from local.pipeline.artifacts import Artifacts
from local.pipeline.build import Builder
from local.pipeline.definition import Action, Pipeline, Stage
from local.pipeline.deploy import Deployer
from local.pipeline.invoke import Invoker
from local.pipeline.problem import ActionFailed
from local.pipeline.record import Entry, Record
from local.pipeline.roles import CODEPIPELINE, Roles, Session
from local.pipeline.shell import tail
from local.pipeline.source import Source
from local.pipeline.variables import resolve_all
from local.steering import Steer

Result = Literal["succeeded", "failed", "waiting", "restart"]
Say = Callable[[Action, Entry], None]


@dataclass(frozen=True)
class Hands:
    """Who carries out the actions of each provider."""

    source: Source
    builder: Builder
    deployer: Deployer
    invoker: Invoker
    approver: Approver


class Walk:
    """One execution of a deployed pipeline, from where its record is."""

    def __init__(
        self, record: Record, pipeline: Pipeline, hands: Hands, roles: Roles, *, state: Path, beside: int, say: Say
    ) -> None:
        """
        Args:
            record: how far it is; kept in `state`.
            pipeline: the definition.
            hands: who does what.
            roles: sessions of the pipeline's roles.
            state: folder of the record and of the logs.
            beside: how many actions may work at the same time.
            say: told of each action as it begins and as it ends.
        """
        self._record, self._pipeline, self._hands, self._roles = record, pipeline, hands, roles
        self._state, self._say = state, say
        self._steer = Steer(roles.world)
        self._working = Semaphore(beside)
        self._lock = Lock()

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of this execution."""
        return self._hands.builder.artifacts

    def run(self, changed: Callable[[], bool]) -> Result:
        """Go on to the end, or to where it fails or waits.

        Args:
            changed: whether the definition is another one by now, which ends this execution.
        """
        self._steer.pipeline(self._pipeline.name, execution=self._record.execution)
        for stage in self._pipeline.stages:
            for wave in stage.waves():
                result = self._wave(wave)
                if result != "succeeded":
                    self._stage_is(stage, "Failed" if result == "failed" else "InProgress")
                    return result
                if changed():
                    return "restart"
            self._stage_is(stage, "Succeeded")
        return "succeeded"

    def _stage_is(self, stage: Stage, status: str) -> None:
        self._steer.pipeline(self._pipeline.name, stage=stage.name, stage_status=status)

    def _wave(self, wave: tuple[Action, ...]) -> Result:
        left = [action for action in wave if self._record.of(action.key).status != "succeeded"]
        if not left:
            return "succeeded"
        quiet = _Quiet(sum(action.category != "Approval" for action in left))
        with ThreadPoolExecutor(len(left)) as pool:
            for done in [pool.submit(self._action, action, quiet) for action in left]:
                done.result()
        statuses = {self._record.of(action.key).status for action in left}
        if "failed" in statuses:
            return "failed"
        return "waiting" if "waiting" in statuses else "succeeded"

    def _action(self, action: Action, quiet: _Quiet) -> None:
        entry = self._record.of(action.key)
        approval = action.category == "Approval"
        if not approval:
            self._working.acquire()
        begun, was_open = time.monotonic(), entry.status == "waiting"
        try:
            self._set(action, entry, "in progress", "")
            try:
                note = self._do(action, entry, quiet, was_open=was_open)
            except ActionFailed as failure:
                entry.seconds = time.monotonic() - begun
                self._set(action, entry, "failed", str(failure))
            except Waiting as asked:
                self._set(action, entry, "waiting", str(asked))
            else:
                entry.seconds = time.monotonic() - begun
                self._set(action, entry, "succeeded", note)
        finally:
            if not approval:
                self._working.release()
                quiet.one_less()

    def _do(self, action: Action, entry: Entry, quiet: _Quiet, *, was_open: bool) -> str:
        """Carry out an action: what there is to say of it. Its variables go to the record."""
        with self._lock:
            known = {**self._record.variables, "codepipeline": {"PipelineExecutionId": self._record.execution}}
        configuration = resolve_all(action.configuration, known)
        note, variables = "", {}
        if action.category == "Source":
            variables = self._hands.source.run(action, self.artifacts.path(action.outputs[0]))
            note = f"{variables['CommitId'][:10]} {variables['CommitMessage']}"
        else:
            actor = self._actor(action)
            if action.provider == "CodeBuild":
                log = self.log(action)
                log.parent.mkdir(parents=True, exist_ok=True)
                built = self._hands.builder.run(action, configuration, actor, log)
                entry.external, entry.skipped, variables = built.build_id, list(built.skipped), built.variables
                note = f"skipped: {', '.join(built.skipped)}" if built.skipped else ""
            elif action.provider == "CloudFormation":
                variables = self._hands.deployer.run(configuration, actor, action.region)
            elif action.provider == "Lambda":
                variables = self._hands.invoker.run(action, configuration, actor)
            elif action.category == "Approval":
                note = self._hands.approver.run(
                    action, configuration, actor, was_open=was_open, quiet_for_s=quiet.seconds
                )
            else:
                raise ActionFailed(
                    f"provider {action.provider}; this executor has CodeBuild, CloudFormation, Lambda and Manual"
                )
        if action.namespace:
            with self._lock:
                self._record.variables[action.namespace] = variables
        return note

    def _actor(self, action: Action) -> Session:
        service = self._roles.of_service(self._pipeline.role_arn, CODEPIPELINE, self._pipeline.arn)
        return self._roles.assume(service, action.role_arn, self._record.execution) if action.role_arn else service

    def log(self, action: Action) -> Path:
        """Where a build of this execution writes."""
        return self._state / "logs" / self._record.execution / f"{action.stage}.{action.name}.log"

    def said(self, action: Action) -> str:
        """The end of what a build wrote."""
        return tail(self.log(action))

    def _set(
        self, action: Action, entry: Entry, status: Literal["in progress", "succeeded", "failed", "waiting"], note: str
    ) -> None:
        with self._lock:
            entry.status, entry.note = status, note
            self._record.write(self._state)
            # The world keeps what an approval says itself: its answer comes from there.
            if action.category != "Approval":
                self._steer.pipeline(
                    self._pipeline.name,
                    stage=action.stage,
                    action=action.name,
                    status={"in progress": "InProgress", "succeeded": "Succeeded"}.get(status, "Failed"),
                    externalExecutionId=entry.external,
                    **({"error": note} if status == "failed" else {}),
                )
            self._say(action, entry)


class _Quiet:
    """Since when nothing but approvals is left of a run order."""

    def __init__(self, at_work: int) -> None:
        self._left, self._since, self._lock = at_work, time.monotonic(), Lock()

    def one_less(self) -> None:
        with self._lock:
            self._left -= 1
            self._since = time.monotonic()

    def seconds(self) -> float:
        with self._lock:
            return 0.0 if self._left else max(time.monotonic() - self._since, 1e-3)


def begin(record: Record, pipeline: Pipeline) -> None:
    """Make the record that of a new execution of a definition."""
    record.pipeline, record.version = pipeline.name, pipeline.version
    record.execution = str(uuid.uuid4())
    record.entries.clear()
    record.variables.clear()
    for action in pipeline.actions():
        record.of(action.key)
