"""Many nodes on a real Slurm: the bootstrap at once, nodes that take themselves out, and the slow one among them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.slurm import Laboratory, Timeouts, bootstrap, make
from ops.problem import Problem
from ops.validation import judge
from ops.validation.plan import PAIRS, Planner, Selection
from ops.validation.report import Line, Outcome
from settings import load
from settings.model.cluster import Hook
from tests.slurm.conftest import ENVIRONMENT, running
from tests.slurm.planted import interfaces
from trainyard.cluster_config.rendering import HEALTH_CHECK

NODES = 8
# As on a cluster, but for the time between two checks. Every 5 s, the checks keep two cores busy, and time out.
SLURM = {**HEALTH_CHECK, "HealthCheckInterval": "20", "HealthCheckNodeState": "ANY"}


def hook(folder: Path) -> Hook:
    """A script that records who runs it, on compute nodes that have all their mounts."""
    content = '#!/usr/bin/env bash\necho "$(id -un) ${TRAINYARD_ROLE}" >/etc/trainyard-hook\nls /fsx\n'
    (folder / "own.sh").write_text(content)
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    made = Hook(role="compute-configured", when="after", script="own.sh", sha256=sha256)
    made.read(folder)
    return made


@pytest.fixture(scope="module")
def many(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:  # noqa: ARG001 -- a fixture that asks for another
    """Eight nodes, bootstrapped at once; all may use every core of the machine, so their timeouts are long."""
    environment = load(ENVIRONMENT)
    cluster = environment.cluster.model_copy(update={"hooks": (hook(tmp_path_factory.mktemp("hooks")),)})
    plan = make(
        environment.model_copy(update={"cluster": cluster}),
        nodes=NODES,
        timeouts=Timeouts(slurmd_s=30, message_s=20, kill_wait_s=2),
        slurm=SLURM,
    )
    with running(tmp_path_factory.mktemp("many") / "lab", plan, bootstrap.all_nodes) as laboratory:
        yield laboratory


def take_a_gpu(lab: Laboratory, node: str) -> None:
    """From now on nvidia-smi shows seven."""
    file = lab.path("/etc/lab/gpus.json", node=node)
    found = json.loads(file.read_text())
    lab.write("/etc/lab/gpus.json", json.dumps({**found, "gpus": found["gpus"][:7]}), node=node, user="root")


def reasons(lab: Laboratory) -> str:
    """What `sinfo -R` shows."""
    return lab.output(["sinfo", "-R", "-h", "-o", "%N %t %E"])


def test_all_nodes_at_once(many: Laboratory) -> None:
    names = [node.name for node in many.plan.compute]
    for name in names:
        log = many.path("/var/log/trainyard/bootstrap.log", node=name).read_text()
        assert "FAILED" not in log and "step health done" in log, log[-2000:]
        assert log.index("step health done") < log.index("hook own.sh done")
        assert many.path("/etc/trainyard-hook", node=name).read_text() == "root compute-configured\n"
    # What the nodes share was written by the head node alone, whole, and once.
    etc = many.path("/opt/slurm/etc")
    assert [path.name for path in (etc / "plugstack.conf.d").iterdir()] == ["pyxis.conf"]
    scripts = many.path("/shared/scripts")
    current = (scripts / "current").readlink()
    assert [path.name for path in (scripts / "versions").iterdir()] == [current.name]
    assert not list(many.path("/shared").rglob(".trainyard*"))
    assert sorted(many.output(["srun", "-N", str(NODES), "hostname"]).split()) == sorted(names)


# Before the tests that take nodes out.
def ask(lab: Laboratory, *words: str) -> dict[str, Any]:
    """The head node's answer to a request of the validation's document."""
    script = "/opt/trainyard/current/validation/request.sh"
    answer: dict[str, Any] = json.loads(lab.run(["bash", script, *words], user="root").stdout)
    return answer


def pair_test(lab: Laboratory, run: str) -> tuple[list[Line], str]:
    """The lines of `trainyard validate --only pairs`, and the folder of results."""
    environment = lab.plan.environment
    gpu = environment.cluster.queues[0]
    compute = gpu.compute[0].model_copy(update={"max": NODES})
    queues = (gpu.model_copy(update={"compute": (compute,)}),)
    cluster = environment.cluster.model_copy(update={"queues": queues})
    selection = Selection((PAIRS,), (PAIRS,))
    [job], _ = Planner(environment.model_copy(update={"cluster": cluster}), selection, ()).plan()
    assert (job.place.nodes, job.rounds, job.options) == (NODES, 6, ("--measure", "tcp"))
    place = job.place
    words = (job.kind.job, place.queue, place.feature, str(place.nodes), str(job.minutes), run, *job.options)
    sent = ask(lab, "submit", *words)
    lab.wait_for_job(sent["job"], states=("COMPLETED", "FAILED"))
    return judge.ended(job, ask(lab, "look", sent["job"], sent["folder"]), emulated=True), sent["folder"]


def test_slow_interface_is_found(many: Laboratory) -> None:
    slow = "gpu-dy-p5-6"
    with interfaces(many, slow):
        [line], folder = pair_test(many, "slow")
    assert (line.where, line.outcome, line.simulated) == (slow, Outcome.FAILED, False), line
    assert "in 3 pairs" in line.found and "% below its peers" in line.found and "state=drain" in line.action
    drained = ask(many, "drain", folder)["drain"]
    try:
        assert list(drained) == [slow] and reasons(many).split() == [slow, "drain", *drained[slow].split()]
    finally:
        many.run(["scontrol", "update", f"nodename={slow}", "state=resume"], user="root")


def test_every_user_finds_the_helpers_and_the_registry(many: Laboratory) -> None:
    for node in ("head", "gpu-dy-p5-3"):
        assert many.output("command -v scan-host-environment.sh", node=node, user="ada") == (
            "/shared/scripts/current/scans/scan-host-environment.sh"
        )
    entry = many.output("stat -c %a ~/.config/enroot/.credentials; cat ~/.config/enroot/.credentials", user="ada")
    assert entry.splitlines()[0] == "600"
    assert entry.count("machine ") == 1 and "password $(aws ecr get-login-password --region us-east-1)" in entry


def test_scan_of_a_node_by_a_job(many: Laboratory) -> None:
    scan = "scan-host-environment.sh compute --json"
    command = ["srun", "--exclusive", "-w", "gpu-dy-p5-2", "--gres=gpu:8", "bash", "-lc", scan]
    result = many.run(command, check=False)
    report = json.loads(result.stdout)
    by_name = {line["name"]: line for line in report["lines"]}
    for name in ("gpus", "nvidia-driver", "fabric-manager", "efa-interfaces", "efa-provider", "pyxis", "file-systems"):
        assert by_name[name]["verdict"] == "ok", by_name[name]


def test_node_that_loses_a_gpu_takes_itself_out(many: Laboratory) -> None:
    take_a_gpu(many, "gpu-dy-p5-8")
    many.wait(lambda: "gpu-dy-p5-8" in reasons(many), "gpu-dy-p5-8 drains itself")
    line = next(one for one in reasons(many).splitlines() if one.startswith("gpu-dy-p5-8"))
    assert "drain" in line and "trainyard: gpus: 7 x NVIDIA H100" in line and "wanted 8 x H100" in line
    # The others go on, and nothing is sent to this one.
    job = many.output(["sbatch", "--parsable", "-N", str(NODES // 2), "--wrap", "srun hostname"])
    assert "gpu-dy-p5-8" not in many.wait_for_job(job)["NodeList"]


def test_node_that_starts_unhealthy_takes_no_work(many: Laboratory) -> None:
    node = "gpu-dy-p5-7"
    many.kill(node)
    many.start(node, slurmd=False)
    take_a_gpu(many, node)
    with pytest.raises(Problem, match=r"step health of .*this node is unhealthy: gpus: 7"):
        bootstrap.compute_node(many, node)
    many.wait(lambda: node in reasons(many), f"{node} is down")
    line = next(one for one in reasons(many).splitlines() if one.startswith(node))
    assert "down" in line and "trainyard: gpus: 7" in line
    assert Path(f"/proc/{many.pid(node)}").exists()
