"""Approval actions: open until somebody answers, by the API or on the walker's command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from local.pipeline.definition import Action, Pipeline
from local.pipeline.problem import ActionFailed
from local.pipeline.roles import Roles, Session
from local.steering import Steer

_POLL_S = 0.3
_SUMMARY = "Approved on the walker's command line"
Ask = Callable[[Action, str], bool | None]
"""Asks a person: True approves, False rejects, None leaves it open."""


class Waiting(Exception):
    """Nobody has answered; the message says what is asked."""


@dataclass(frozen=True)
class Answers:
    """What the walker may answer itself.

    Attributes:
        approved: STAGE/ACTION of approvals that are given.
        everything: all of them are.
        grace_s: how long an approval waits, once nothing else runs beside it, for a function that may answer it.
        ask: where a person sits at the terminal.
    """

    approved: frozenset[str] = frozenset()
    everything: bool = False
    grace_s: float = 8
    ask: Ask | None = None

    def given(self, action: Action) -> bool:
        """Whether this approval is given in advance."""
        return self.everything or action.key in self.approved


@dataclass(frozen=True)
class Approver:
    """What the approvals of a walk have in common."""

    pipeline: Pipeline
    roles: Roles
    steer: Steer
    answers: Answers
    used: set[str] = field(default_factory=set)

    def run(
        self,
        action: Action,
        configuration: Mapping[str, str],
        actor: Session,
        *,
        was_open: bool,
        quiet_for_s: Callable[[], float],
    ) -> str:
        """Open the approval and wait for its answer: the summary that came with it.

        Args:
            action: the action.
            configuration: its configuration, resolved.
            actor: its role, which notifies.
            was_open: whether the walker left it open before.
            quiet_for_s: since when nothing else of the same run order runs, in seconds; 0 while something does.

        Raises:
            ActionFailed: it was rejected.
            Waiting: nobody has answered.
        """
        asked = configuration.get("CustomData", "")
        # Whatever was answered since the walker left an approval open counts; a rejected one is asked again.
        if not was_open or not self._latest(action):
            self.steer.pipeline(self.pipeline.name, stage=action.stage, action=action.name, status="InProgress")
            self._notify(action, configuration, actor)
        while True:
            latest = self._latest(action)
            if latest["status"] == "Succeeded":
                return str(latest.get("summary", ""))
            if latest["status"] == "Failed":
                raise ActionFailed(f"rejected: {latest.get('summary', '')}")
            quiet = quiet_for_s()
            if quiet and self.answers.given(action):
                self.used.add(action.key)
                self._put(action, latest["token"], approved=True)
            elif quiet > self.answers.grace_s:
                said = self.answers.ask(action, asked) if self.answers.ask else None
                if said is None:
                    raise Waiting(asked or "an approval")
                self._put(action, latest["token"], approved=said)
            time.sleep(_POLL_S)

    def _latest(self, action: Action) -> dict[str, Any]:
        state = self.roles.root().client("codepipeline").get_pipeline_state(name=self.pipeline.name)
        for stage in state["stageStates"]:
            for item in stage["actionStates"]:
                if (stage["stageName"], item["actionName"]) == (action.stage, action.name):
                    found: dict[str, Any] = item.get("latestExecution", {})
                    return found
        return {}

    def _put(self, action: Action, token: str, *, approved: bool) -> None:
        try:
            self.roles.root().client("codepipeline").put_approval_result(
                pipelineName=self.pipeline.name,
                stageName=action.stage,
                actionName=action.name,
                token=token,
                result={"summary": _SUMMARY, "status": "Approved" if approved else "Rejected"},
            )
        except ClientError as error:
            # Somebody else was quicker: what they said counts, and is read next.
            if error.response["Error"]["Code"] != "ApprovalAlreadyCompletedException":
                raise

    def _notify(self, action: Action, configuration: Mapping[str, str], actor: Session) -> None:
        topic = configuration.get("NotificationArn")
        if not topic:
            return
        try:
            actor.client("sns").publish(
                TopicArn=topic,
                Subject=f"APPROVAL NEEDED: {self.pipeline.name} {action.key}"[:100],
                Message=configuration.get("CustomData", "") or action.key,
            )
        except ClientError as error:
            raise ActionFailed(f"the approval cannot be notified: {error}") from error
