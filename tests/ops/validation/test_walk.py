"""A validation from its first request to its report, with prepared answers of the head node."""

from __future__ import annotations

from typing import Any

import pytest

from ops.problem import Problem
from ops.validation import judge, plan
from ops.validation.command import TOTAL_MINUTES, Walk
from ops.validation.plan import BURN, GPUS, HELLO, NCCL, NODE_SCAN, PAIRS, S3, STORAGE, Job, Place, Planner, Selection
from ops.validation.report import Line, Outcome, Report
from settings import environment_file, load
from tests.ops.validation.fakes import HEALTHY, NODES, RUNNING, Answer, FakeNode, Time, ended, pending
from trainyard.pipeline import steps

LOCAL = load(environment_file("local"))
PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def walk(
    node: FakeNode,
    *checks: str,
    start_minutes: float = 30,
    total_minutes: float = 200,
    required: bool = False,
    emulated: bool = False,
) -> tuple[list[Line], list[str], float]:
    """The lines, the progress, and the seconds that passed."""
    time, progress = Time(), list[str]()
    jobs, left_out = Planner(LOCAL, Selection(checks, checks if required else ()), ("fio", "nccl-tests")).plan()
    running = Walk(node, "run", start_minutes, progress.append, time.sleep, time.clock, total_minutes, emulated)
    return list(running.lines([job for job in jobs if job.place.queue != "cpu"], left_out)), progress, time.now


def outcomes(lines: list[Line]) -> list[Outcome]:
    return [line.outcome for line in lines]


def report(*lines: Line) -> Report:
    return Report("local", "local", "i-1", lines)


def scans(verdict: str = "ok", *lines: dict[str, str]) -> list[Answer]:
    return [{**HEALTHY, "node": NODES[0]}, {**HEALTHY, "node": NODES[1], "verdict": verdict, "lines": list(lines)}]


def scan_line(verdict: str) -> dict[str, str]:
    return {"name": "gpus", "verdict": verdict, "found": "7 x H100", "wanted": "8 x H100", "action": "replace it"}


def nccl(rate: float, *faults: str) -> Answer:
    one = {
        "collective": "all_reduce", "passed": not faults, "network": "OFI efa", "engine": "torch 2.11.0",
        "faults": list(faults),
        "floors": [{"bytes": 1 << 30, "busbw": 250, "found": rate}], "largest": {"bytes": 4 << 30, "busbw": rate},
    }  # fmt: skip
    return {"passed": not faults, "nodes": 2, "collectives": [one]}


NO_TABLE = nccl(0, "no table: the test did not run, see its output")
NO_TABLE["collectives"][0] |= {"floors": [], "largest": {"bytes": 0, "busbw": 0}, "network": "not shown"}


def storage(rate: float, *faults: str, provisioned: int = 150) -> list[Answer]:
    rates = {"write": rate, "read": rate}
    return [
        {
            "mount": "/fsx", "passed": not faults, "provisioned_mb_s": provisioned, "target_mb_s": float(provisioned),
            "mb_s": rates, "faults": list(faults),
        }
    ]  # fmt: skip


def s3(*faults: dict[str, Any], **more: object) -> Answer:
    """A verdict of s3_speed.py in short form."""
    said = [{"kind": "node", "nodes": ["n3"], "text": "slow", "left_out": 0, **one} for one in faults]
    rates = {"peers": {"write": 2.0, "read": 2.5}, "all": {"write": 4.1, "read": 5.0}, "share_percent": 50.0}
    counts = {"passed": not faults, "nodes": 2, "left_out": 0, "slowest": [("n3", 0.4), ("n1", 2.0)]}
    return {**rates, **counts, "faults": said, **more}


GOOD: dict[str, Any] = {
    "host-scan": ended(result=scans()),
    "hello-gpu": lambda look: RUNNING if look < 3 else ended(result=dict.fromkeys(NODES, 8)),
    "gpu-check": ended(result={key: {"passed": 1, "failed": 0, "lines": [], "left_out": 0} for key in NODES}),
    "nccl-tests": ended(result=nccl(400)),
    "storage-test": ended(result=storage(140)),
    "s3-test": ended(result=s3()),
}


