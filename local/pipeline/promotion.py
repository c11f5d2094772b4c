"""Simulated promotion: takes the files of this checkout through the stages of a pipeline, in emulated AWS accounts.

Roles, steps, gates and deployments are those of the synthesized pipeline. CodePipeline itself is not emulated.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from threading import Lock

from botocore.exceptions import ClientError

from local.commands.session import ROOT, aws, forget_users_aws
from local.emulator import launch
from local.emulator.processes import log_tail
from local.pipeline import actions, prerequisites
from local.pipeline.definition import Action, ActionFailed, Pipeline, read
from ops import lock
from ops.problem import Problem

DEFAULT_PORT = 4640
STOPPED, WAITING = 1, 3
_DONE = ("succeeded", "left out")
_RECORD = "promotion.json"
# Of the log of a failed step: the headline of a report is above its rows.
_REPORT_LINES = 100
_VARIABLE = re.compile(r"#\{([\w@-]+)\.([\w@-]+)\}")


class Run:
    """One promotion; promotion.json keeps the outcome of each action and the variables, for --resume."""

    def __init__(self, pipeline: Pipeline, record: dict[str, dict[str, str]]) -> None:
        self._pipeline = pipeline
        self._lock = Lock()
        self.outcomes = {key: status for key, status in record.get("outcomes", {}).items() if status in _DONE}
        self._variables = record.get("variables", {}) | {"codepipeline.PipelineExecutionId": "simulated"}

    def go(self) -> int:
        """Run each stage, actions of one order in parallel. Returns the exit status."""
        for _, group in groupby(self._pipeline.actions, key=lambda action: (action.stage, action.order)):
            with ThreadPoolExecutor(3) as pool:
                statuses = set(pool.map(self._act, [item for item in group if item.key not in self.outcomes]))
            if statuses & {"failed", "waiting"}:
                return STOPPED if "failed" in statuses else WAITING
        return 0

    def _act(self, action: Action) -> str:
        begun, status, note = time.monotonic(), "succeeded", ""
        try:
            if action.stage == "UpdatePipeline":
                status, note = "left out", "the pipeline has just been deployed from the same files"
            else:
                self._dispatch(action)
        except actions.ApprovalNeeded as question:
            status, note = "waiting", f"{question}\n    Approve it: --resume --approve {action.key}"
        except (ActionFailed, ClientError) as error:
            log = self._pipeline.state / "steps" / action.key / "log"
            status, note = "failed", f"{error}\n{log_tail(log, _REPORT_LINES) if log.exists() else ''}"
        with self._lock:
            self.outcomes[action.key] = status
            record = {"outcomes": self.outcomes, "variables": self._variables}
            (self._pipeline.state / _RECORD).write_text(json.dumps(record, indent=1))
            print(f"  {status:<9} {action.key} ({time.monotonic() - begun:.0f} s) {note}", flush=True)
        return status

    def _dispatch(self, action: Action) -> None:
        def resolve(text: str) -> str:
            return _VARIABLE.sub(lambda found: self._variables[f"{found[1]}.{found[2]}"], text)

        configuration = {key: resolve(text) for key, text in action.configuration.items()}
        if action.provider == "CodeStarSourceConnection":
            shutil.copytree(self._pipeline.state / "source", self._pipeline.artifact(action.outputs[0]), symlinks=True)
        elif action.provider == "CodeBuild":
            exported = actions.run_step(self._pipeline, action, configuration)
            self._variables |= {f"{action.namespace}.{name}": value for name, value in exported.items()}
        else:
            act = {"CloudFormation": actions.deploy, "Lambda": actions.decide, "Manual": actions.approve}
            act[action.provider](self._pipeline, action, configuration)


def promote(options: argparse.Namespace) -> int:
    """Start, resume or stop a promotion: 0 succeeded, 1 an action failed, 3 an approval is needed.

    Raises:
        Problem: wrong use, a command failed that comes before the pipeline, or another promotion runs in the folder.
    """
    forget_users_aws()
    state = (options.state or ROOT / ".trainyard" / f"pipeline-{Path(options.pipeline).stem}").resolve()
    with lock.hold(state):
        return _promote(options, state)


def _promote(options: argparse.Namespace, state: Path) -> int:
    if options.stop:
        launch.stop(state)
        return 0
    record = {}
    print("Simulated promotion: everything below runs in emulated AWS accounts on this machine", flush=True)
    if options.resume:
        found = launch.find(state)
        if found is None or not (state / _RECORD).is_file():
            raise Problem(f"Nothing to resume in {state}: run without --resume first")
        emulator, record = found, json.loads((state / _RECORD).read_text())
    else:
        shutil.rmtree(state / "artifacts", ignore_errors=True)
        prerequisites.copy_source((options.checkout or ROOT).resolve(), state / "source")
        emulator = prerequisites.prepare(options.pipeline, state, options.port or DEFAULT_PORT, options.seeds)
    aws(emulator)
    pipeline = read(emulator, prerequisites.pipeline_stack(state).name, state, options.skip)
    approvals = {action.key for action in pipeline.actions if action.provider == "Manual"}
    pipeline.approved.update(" ".join(options.approve).split())
    if unknown := pipeline.approved - approvals:
        raise Problem(f"--approve {', '.join(unknown)}: unknown; allowed: {', '.join(sorted(approvals))}")
    status = Run(pipeline, record).go()
    result = {STOPPED: "stopped at a failure", WAITING: "waits for a person"}.get(status, "succeeded")
    print(f"Simulated promotion {result}. Reports: {pipeline.artifact('')}; logs: {state / 'steps'}")
    return status
