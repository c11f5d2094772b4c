"""A validation's job in the report of the laboratory behind the emulated AWS, after the product's bootstrap."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.slurm import Laboratory, remote
from ops.usage.records import fetch, priced
from ops.validation.head_node import HeadNode
from settings import load
from tests.slurm.conftest import lab_machine

__all__ = ["lab_machine"]
pytestmark = pytest.mark.lab
ROOT = Path(__file__).resolve().parents[2]
CHANGES = {
    "name: local\n": "name: usage\n",
    "    scaledown_minutes: 10\n": """\
    scaledown_minutes: 10
    accounting:
      uri: db.example.com
      user: slurm
      password_secret_arn: arn:aws:secretsmanager:us-east-1:000000000000:secret:slurm-AbCdEf
""",
    "observability:\n": """\
teams: [{name: vision, monthly_usd: 1000}]
qos: [{name: interactive, idle_gpu_minutes: 30}]
cost: {prices: {p5.48xlarge: 80.0, c7i.xlarge: 0.2}}
observability:
  notify: {emails: [team@example.com]}
""",
}


class Document(HeadNode):
    """Sends the script of a document, as the emulated Systems Manager does."""

    def __init__(self, laboratory: Laboratory, of: str) -> None:
        self.instance, self.laboratory, self.of = "head", laboratory, of

    def ask(self, *words: str) -> dict[str, Any]:
        script = f"#!/bin/bash\nexec bash /opt/trainyard/current/{self.of}/request.sh {' '.join(words)}\n"
        done = remote.run(self.laboratory, script)
        assert done["exit"] == 0, done
        answer: dict[str, Any] = json.loads(str(done["stdout"]))
        return answer


@pytest.fixture(scope="module")
def emulated(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:  # noqa: ARG001 -- a fixture that asks for another
    folder = tmp_path_factory.mktemp("emulated")
    file, text = folder / "usage.yaml", (ROOT / "environments" / "local.yaml").read_text("utf-8")
    for before, after in CHANGES.items():
        assert before in text
        text = text.replace(before, after, 1)
    file.write_text(text)
    remote.remember(folder, load(file), file)
    try:
        yield remote.ensure(folder, "usage", "000000000000")
    finally:
        remote.end_all(folder)


def test_jobs_of_a_validation_are_reported(emulated: Laboratory) -> None:
    """They end within their first second, which Slurm records as 0 s."""
    begun = int(time.time()) - 1  # a report covers a second at least
    checks = Document(emulated, "validation")
    sent = checks.ask("submit", "hello-gpu", "gpu", "-", "2", "5", "run-1")
    emulated.wait(lambda: checks.ask("look", sent["job"], sent["folder"])["ended"], "the job's end")
    node = Document(emulated, "usage")
    emulated.wait(lambda: fetch(node, begun, int(time.time()), 5)["runs"] == 1, "the job's record", seconds=60)
    found = priced(emulated.plan.environment, fetch(node, begun, int(time.time()), 5))
    assert [(row.user, row.outcome, row.resource) for row in found.rows] == [("ubuntu", "completed", "gpu/p5")]
    assert found.jobs[0].name == "trainyard-validation-hello-gpu"
    assert {part.resource for part in found.unused if part.kind == "idle"} >= {"gpu/p5"}


def test_bootstrap_starts_what_budgets_and_idle_jobs_need(emulated: Laboratory) -> None:
    units = "/etc/systemd/system"
    assert emulated.output(f"cd {units} && ls trainyard-*.timer | grep -E 'budgets|idle-gpus'").split() == [
        "trainyard-budgets.timer", "trainyard-idle-gpus.timer",
    ]  # fmt: skip
    for name in ("budgets", "idle-gpus"):
        command = emulated.output(f"sed -n 's/^ExecStart=//p' {units}/trainyard-{name}.service")
        emulated.run(command, user="root")  # without people.json there is nothing to do
    files = "/shared/monitoring/gpus"
    names = [node.name for node in emulated.plan.compute if node.gpus]
    emulated.wait(
        lambda: len(emulated.output(f"ls {files}").split()) == len(names), "the figures of each node", seconds=60
    )
    found = json.loads(emulated.output(f"cat {files}/{names[0]}.json"))
    assert len(found["busy"]) == 8 and found["minors"] == list(range(8))
    assert emulated.output(f"stat -c %U:%a {files}") == "root:755"