def test_healthy_cluster_passes() -> None:
    node = FakeNode(GOOD)
    lines, _, _ = walk(node, *plan.CHECKS)
    assert report(*lines).passed, report(*lines).headline
    assert not node.cancelled
    assert node.submitted == list(GOOD)


ONE_BAD = {"what": "GPUs", "found": "7", "wanted": "8", "verdict": "FAILED", "do": ""}


@pytest.mark.parametrize(
    ("check", "answer", "expected", "found"),
    [
        (NODE_SCAN, ended("FAILED", scans("failure", scan_line("failure")), "tail"), "passed failed", "7 x H100"),
        (NODE_SCAN, ended(result=scans()[:1]), "passed failed", "1 of 2 nodes gave a report"),
        (NODE_SCAN, ended(result=scans("warning", scan_line("warning"))), "passed warning passed", "9 ok, 0 warnings"),
        (HELLO, ended(result={NODES[0]: 8, NODES[1]: 7}), "passed failed", "7 GPUs"),
        (GPUS, ended("FAILED", {NODES[0]: {"passed": 4, "failed": 2, "lines": [ONE_BAD]}}), "failed warning failed",
         "1 of 2 nodes gave what it has"),
        (GPUS, ended("FAILED", {key: {"passed": 4, "failed": 2, "lines": []} for key in NODES}), "failed failed",
         "4 as wanted, 2 not"),
        (NCCL, ended("FAILED", nccl(120, "floor 250: source")), "failed",
         "floor 250: source; 120.0 GB/s at 1 GiB; over OFI efa, torch 2.11.0"),
        (NCCL, ended("FAILED", NO_TABLE), "failed",
         "no table: the test did not run, see its output; over not shown, torch 2.11.0"),
        (STORAGE, ended("FAILED", storage(50, "floor 120")), "failed", "write 50 MB/s, read 50 MB/s; floor 120"),
        (STORAGE, ended(result=storage(140, provisioned=100)), "passed failed",
         "the cluster's settings say 100 MB/s"),
    ],
    ids=["scan fails", "a report is missing", "warnings pass", "a GPU is gone", "more lines than fit", "no line fits",
         "NCCL below its floor", "NCCL without a table", "slow file system", "another throughput"],
)  # fmt: skip
def test_results_of_jobs(check: str, answer: Answer, expected: str, found: str) -> None:
    lines, _, _ = walk(FakeNode(dict.fromkeys(GOOD, answer)), check)
    assert " ".join(outcomes(lines)) == expected
    assert lines[-1].found == found
    assert report(*lines).passed == ("failed" not in expected)


def test_answers_of_stand_ins_say_simulated() -> None:
    """On the emulated AWS Slurm and the nodes' limits are genuine, and nothing else that a node answers."""
    bad = [scan_line("warning"), scan_line("warning") | {"name": "open-files", "found": "1024"}]
    node = FakeNode({**GOOD, "host-scan": ended(result=scans("warning", *bad)), "hello-gpu": ended("FAILED")})
    lines, _, _ = walk(node, *plan.CHECKS, emulated=True)
    real = {(line.check, line.asked) for line in lines if not line.simulated}
    assert real == {(NODE_SCAN, "open-files"), (HELLO, "does every GPU answer?")}
    assert "0 of 2 nodes gave its GPUs" in [line.found for line in lines if line.check == HELLO]
    assert all(line.simulated == ("simulated: " in line.found) for line in lines)
    found = {line.check: line.found for line in lines if line.simulated}
    assert found[NCCL] == "simulated: 400.0 GB/s at 1 GiB; over OFI efa, torch 2.11.0"
    assert found[NODE_SCAN] == "9 ok, 0 warnings (simulated: GPUs, EFA, disks, file systems, Enroot, Pyxis)"
    assert not any(line.simulated for line in walk(FakeNode(GOOD), *plan.CHECKS)[0])


def pairs(*faults: dict[str, Any], **more: object) -> Answer:
    """A verdict of tournament.py in short form."""
    said = [{"nodes": ["n3"], "text": "slow: 37.5 GB/s", "left_out": 0, **one} for one in faults]
    figures = {"peers": 50.0, "margin_percent": 10.0, "noise_percent": 1.5, "measure": "nccl", "simulated": False}
    counts = {"nodes": 16, "rounds": 4, "pairs": 32, "passed": not faults, "left_out": 0}
    return {**figures, **counts, "faults": said, **more}


