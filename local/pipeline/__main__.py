"""Simulated promotion: takes the files of this checkout through the stages of a pipeline, in emulated AWS accounts.

Roles, steps, gates and deployments are those of the synthesized pipeline. CodePipeline itself is not emulated.
Exit status: 0 succeeded; 1 an action failed; 3 an approval is needed; 4 wrong use, or an error.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import NoReturn

from botocore.exceptions import ClientError

from local.commands.session import ROOT, aws, forget_users_aws
from local.emulator import launch
from local.emulator.processes import EmulatorError, log_tail
from local.pipeline import actions, prerequisites
from local.pipeline.definition import Action, ActionFailed, Pipeline, read
from ops.problem import Problem

FAILED, WAITING, WRONG = 1, 3, 4
_DONE = ("succeeded", "left out")
_RECORD = "promotion.json"
_VARIABLE = re.compile(r"#\{([\w@-]+)\.([\w@-]+)\}")


class Run:
    """One promotion; promotion.json keeps the outcome of each action and the variables, for --resume."""

    def __init__(self, pipeline: Pipeline, record: dict[str, dict[str, str]]) -> None:
        self._pipeline = pipeline
        self._lock = Lock()
        self.outcomes = {key: status for key, status in record.get("outcomes", {}).items() if status in _DONE}
        self._variables = record.get("variables", {}) | {"codepipeline.PipelineExecutionId": "simulated"}

    def go(self) -> int:
        """Run stage by stage, the actions of one order in parallel: the exit status."""
        for _, group in groupby(self._pipeline.actions, key=lambda action: (action.stage, action.order)):
            with ThreadPoolExecutor(3) as pool:
                statuses = set(pool.map(self._act, [item for item in group if item.key not in self.outcomes]))
            if statuses & {"failed", "waiting"}:
                return FAILED if "failed" in statuses else WAITING
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
            status, note = "failed", f"{error}\n{log_tail(log) if log.exists() else ''}"
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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(WRONG, f"{self.prog}: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = _Parser(prog="python -m local.pipeline", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("pipeline", metavar="PIPELINE", help="a name under environments/pipelines/, or a file's path")
    made.add_argument("--resume", action="store_true", help="go on where the last run stopped, with its files")
    made.add_argument("--approve", action="append", default=[], metavar="STAGE/ACTION", help="give this approval")
    made.add_argument("--skip", action="append", default=[], metavar="COMMAND", help="leave this command of steps out")
    made.add_argument("--stop", action="store_true", help="stop the emulated AWS")
    made.add_argument("--port", type=int, default=4640, help="first of the emulator's ports (default 4640)")
    made.add_argument("--state", type=Path, help="folder of logs and reports (default .trainyard/pipeline-<name>)")
    made.add_argument("--checkout", type=Path, default=ROOT, help="checkout to promote (default: this one)")
    made.add_argument("--seeds", type=Path, help="JSON file of what exists in each account from the start")
    return made


def promote(given: argparse.Namespace, state: Path) -> int:
    """Start or resume a promotion: the exit status."""
    record = {}
    print("Simulated promotion: everything below runs in emulated AWS accounts on this machine", flush=True)
    if given.resume:
        found = launch.find(state)
        if found is None or not (state / _RECORD).is_file():
            raise Problem(f"Nothing to resume in {state}: run without --resume first")
        emulator, record = found, json.loads((state / _RECORD).read_text())
    else:
        shutil.rmtree(state / "artifacts", ignore_errors=True)
        prerequisites.copy_source(given.checkout.resolve(), state / "source")
        emulator = prerequisites.prepare(given.pipeline, state, given.port, given.seeds)
    aws(emulator)
    pipeline = read(emulator, prerequisites.pipeline_stack(state).name, state, given.skip)
    approvals = {action.key for action in pipeline.actions if action.provider == "Manual"}
    if unknown := set(given.approve) - approvals:
        raise Problem(f"--approve {', '.join(unknown)}: unknown; allowed: {', '.join(sorted(approvals))}")
    pipeline.approved.update(given.approve)
    status = Run(pipeline, record).go()
    result = {FAILED: "stopped at a failure", WAITING: "waits for a person"}.get(status, "succeeded")
    print(f"Simulated promotion {result}. Reports: {pipeline.artifact('')}; logs: {state / 'steps'}")
    return status


def main(arguments: list[str]) -> int:
    """Run the command."""
    given = parser().parse_args(arguments)
    state = (given.state or ROOT / ".trainyard" / f"pipeline-{Path(given.pipeline).stem}").resolve()
    forget_users_aws()
    try:
        if given.stop:
            launch.stop(state)
            return 0
        return promote(given, state)
    except (Problem, EmulatorError, ClientError) as problem:
        print(f"\n{problem}", file=sys.stderr)
        return WRONG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
