"""The head node's programs, with stand-ins for Slurm's commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from tests.ops.validation.fakes import request_handler, results
from tests.stubs import fake_command
from trainyard.head_node_documents import REQUEST, ValidationDocument

PROGRAM = Path(__file__).resolve().parents[3] / "cluster_assets" / "validation" / "request_handler.py"
MINE = "JobId=7 JobName=trainyard-validation-hello-gpu JobState={} Reason=Resources Partition=gpu"


@dataclass
class HeadNode:
    """A folder with the commands of Slurm, and a file system of results."""

    folder: Path

    def tool(self, name: str, body: str) -> None:
        fake_command(self.folder / "bin" / name, f'echo "{name} $*" >>{self.folder}/calls\n{body}')

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        settings = self.folder / "settings.json"
        scripts = self.folder / "scripts"
        (scripts / "current" / "jobs").mkdir(parents=True, exist_ok=True)
        (scripts / "current" / "jobs" / "hello-gpu.sbatch").touch()
        folders = {"results": str(self.folder / "results"), "scripts": str(scripts), "images": str(self.folder)}
        settings.write_text(json.dumps({"folders": folders}))
        return subprocess.run(
            [sys.executable, str(PROGRAM), "--settings", str(settings), *words],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder)},
        )

    def answer(self, *words: str) -> dict[str, Any]:
        done = self.ask(*words)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert len(done.stdout.splitlines()) == 1
        return found


@pytest.fixture
def head(tmp_path: Path) -> HeadNode:
    head = HeadNode(tmp_path)
    head.tool("sbatch", "echo '7;local'")
    taken = "printf 'gpu-dy-p5-2,static,p5\\ngpu-dy-p4-1,p4\\n'"
    down = "echo 'gpu-dy-p5-1 down~: (Code:InsufficientInstanceCapacity)'"
    head.tool("sinfo", f'if [[ "$*" == *--states=allocated* ]]; then {taken}; else {down}; fi')
    head.tool("scancel", "")
    head.tool("scontrol", f"echo '{MINE.format('PENDING')}'")
    return head


def test_job_has_low_priority_and_its_own_folder(head: HeadNode) -> None:
    sent = head.answer("submit", "hello-gpu", "gpu", "p5", "2", "10", "run-1")
    assert sent == {"job": "7", "folder": f"{head.folder}/results/validation/run-1/hello-gpu"}
    [line] = head.calls
    assert {
        "--nice=10000", "--job-name=trainyard-validation-hello-gpu", "--partition=gpu", "--constraint=p5", "--nodes=2",
        "--time=10",
    } <= set(line.split())  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user: needs root")
def test_a_folder_that_another_user_made_is_refused(head: HeadNode) -> None:
    folder = head.folder / "results" / "validation"
    folder.mkdir(parents=True)
    os.chown(folder, 65534, 65534)
    for words in ("submit hello-gpu gpu p5 2 10 run-1", "history", "keep run 1 1 x"):
        refused = head.ask(*words.split())
        assert (refused.returncode, list(folder.iterdir())) == (1, [])
        assert f"{folder} belongs to another user" in refused.stderr
    assert head.calls == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["submit", "train-model", "gpu", "-", "2", "10", "run"], "'train-model' is not a check"),
        (["submit", "hello-gpu", "gpu", "-", "2", "10", "../run"], "cannot name a run"),
        (["submit", "hello-gpu", "gpu", "-", "2", "10", "run", "--mounts", "/:/x"], "'--mounts' is not an allowed"),
        (["submit", "nccl-tests", "gpu", "-", "2", "10", "run"], "run the bootstrap on the head node again"),
        (["look", "7", "/etc"], "is not a folder of a validation"),
        (["look", "x", "/fsx"], "is not a folder of a validation"),
        (["cancel", "--all"], "is not a job id"),
        (["drain", "/etc"], "is not a folder of a validation"),
        (["drain"], "drain takes FOLDER"),
        (["state", "x"], "state takes nothing"),
    ],
)
def test_refused(head: HeadNode, words: list[str], reason: str) -> None:
    done = head.ask(*words)
    assert done.returncode == 1 and reason in done.stderr
    assert not head.calls


def test_only_jobs_of_the_validation_are_cancelled(head: HeadNode) -> None:
    head.answer("cancel", "7")
    assert head.calls[-1] == "scancel 7"
    head.tool("scontrol", "echo 'JobId=7 JobName=train-model JobState=RUNNING'")
    done = head.ask("cancel", "7")
    assert done.returncode == 1 and "not cancelled" in done.stderr
    assert head.calls[-1].startswith("scontrol")


@pytest.mark.parametrize(("features", "taken"), [("(null)", 2), ("p5", 1), ("p6", 0)])
def test_waiting_job(head: HeadNode, features: str, taken: int) -> None:
    head.tool("scontrol", f"echo '{MINE.format('PENDING')} Features={features}'")
    assert head.answer("look", "7", f"{head.folder}/results/validation/run-1/hello-gpu") == {
        "state": "PENDING", "reason": "Resources", "nodes": "", "ended": False, "taken": taken,
        "down": ["gpu-dy-p5-1 down~: (Code:InsufficientInstanceCapacity)"],
    }  # fmt: skip


@pytest.mark.parametrize("forgotten", [False, True])
def test_ended_job(head: HeadNode, forgotten: bool) -> None:
    said = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
    head.tool("scontrol", said if forgotten else f"echo '{MINE.format('COMPLETED')} RunTime=1-00:01:02'")
    folder = head.folder / "results" / "validation" / "run-1" / "hello-gpu"
    folder.mkdir(parents=True)
    (folder / "output.txt").write_text(
        "x" * 9000 + "\nnode-1: 8 GPUs\nnode-2: FAILED: 7 GPUs, and there must be 8. Take the node out\n"
    )
    found = head.answer("look", "7", str(folder))
    assert found["ended"] and found["state"] == ("FORGOTTEN" if forgotten else "COMPLETED")
    assert found["result"] == {"node-1": 8, "node-2": 7}
    assert found.get("seconds") == (None if forgotten else 86462)
    assert len(found["tail"]) <= request_handler.TAIL_CHARACTERS


def test_facts(head: HeadNode) -> None:
    (head.folder / "pytorch.sqsh").touch()
    (head.folder / ".partial.sqsh").touch()
    head.tool("fio", "")
    found = head.answer("facts")
    assert found["images"] == ["pytorch"] and "fio" in found["programs"] and "torch" not in found["programs"]
    # The jobs' Python, not the one that carries out the request.
    (head.folder / "torch").mkdir()
    head.tool("python3", f'PYTHONPATH={head.folder} exec {sys.executable} "$@"')
    assert head.answer("facts")["programs"] == [*found["programs"], "torch"]


def test_lines_of_gpu_check() -> None:
    output = (
        "n1: GPUs            8            wanted 8     passed\n"
        "n1: EFA interfaces  31           wanted 32    FAILED  is /dev/infiniband mounted?\n"
        "n2: NVLinks a GPU   not asked    wanted any   -\n"
    )
    found = results.of("gpu-check", Path("/nowhere"), output)
    bad = {
        "what": "EFA interfaces", "found": "31", "wanted": "32", "verdict": "FAILED",
        "do": "is /dev/infiniband mounted?",
    }  # fmt: skip
    assert found["n1"] == {"node": "n1", "passed": 1, "failed": 1, "lines": [bad], "left_out": 0}
    # A line without an expectation neither passed nor failed.
    assert (found["n2"]["passed"], found["n2"]["failed"], found["n2"]["lines"]) == (0, 0, [])


NODES = [f"gpu-dy-p5-48xlarge-{number}" for number in range(1, 65)]


def test_scans_of_64_bad_nodes_fit_systems_manager(tmp_path: Path) -> None:
    line = {"found": "f\n" * 200, "wanted": "w" * 200, "action": "a" * 300}
    bad = [{"name": f"check-{number}", "verdict": "failure", **line} for number in range(6)]
    bad += [{"name": f"warning-{number}", "verdict": "warning", **line} for number in range(6)]
    counts = {"ok": 3, "warning": 6, "failure": 6, "skipped": 0}
    for name in NODES:
        report = {"schema": 1, "host": name, "verdict": "failure", "counts": counts, "lines": bad}
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    found = results.of("host-scan", tmp_path, "")
    assert sorted(node["node"] for node in found) == sorted(NODES)
    assert all(node["verdict"] == "failure" and node["counts"] == counts for node in found)
    assert all(len(node["lines"]) + node["left_out"] == 12 for node in found)
    said = request_handler.one_line({"state": "FAILED", "ended": True, "result": found, "tail": "\x01" * 4000})
    assert len(said) <= request_handler.MOST_CHARACTERS
    assert json.loads(said)["tail"] == ""


def test_warnings_are_left_out_first(tmp_path: Path) -> None:
    bad = [{"name": "gpus", "verdict": "failure", "found": "7", "wanted": "8", "action": "have it replaced"}]
    warning = {"name": "w", "verdict": "warning", "found": "f" * 90, "wanted": "", "action": ""}
    bad += [warning] * 2
    for name in NODES:
        (tmp_path / f"{name}.json").write_text(json.dumps({"host": name, "verdict": "failure", "lines": bad}))
    found = results.of("host-scan", tmp_path, "")
    assert all(node["left_out"] == 2 and node["lines"] == bad[:1] for node in found)


@pytest.mark.parametrize("verdict", ["passed", "FAILED"])
def test_gpu_check_of_64_nodes_fits_systems_manager(verdict: str) -> None:
    form = "{}: EFA interfaces {:<3}  31                   wanted 32    {}  is /dev/infiniband mounted, is EFA enabled?"
    output = "\n".join(form.format(name, number, verdict) for name in NODES for number in range(7))
    found = results.of("gpu-check", Path("/nowhere"), output)
    said = request_handler.one_line({"state": "FAILED", "ended": True, "result": found, "tail": "x" * 4000})
    assert len(said) <= request_handler.MOST_CHARACTERS and json.loads(said)["result"] == found
    for node in found.values():
        assert (node["passed"], node["failed"]) == ((7, 0) if verdict == "passed" else (0, 7))
        assert bool(node["lines"]) == (verdict == "FAILED")
        assert len(node["lines"]) + node["left_out"] == node["failed"]


def test_largest_nccl_answer_fits_systems_manager(tmp_path: Path) -> None:
    rows = [{"bytes": 8 << step, "busbw": 123.4, "wrong": 0} for step in range(30)]
    floors = [{"bytes": 1 << 27, "busbw": 200}, {"bytes": 1 << 30, "busbw": 250}]
    one = {
        "passed": False,
        "engine": "torch 2.11.0",
        "network": "OFI efa",
        "faults": ["f" * 900] * 4,
        "floors": floors,
        "rows": rows,
    }
    names = ("all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "alltoall")
    collectives = [{"collective": name, **one} for name in names]
    (tmp_path / "verdict.json").write_text(json.dumps({"passed": False, "nodes": 2, "collectives": collectives}))
    found = results.of("nccl-tests", tmp_path, "")
    assert found["collectives"][0]["floors"][1] == {"bytes": 1 << 30, "busbw": 250, "found": 123.4}
    assert len(json.dumps(found)) + request_handler.TAIL_CHARACTERS < 24_000


def test_only_nodes_that_the_verdict_names_are_drained(head: HeadNode) -> None:
    folder = head.folder / "results" / "validation" / "run-1" / "pair-test"
    (folder / "results").mkdir(parents=True)
    done = head.ask("drain", str(folder))
    assert done.returncode == 1 and "no verdict on nodes" in done.stderr

    (folder / "output.txt").touch()

    def verdict(nodes: int) -> None:
        faults = [
            {
                "kind": kind,
                "nodes": [f"{kind}-1", f"{kind}-2"][: 1 + (kind in ("link", "group"))],
                "found": 0.5 * (kind != "silent"),
                "peers": 50,
            }
            for kind in ("node", "silent", "link", "group", "undecided")
        ]
        (folder / "results" / "verdict.json").write_text(json.dumps({"nodes": nodes, "faults": faults}))

    verdict(8)
    reason, silent = "trainyard: pair-test 0.5 of 50 GB/s", "trainyard: pair-test no answer"
    assert head.answer("drain", str(folder)) == {"drain": {"node-1": reason, "silent-1": silent}, "out": []}
    head.tool("sinfo", "echo node-1; echo other")
    assert head.answer("drain", str(folder)) == {"drain": {"silent-1": silent}, "out": ["node-1"]}
    assert head.calls[-1] == "sinfo --Node --noheader --states=drain,down,fail --format=%N"
    verdict(7)
    done = head.ask("drain", str(folder))
    assert done.returncode == 1 and "2 of 7 nodes are bad: more than a quarter is not drained" in done.stderr


NODES_OF_SINFO = """\
gpu-dy-p5-1 gpu* idle gpu:h100:8(S:0-1)
gpu-dy-p5-2 gpu* idle gpu:h100:8(S:0-1)
gpu-dy-p5-3 gpu* idle~ gpu:h100:8
gpu-dy-p5-4 gpu* idle% gpu:h100:8
gpu-dy-p5-5 gpu* mix gpu:h100:8
gpu-dy-p5-6 gpu* drain gpu:h100:8
gpu-dy-p5-7 gpu* idle* gpu:h100:8
gpu-dy-p5-8 gpu* plnd gpu:h100:8
cpu-st-c7i-1 cpu idle (null)
cpu-dy-c7i-1 cpu idle# (null)
"""


def test_idle_nodes_that_are_up_are_checked_and_no_other(head: HeadNode) -> None:
    """A job that does not start at once is removed: it could make ParallelCluster start a node."""
    head.tool("sinfo", f"cat <<'END'\n{NODES_OF_SINFO}END")
    head.tool("scontrol", f"echo '{MINE.format('COMPLETED')}'")
    for check in ("host-scan", "gpu-check"):
        (head.folder / "scripts" / "current" / "jobs").mkdir(parents=True, exist_ok=True)
        (head.folder / "scripts" / "current" / "jobs" / f"{check}.sbatch").touch()
    failed = "x: GPUs            7            wanted 8     FAILED  drain"
    head.tool(
        "sbatch",
        f'[[ "$*" != *gpu-check* ]] || echo "{failed}" >"$(sed "s/.*--output=\\([^ ]*\\).*/\\1/" <<<"$*")"\necho 7',
    )
    answer = head.answer("idle")
    assert [(job["check"], job["nodes"], job["state"], job["bad"]) for job in answer["jobs"]] == [
        ("host-scan", ["gpu-dy-p5-1", "gpu-dy-p5-2"], "COMPLETED", {}),
        ("host-scan", ["cpu-st-c7i-1"], "COMPLETED", {}),
        ("gpu-check", ["gpu-dy-p5-1", "gpu-dy-p5-2"], "COMPLETED", {"x": "GPUs"}),
    ]
    lines = [line.split() for line in head.calls if line.startswith("sbatch")]
    assert {"--nodelist=gpu-dy-p5-1,gpu-dy-p5-2", "--nodes=2", "--partition=gpu", "--nice=10000"} <= set(lines[0])
    assert all({"--time=5", "--deadline=now+6minutes"} <= set(line) for line in lines)
    # Its history, one line a night.
    history = head.folder / "results" / "validation" / "idle-nodes.jsonl"
    assert [json.loads(line) for line in history.read_text().splitlines()] == [answer]


def test_without_idle_nodes_no_job_is_submitted(head: HeadNode) -> None:
    head.tool("sinfo", "echo 'gpu-dy-p5-3 gpu* idle~ gpu:h100:8'")
    assert head.answer("idle")["jobs"] == []
    assert not [line for line in head.calls if line.startswith("sbatch")]


@pytest.mark.parametrize(("policy", "bad", "drains"), [("report", True, 0), ("drain", True, 1), ("drain", False, 0)])
def test_bad_idle_nodes_fail_the_unit_and_are_drained_by_policy(
    head: HeadNode, policy: str, bad: bool, drains: int
) -> None:
    """idle-nodes.sh is what the timer starts."""
    for name in ("validation/idle-nodes.sh", "lib/base.sh", "lib/settings.sh"):
        (head.folder / name).parent.mkdir(exist_ok=True)
        (head.folder / name).write_text((PROGRAM.parents[1] / name).read_text())
    found = {"n1": "GPUs"} if bad else {}
    jobs = [
        {"check": "gpu-check", "nodes": ["n1", "n2"], "state": "FAILED", "folder": "/fsx/1/gpu-check", "bad": found}
    ]
    request = head.folder / "validation" / "request.sh"
    request.write_text(f"echo \"$*\" >>{head.folder}/requests\necho '{json.dumps({'jobs': jobs})}'\n")
    settings = head.folder / "settings.json"
    settings.write_text(json.dumps({"validation": {"on_failure": policy}}))
    done = subprocess.run(
        ["bash", head.folder / "validation" / "idle-nodes.sh"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TRAINYARD_SETTINGS": str(settings)},
    )
    assert done.returncode == int(bad), done.stderr
    assert ("bad nodes: n1 (gpu-check GPUs)" in done.stderr) is bad
    assert "gpu-check on 2 idle nodes: FAILED, see /fsx/1/gpu-check" in done.stdout
    assert (head.folder / "requests").read_text().splitlines() == ["idle", *["drain /fsx/1/gpu-check"] * drains]


SCANS = {
    "n1": {
        "verdict": "failure",
        "lines": [{"name": "gpus", "verdict": "failure"}, {"name": "x", "verdict": "warning"}],
    },
    "n2": {"verdict": "warning", "lines": [{"name": "x", "verdict": "warning"}]},
}


@pytest.mark.parametrize(
    ("check", "output", "drained"),
    [
        ("host-scan", "", {"n1": "trainyard: host-scan gpus"}),
        ("hello-gpu", "n1: FAILED: 7 GPUs, and there must be 8. Take\nn2: 8 GPUs\n",
         {"n1": "trainyard: hello-gpu 7 of 8 GPUs"}),
        ("hello-gpu", "n1: nvidia-smi failed: $(id); \nn2: 8 GPUs\n", {"n1": "trainyard: hello-gpu nvidia-smi failed"}),
        ("hello-gpu", "n1: 8 GPUs\nn2: 8 GPUs\n", {}),
        ("gpu-check", "n1: GPUs     7   wanted 8     FAILED  drain\nn2: GPUs     8   wanted 8     passed\n",
         {"n1": "trainyard: gpu-check GPUs"}),
        ("gpu-burn", "", {"n1": "trainyard: gpu-burn GPU 3  GPU-9 : Xid 79"}),
        ("storage-test", "", {}),
        ("s3-test", "", {}),
    ],
)  # fmt: skip
def test_bad_nodes_of_other_jobs(head: HeadNode, check: str, output: str, drained: dict[str, str]) -> None:
    """One bad node is drained however few there are; warnings are not faults."""
    folder = head.folder / "results" / "validation" / "run-1" / check
    (folder / "results").mkdir(parents=True)
    (folder / "output.txt").write_text(output)
    if check == "gpu-burn":
        kinds = {"gpu": ("n1", "GPU 3 (GPU-9): Xid 79"), "error": ("n2", "no torch")}
        faults = [{"kind": kind, "nodes": [node], "text": text} for kind, (node, text) in kinds.items()]
        (folder / "results" / "verdict.json").write_text(json.dumps({"nodes": 2, "faults": faults}))
    if check == "host-scan":
        for name, report in SCANS.items():
            (folder / "results" / f"{name}.json").write_text(json.dumps(report))
    assert head.answer("drain", str(folder)) == {"drain": drained, "out": []}


@pytest.mark.parametrize(
    ("check", "text", "of_a_fault"), [("pair-test", 150, 1), ("pair-test", 150, 500), ("gpu-burn", 600, 1)]
)
def test_verdict_on_faults_of_1000_nodes_fits_systems_manager(
    tmp_path: Path, check: str, text: int, of_a_fault: int
) -> None:
    names = [f"gpu-queue-dy-p5e-48xlarge-{number}" for number in range(1000)]
    fault = {"kind": "node", "found": 37.512, "peers": 50.123, "pairs": 9, "gpus": {}, "text": "t" * text}
    faults = [{**fault, "nodes": names[first : first + of_a_fault]} for first in range(0, 1000, of_a_fault)]
    pairs, gpus = [[one, one + 1, 50.123] for one in range(9000)], {name: {"gpus": [{"tflops": 7.5}]} for name in names}
    figures = pairs if check == "pair-test" else gpus
    (tmp_path / "verdict.json").write_text(json.dumps({"passed": False, "faults": faults, "figures": figures}))
    found = results.of(check, tmp_path, "")
    assert len(found["faults"]) >= min(len(faults), 30)
    assert len(found["faults"]) + found["left_out"] == len(faults)
    assert not found["slowest"]  # the faults, which name the nodes, take the room
    assert all(len(one["nodes"]) + one["left_out"] == of_a_fault for one in found["faults"])
    said = request_handler.one_line({"state": "FAILED", "ended": True, "result": found, "tail": "x" * 4000})
    assert len(said) <= request_handler.MOST_CHARACTERS


def test_document_takes_one_request_of_plain_words() -> None:
    stack = cdk.Stack()
    ValidationDocument(stack, "Checks")
    [document] = Template.from_stack(stack).find_resources("AWS::SSM::Document").values()
    content = document["Properties"]["Content"]
    assert list(content["parameters"]) == ["Request"]
    assert content["mainSteps"][0]["inputs"]["runCommand"] == [
        "#!/bin/bash", "exec bash /opt/trainyard/current/validation/request.sh {{ Request }}",
    ]  # fmt: skip
    assert re.search(REQUEST, "submit storage-test gpu - 2 60 20261121-1 --mounts-to-test /fsx --fraction 80")
    for text in ("facts; id", "facts $(id)", "facts `id`", "facts | sh", "facts > /x", "facts 'x'", "facts *", "a\nid"):
        assert not re.search(REQUEST, text), text


def test_state_for_a_support_bundle_fits_into_an_answer(head: HeadNode) -> None:
    """Also where Slurm prints much; a job's name and user are not asked for."""
    for name in ("sinfo", "squeue", "sdiag"):
        head.tool(name, f"yes '{name} prints a line' | head -n 10000")
    found = head.answer("state")
    assert {name.split()[0] for name in found} == {"sinfo", "squeue", "sdiag"}
    assert all(text.startswith(f"{name.split()[0]} prints a line\n") for name, text in found.items())
    assert len(json.dumps(found)) < request_handler.MOST_CHARACTERS
    [asked] = [call for call in head.calls if call.startswith("squeue")]
    assert not set(re.findall(r"%\w", asked)) & {"%u", "%U", "%j"}