@pytest.mark.parametrize(
    ("verdict", "outcome", "where", "found"),
    [
        (pairs(), PASSED, "gpu/p5", "16 nodes, 32 pairs in 4 rounds, 50 GB/s"),
        *((pairs({"kind": kind}), FAILED, "n3", "slow: 37.5 GB/s")
          for kind in ("node", "silent", "link", "group", "undecided")),
        (pairs({"kind": "group", "nodes": ["n1", "n2"], "left_out": 3}), FAILED, "n1, n2 and 3 more",
         "slow: 37.5 GB/s"),
        (pairs(noise_percent=8.0, margin_percent=32.0), Outcome.WARNING, "gpu/p5",
         "16 nodes, 32 pairs in 4 rounds, 50 GB/s; they vary by 8 %, so that only large differences show"),
        (pairs(nodes=15), FAILED, "gpu/p5", "15 nodes"),
        (None, FAILED, "gpu/p5", "nothing"),
    ],
)  # fmt: skip
def test_lines_of_pairs(verdict: Answer | None, outcome: Outcome, where: str, found: str) -> None:
    job = Job(PAIRS, Place("gpu", "gpu/p5", 16, 8), ("--measure", "nccl"))
    [line] = judge.ended(job, ended("COMPLETED" if verdict else "FAILED", verdict), emulated=True)
    assert (line.outcome, line.where, line.found, line.simulated) == (outcome, where, found, False)
    assert outcome is not FAILED or line.action
    if verdict:
        [line] = judge.ended(job, ended(result={**verdict, "simulated": True}), emulated=True)
        assert line.simulated is ("nodes" not in found or " pairs in " in found) and found in line.found


@pytest.mark.parametrize(
    ("asked", "faulty", "node", "found"),
    [
        (False, True, FakeNode(), None),
        (True, False, FakeNode(), None),
        (True, True, FakeNode(drains={"n3": "slow"}), "drained: n3"),
        (True, True, FakeNode(), "drained: none, no fault is of a node alone"),
        (True, True, FakeNode(out=("n3",)), "drained: none; already out of service: n3"),
        (True, True, FakeNode(refuses={"drain": "9 of 16 nodes are bad"}), "9 of 16 nodes are bad"),
    ],
    ids=["not asked for", "nothing is bad", "a node", "a pair", "already", "too many"],
)
def test_bad_nodes_are_drained_only_when_asked(asked: bool, faulty: bool, node: FakeNode, found: str | None) -> None:
    node.asked.clear()
    node.looks["pair-test"] = ended(result=pairs({"kind": "node"}) if faulty else pairs())
    time = Time()
    job = Job(PAIRS, Place("gpu", "gpu/p5", 16, 8), ("--measure", "nccl"))
    lines = list(Walk(node, "run", 30, lambda _: None, time.sleep, time.clock, drain=asked).lines([job], []))
    assert lines[0].outcome is (FAILED if faulty else PASSED)
    assert [line.found for line in lines[1:]] == ([found] if found else [])
    assert (("drain", "/fsx") in node.asked) is bool(found)


def test_nodes_are_drained_after_the_last_job() -> None:
    """A job that asks for all nodes would wait for them."""
    node = FakeNode(
        {**GOOD, "hello-gpu": ended("FAILED", {NODES[0]: 8, NODES[1]: 7})}, drains={NODES[1]: "7 of 8 GPUs"}
    )
    jobs, _ = Planner(LOCAL, Selection((HELLO, NCCL)), ("nccl-tests",)).plan()
    lines = list(Walk(node, "run", 30, lambda _: None, Time().sleep, Time().clock, drain=True).lines(jobs, []))
    assert [words[0] for words in node.asked if words[0] in ("submit", "drain")] == ["submit", "submit", "drain"]
    assert lines[-1].found == f"drained: {NODES[1]}" and lines[-1].outcome is Outcome.WARNING


SLOW = "GPU 3 (GPU-9): 629 TFLOP/s, 10 % below 700 of its peers"
USUAL = "NVIDIA H200 700 TFLOP/s, 4000 GB/s"


def burnt(*faults: dict[str, Any], gpus: int = 16, **more: object) -> Answer:
    """A verdict of gpu_burn.py in short form."""
    said = [{"kind": "gpu", "nodes": ["n3"], "text": SLOW, "left_out": 0, **one} for one in faults]
    peers = {"NVIDIA H200": {"tflops": 700.0, "gb_s": 4000.0, "from_host": 55.0}} if gpus else {}
    verdict = {"nodes": 2, "gpus": gpus, "peers": peers, "margin_percent": 10.0, "xids_unread": 0, "left_out": 0}
    return {**verdict, "passed": not faults, "faults": said, **more}


@pytest.mark.parametrize(
    ("verdict", "expected", "where", "found"),
    [
        (burnt(), [PASSED], "gpu/p5", f"16 GPUs, {USUAL}"),
        (burnt(gpus=15), [FAILED], "gpu/p5", f"15 GPUs, {USUAL}"),
        (burnt({}), [FAILED], "n3", SLOW),
        (burnt({"kind": "error", "nodes": ["n1", "n2"], "left_out": 78, "text": "no torch"}, gpus=0), [FAILED],
         "n1, n2 and 78 more", "no torch"),
        (burnt(xids_unread=8), [PASSED, Outcome.WARNING], "gpu/p5", f"16 GPUs, {USUAL}"),
        (burnt({}, left_out=7), [FAILED, Outcome.WARNING], "n3", SLOW),
        (burnt(unasked={"dcgmi: not there": 2}), [PASSED, SKIPPED], "gpu/p5", f"16 GPUs, {USUAL}"),
        (None, [FAILED], "gpu/p5", "nothing"),
    ],
)  # fmt: skip
def test_lines_of_gpu_burn(verdict: Answer | None, expected: list[Outcome], where: str, found: str) -> None:
    lines = judge.ended(Job(BURN, Place("gpu", "gpu/p5", 2, 8)), ended(result=verdict))
    assert outcomes(lines) == expected
    assert (lines[0].where, lines[0].found) == (where, found)
    # Later runs are compared with these: GPUs that are all slower than before have no faster peers.
    figures = {"TFLOP/s, NVIDIA H200": 700.0, "GB/s, NVIDIA H200": 4000.0, "GB/s from the host, NVIDIA H200": 55.0}
    assert lines[0].figures == (figures if found.endswith(USUAL) else {})
    assert lines[0].outcome is PASSED or (lines[0].action and "NAME" not in lines[0].action)


def test_line_of_a_failed_scan_is_whole() -> None:
    answer = ended("FAILED", scans("failure", scan_line("failure")), "the last words")
    lines, _, _ = walk(FakeNode({"host-scan": answer}), NODE_SCAN)
    assert lines[1] == Line(
        "scan", NODES[1], "gpus", "7 x H100", "8 x H100", FAILED, "replace it", "the last words"
    )  # fmt: skip


def test_storage_shows_each_number_of_nodes() -> None:
    rates = {1: 50.0, 6: 130.0, 12: 140.0}
    [verdict] = storage(140)
    steps = [{"nodes": nodes, "mb_s": {"write": rate, "read": rate}} for nodes, rate in rates.items()]
    verdict |= {"steps": steps, "scaling": ["write: the nodes are the limit, 50 MB/s each"]}
    job = Job(STORAGE, Place("gpu", "gpu/p5", 12, 8), mount="/fsx", mb_s=150, percent=80)
    [line] = judge.ended(job, ended(result=[verdict]))
    assert line.found == (
        "write 50 / 130 / 140 MB/s, read 50 / 130 / 140 MB/s from 1 / 6 / 12 nodes; "
        "write: the nodes are the limit, 50 MB/s each"
    )
    assert line.figures["read MB/s of 12 nodes"] == 140 and line.figures["write MB/s of 1 node"] == 50
    [chart] = line.charts
    assert chart.labels[:3] == ("write, 1 node", "write, 6 nodes", "write, 12 nodes") and len(chart.points) == 6
    assert chart.points[0] == (0, 50, 120, 150) and chart.series == ("measured", "required", "provisioned")


@pytest.mark.parametrize(
    ("verdict", "outcome", "where", "found"),
    [
        (s3(), PASSED, "gpu/p5",
         "2 nodes: write 2 GB/s each, 4.1 GB/s of all, read 2.5 GB/s each, 5 GB/s of all"),
        (s3({}), FAILED, "n3", "slow"),
        (s3({"kind": "error", "nodes": ["n1", "n2"], "left_out": 78, "text": "AccessDenied"}, peers={}, all={}),
         FAILED, "n1, n2 and 78 more", "AccessDenied"),
        (s3(nodes=1), FAILED, "gpu/p5", "1 nodes"),
        (None, FAILED, "gpu/p5", "nothing"),
    ],
)  # fmt: skip
def test_lines_of_s3(verdict: Answer | None, outcome: Outcome, where: str, found: str) -> None:
    [line] = judge.ended(Job(S3, Place("gpu", "gpu/p5", 2, 8)), ended(result=verdict))
    assert (line.outcome, line.where, line.found, line.figures) == (outcome, where, found, {})
    assert outcome is PASSED or line.action
    if verdict and verdict["peers"]:
        [chart] = line.charts
        assert (chart.labels, chart.points[0]) == (("n3", "n1"), (0, 0.4, 1.0))


def test_wanted_figures() -> None:
    lines, _, _ = walk(FakeNode(GOOD), NCCL, STORAGE)
    assert [line.wanted for line in lines] == ["250 GB/s at 1 GiB", "80 % of 150 MB/s"]


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED"])
def test_good_result_of_a_failed_job_fails(state: str) -> None:
    lines, _, _ = walk(FakeNode({"hello-gpu": ended(state, dict.fromkeys(NODES, 8))}), HELLO)
    assert lines[-1].outcome is FAILED and lines[-1].found.startswith(state)


@pytest.mark.parametrize("check", [HELLO, GPUS, NCCL, STORAGE, NODE_SCAN])
def test_completed_job_without_a_result_fails(check: str) -> None:
    lines, _, _ = walk(FakeNode(dict.fromkeys(GOOD, ended())), check)
    assert FAILED in outcomes(lines)
    assert check not in (NCCL, STORAGE) or {line.action for line in lines} == {"read the end of its output"}


def test_job_that_never_starts_fails_with_slurms_reason() -> None:
    node = FakeNode({"hello-gpu": pending("ReqNodeNotAvail")})
    [line], progress, seconds = walk(node, HELLO, start_minutes=2)
    assert (line.outcome, line.found) == (FAILED, "pending for 2 min, Slurm's reason: ReqNodeNotAvail")
    assert "InsufficientInstanceCapacity" in line.output
    assert node.cancelled == ["1"]
    assert 120 < seconds < 150
    # Once, not with every look.
    assert len([text for text in progress if "waits" in text]) == 1


@pytest.mark.parametrize("reason", ["Resources", "Priority"])
def test_cluster_whose_nodes_all_have_jobs_is_not_judged(reason: str) -> None:
    node = FakeNode({"host-scan": pending(reason, down=(), taken=2)})
    lines, _, seconds = walk(node, *plan.CHECKS, start_minutes=2)
    assert outcomes(lines) == [PASSED, *[SKIPPED] * 6]
    assert lines[1].found == "nodes are taken by other jobs, 2 min long"
    headline = "PASSED on the head node alone, no check ran on another node: 1 passed, 6 skipped"
    assert report(*lines).passed and report(*lines).headline == headline
    # One wait: the next job would wait for the same nodes.
    assert len(node.submitted) == 1
    assert node.cancelled == ["1"] and seconds < 150


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (pending("Resources", down=("gpu-dy-p5-2 drain: xid",), taken=1), "pending for 1 min, Slurm's reason"),
        (pending("Resources", down=(), taken=0), "pending for 1 min"),
        (pending("ReqNodeNotAvail", down=(), taken=2), "pending for 1 min"),
        (pending("None", "CONFIGURING", taken=2), "configuring for 1 min"),
        (RUNNING, "still RUNNING after 10 min"),
    ],
)
def test_other_waits_fail(answer: Answer, found: str) -> None:
    node = FakeNode({"hello-gpu": answer})
    [line], _, _ = walk(node, HELLO, start_minutes=1)
    assert line.outcome is FAILED and line.found.startswith(found)
    assert node.cancelled == ["1"]


def test_nodes_that_failed_during_the_wait_are_shown() -> None:
    later, at_first = pending(down=(), taken=2), pending(taken=2)
    node = FakeNode({"hello-gpu": lambda look: at_first if look == 1 else later})
    [line], _, _ = walk(node, HELLO, start_minutes=2)
    assert line.outcome is FAILED and "InsufficientInstanceCapacity" in line.output


def test_required_checks_fail_on_a_busy_cluster() -> None:
    node = FakeNode({"hello-gpu": pending(down=(), taken=2)})
    lines, _, _ = walk(node, HELLO, GPUS, required=True)
    assert outcomes(lines) == [FAILED, FAILED]


def test_total_time() -> None:
    node = FakeNode(dict.fromkeys(GOOD, RUNNING))
    lines, _, seconds = walk(node, HELLO, GPUS, NCCL, total_minutes=15)
    assert [(line.outcome, line.found) for line in lines] == [
        (FAILED, "still RUNNING after 10 min"),
        (FAILED, "ended while it was RUNNING"),
        (FAILED, "not begun: the time was over"),
    ]
    assert node.cancelled == ["1", "2"]
    assert seconds < 16 * 60
    [waiting], _, seconds = walk(FakeNode({"hello-gpu": pending()}), HELLO, total_minutes=10)
    assert waiting.found.startswith("pending for 10 min") and seconds < 11 * 60


def test_node_time_of_other_checks_limits_the_next_and_is_counted() -> None:
    """The head node's figure of a job that ended, the clock's of one that did not; storage has its own time."""
    time = Time()
    node = FakeNode({**GOOD, "gpu-check": RUNNING, "hello-gpu": {**GOOD["nccl-tests"], "seconds": 720}})
    jobs, _ = Planner(LOCAL, Selection((HELLO, GPUS, NCCL, STORAGE)), ("fio", "nccl-tests")).plan()
    running = Walk(node, "run", 30, lambda _text: None, time.sleep, time.clock, node_minutes=23)
    lines = list(running.lines(jobs, []))
    assert [words[5] for words in node.asked if words[0] == "submit"] == ["5", "5", "20"]
    assert (
        lines[-2].found == "not begun: gpu/p5 worked 22 min for other checks" and "--node-minutes" in lines[-2].action
    )
    assert lines[-1].outcome is PASSED
    [used] = plan.together(running.node_hours)
    assert used.where == "gpu/p5" and used.node_hours == pytest.approx(2 * 22 / 60, rel=0.05)


def test_time_limit_of_a_job_is_what_others_left() -> None:
    node = FakeNode(
        {**GOOD, "hello-gpu": ended(result=dict.fromkeys(NODES, 8)) | {"seconds": 480}, "nccl-tests": ended("TIMEOUT")}
    )
    jobs, _ = Planner(LOCAL, Selection((HELLO, NCCL)), ("nccl-tests",)).plan()
    lines = list(Walk(node, "run", 30, lambda _text: None, Time().sleep, Time().clock).lines(jobs, []))
    assert [words[5] for words in node.asked if words[0] == "submit"] == ["5", "22"]
    assert lines[-1].outcome is FAILED


def test_pipelines_step_has_time_for_the_validation_and_its_setup() -> None:
    assert TOTAL_MINUTES + 20 <= steps._VALIDATION_MINUTES


def test_job_that_slurm_refuses() -> None:
    node = FakeNode(refuses={"hello-gpu": "sbatch: error: invalid partition specified: gpu"})
    [line], _, _ = walk(node, HELLO)
    assert line.outcome is FAILED and "invalid partition" in line.found


@pytest.mark.parametrize("end", [KeyboardInterrupt(), Problem("no answer")])
def test_job_is_cancelled_when_the_command_ends_early(end: BaseException) -> None:
    def gone(_look: int) -> Answer:
        raise end

    node = FakeNode({"hello-gpu": gone})
    with pytest.raises(type(end)):
        walk(node, HELLO)
    assert node.cancelled == ["1"]


def test_report_without_lines_has_failed() -> None:
    assert not report().passed
