"""A validation from its first request to its report, on a cluster that answers as it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ops.problem import Problem
from ops.validation import plan
from ops.validation.plan import GPUS, HELLO, NCCL, NODE_SCAN, STORAGE, Means, Wishes
from ops.validation.report import Line, Outcome, Report
from ops.validation.walk import TOTAL_MINUTES, Walk
from settings import load
from tests.ops.validation.fakes import Answer, FakeNode, Time, ended, pending
from trainyard.pipeline import steps

LOCAL = load(Path(__file__).resolve().parents[3] / "environments" / "local.yaml")
NODES = ("gpu-dy-p5-1", "gpu-dy-p5-2")
RUNNING: Answer = {"state": "RUNNING", "reason": "None", "nodes": NODES[0], "seconds": 3, "ended": False}


def walk(
    node: FakeNode, *checks: str, start_minutes: float = 30, total_minutes: float = 200, insisted: bool = False
) -> tuple[list[Line], list[str], Time]:
    time = Time()
    told: list[str] = []
    made = plan.make(LOCAL, Wishes(checks, checks if insisted else ()), Means(("fio", "nccl-tests")))
    made = plan.Plan(
        made.head_scan, tuple(job for job in made.jobs if job.place.queue == "gpu"), made.left_out, made.insisted
    )
    running = Walk(node, "run", start_minutes, told.append, time.sleep, time.clock, total_minutes)
    return list(running.lines(made)), told, time


def always(answer: Answer) -> Callable[[int], Answer]:
    return lambda _number: answer


def scans(verdict: str, *lines: dict[str, str]) -> list[dict[str, Any]]:
    counts = {"ok": 9, "warning": 0, "failure": len(lines), "skipped": 0}
    healthy = {"verdict": "ok", "counts": counts, "lines": []}
    return [{**healthy, "node": NODES[0]}, {**healthy, "node": NODES[1], "verdict": verdict, "lines": list(lines)}]


def outcomes(lines: list[Line]) -> list[Outcome]:
    return [line.outcome for line in lines]


def test_a_healthy_cluster_passes() -> None:
    fabric = {"passed": 1, "failed": 0, "lines": [], "left_out": 0}
    node = FakeNode(
        {
            "host-scan": always(ended(result=scans("ok"))),
            "hello-gpu": lambda look: RUNNING if look < 3 else ended(result=dict.fromkeys(NODES, 8)),
            "gpu-check": always(ended(result=dict.fromkeys(NODES, fabric))),
            "nccl-tests": always(ended(result=nccl(400))),
            "storage-test": always(ended(result=[storage(140)])),
        }
    )
    lines, _, _ = walk(node, *plan.CHECKS)
    report = Report("local", "local", "i-1", tuple(lines))
    assert report.passed and report.exit == 0, report.headline
    assert not node.cancelled
    assert [words[1] for words in node.asked if words[0] == "submit"] == [
        "host-scan", "hello-gpu", "gpu-check", "nccl-tests", "storage-test",
    ]  # fmt: skip


def test_a_node_that_fails_its_scan() -> None:
    bad = {
        "name": "gpus",
        "verdict": "failure",
        "found": "7 x H100",
        "wanted": "8 x H100",
        "action": "have it replaced",
    }
    node = FakeNode({"host-scan": always(ended("FAILED", scans("failure", bad), "the last words"))})
    lines, _, _ = walk(node, NODE_SCAN)
    assert outcomes(lines) == [Outcome.PASSED, Outcome.FAILED]
    assert (lines[1].where, lines[1].asked, lines[1].found, lines[1].wanted) == (
        NODES[1],
        "gpus",
        "7 x H100",
        "8 x H100",
    )
    assert lines[1].action == "have it replaced" and lines[1].output == "the last words"


@pytest.mark.parametrize("shown", [0, 1])
def test_what_an_answer_had_no_room_for_is_counted(shown: int) -> None:
    line = {"what": "GPUs", "found": "7", "wanted": "8", "verdict": "FAILED", "do": ""}
    bad = {"passed": 4, "failed": 2, "lines": [line] * shown, "left_out": 2 - shown}
    node = FakeNode({"gpu-check": always(ended("FAILED", dict.fromkeys(NODES, bad)))})
    lines, _, _ = walk(node, GPUS)
    assert outcomes(lines) == ([Outcome.FAILED, Outcome.WARNING] if shown else [Outcome.FAILED]) * 2
    assert lines[shown].found == ("1 more lines" if shown else "4 as wanted, 2 not")


def test_a_node_without_a_report_has_failed() -> None:
    node = FakeNode({"host-scan": always(ended("COMPLETED", scans("ok")[:1]))})
    lines, _, _ = walk(node, NODE_SCAN)
    assert outcomes(lines) == [Outcome.PASSED, Outcome.FAILED]
    assert lines[1].found == "1 of 2 nodes gave a report"


def test_warnings_pass() -> None:
    bad = {"name": "slurm", "verdict": "warning", "found": "22.05", "wanted": "24.11", "action": "newer"}
    node = FakeNode({"host-scan": always(ended(result=scans("warning", bad)))})
    lines, _, _ = walk(node, NODE_SCAN)
    assert Report("local", "local", "i-1", tuple(lines)).passed
    assert Outcome.WARNING in outcomes(lines)


def test_a_job_that_never_starts_is_ended_and_fails_with_slurms_reason() -> None:
    node = FakeNode({"hello-gpu": always(pending("ReqNodeNotAvail"))})
    lines, told, time = walk(node, HELLO, start_minutes=2)
    [line] = lines
    assert line.outcome is Outcome.FAILED
    assert line.found == "pending for 2 min, Slurm's reason: ReqNodeNotAvail"
    assert "InsufficientInstanceCapacity" in line.output
    assert node.cancelled == ["1"]
    assert 120 < time.now < 150
    # Said once, not with every look.
    assert len([text for text in told if "waits" in text]) == 1


@pytest.mark.parametrize("reason", ["Resources", "Priority"])
def test_a_cluster_whose_nodes_all_have_jobs_is_not_judged(reason: str) -> None:
    node = FakeNode({"host-scan": always(pending(reason, down=(), taken=2))})
    lines, _, time = walk(node, *plan.CHECKS, start_minutes=2)
    report = Report("local", "local", "i-1", tuple(lines))
    assert outcomes(lines) == [Outcome.PASSED, *[Outcome.NOT_ASKED] * 5]
    assert lines[1].found == "nodes are taken by other jobs, 2 min long"
    assert report.passed
    assert report.headline == "PASSED on the head node alone, no other node was asked: 1 passed, 5 not asked"
    # Waited for once: the next job would wait for the same nodes.
    assert len([words for words in node.asked if words[0] == "submit"]) == 1
    assert node.cancelled == ["1"] and time.now < 150


@pytest.mark.parametrize(
    "answer",
    [
        pending("Resources", down=("gpu-dy-p5-2 drain: xid",), taken=1),
        pending("Resources", down=(), taken=0),
        pending("ReqNodeNotAvail", down=(), taken=2),
        pending("PartitionDown", down=(), taken=2),
        pending("Resources", "CONFIGURING", taken=2),
    ],
)
def test_what_waits_for_more_than_other_jobs_fails(answer: Answer) -> None:
    lines, _, _ = walk(FakeNode({"hello-gpu": always(answer)}), HELLO, start_minutes=2)
    assert outcomes(lines) == [Outcome.FAILED]


def test_nodes_that_failed_during_the_wait_are_not_forgotten() -> None:
    later, at_first = pending(down=(), taken=2), pending(taken=2)
    node = FakeNode({"hello-gpu": lambda look: at_first if look == 1 else later})
    [line], _, _ = walk(node, HELLO, start_minutes=2)
    assert line.outcome is Outcome.FAILED and "InsufficientInstanceCapacity" in line.output


def test_checks_that_were_insisted_on_fail_on_a_busy_cluster() -> None:
    node = FakeNode({"hello-gpu": always(pending(down=(), taken=2))})
    lines, _, _ = walk(node, HELLO, GPUS, insisted=True)
    assert outcomes(lines) == [Outcome.FAILED, Outcome.FAILED]


def test_the_whole_ends_in_time_with_a_report() -> None:
    node = FakeNode({"hello-gpu": always(RUNNING), "gpu-check": always(RUNNING), "nccl-tests": always(RUNNING)})
    lines, _, time = walk(node, HELLO, GPUS, NCCL, total_minutes=20)
    assert outcomes(lines) == [Outcome.FAILED] * 3
    assert [line.found for line in lines] == [
        "still RUNNING after 15 min", "ended while it was RUNNING", "not begun: the time was over",
    ]  # fmt: skip
    assert node.cancelled == ["1", "2"]
    assert time.now < 21 * 60


def test_a_job_waits_no_longer_than_the_whole_may_take() -> None:
    lines, _, time = walk(FakeNode({"hello-gpu": always(pending())}), HELLO, total_minutes=10)
    assert outcomes(lines) == [Outcome.FAILED] and lines[0].found.startswith("pending for 10 min")
    assert time.now < 11 * 60


def test_the_pipelines_step_has_time_for_the_whole_and_for_its_own_setup() -> None:
    assert TOTAL_MINUTES + 20 <= steps._VALIDATION_MINUTES


def test_a_node_that_is_only_booting_counts_as_not_started() -> None:
    node = FakeNode({"hello-gpu": always(pending("None", "CONFIGURING"))})
    [line], _, _ = walk(node, HELLO, start_minutes=1)
    assert line.found.startswith("configuring for 1 min")
    assert node.cancelled == ["1"]


def test_a_job_that_does_not_end_is_ended() -> None:
    node = FakeNode({"hello-gpu": always(RUNNING)})
    [line], _, time = walk(node, HELLO)
    assert line.outcome is Outcome.FAILED and line.found == "still RUNNING after 15 min"
    assert node.cancelled == ["1"]
    assert time.now < 16 * 60


def test_a_job_that_slurm_refuses() -> None:
    node = FakeNode(refuses={"hello-gpu": "sbatch: error: invalid partition specified: gpu"})
    [line], _, _ = walk(node, HELLO)
    assert line.outcome is Outcome.FAILED and "invalid partition" in line.found


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED"])
def test_a_result_that_looks_well_does_not_save_a_job_that_failed(state: str) -> None:
    node = FakeNode({"hello-gpu": always(ended(state, dict.fromkeys(NODES, 8)))})
    lines, _, _ = walk(node, HELLO)
    assert lines[-1].outcome is Outcome.FAILED and lines[-1].found.startswith(state)


@pytest.mark.parametrize("check", [HELLO, GPUS, NCCL, STORAGE, NODE_SCAN])
def test_a_job_that_completed_without_a_result_has_failed(check: str) -> None:
    jobs = ("hello-gpu", "gpu-check", "nccl-tests", "storage-test", "host-scan")
    lines, _, _ = walk(FakeNode(dict.fromkeys(jobs, always(ended()))), check)
    assert Outcome.FAILED in outcomes(lines)


def test_a_gpu_that_does_not_answer() -> None:
    node = FakeNode({"hello-gpu": always(ended("COMPLETED", {NODES[0]: 8, NODES[1]: 7}))})
    lines, _, _ = walk(node, HELLO)
    assert outcomes(lines) == [Outcome.PASSED, Outcome.FAILED]
    assert (lines[1].found, lines[1].wanted) == ("7 GPUs", "8 GPUs")


def nccl(rate: float, *faults: str) -> dict[str, Any]:
    one = {
        "collective": "all_reduce", "passed": not faults, "network": "OFI efa", "notes": [], "faults": list(faults),
        "floors": [{"bytes": 1 << 30, "busbw": 250, "found": rate}], "largest": {"bytes": 4 << 30, "busbw": rate},
    }  # fmt: skip
    return {"passed": not faults, "nodes": 2, "instance_type": "p5.48xlarge", "collectives": [one]}


def test_nccl_under_its_floor() -> None:
    node = FakeNode({"nccl-tests": always(ended("FAILED", nccl(120, "120.0 GB/s at 1 GiB, floor 250: source")))})
    [line], _, _ = walk(node, NCCL)
    assert line.outcome is Outcome.FAILED
    assert "120.0 GB/s at 1 GiB, floor 250" in line.found
    assert line.wanted == "250 GB/s at 1 GiB"


def storage(rate: float, *, provisioned: int = 150, faults: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "mount": "/fsx", "passed": not faults, "provisioned_mb_s": provisioned, "target_mb_s": float(provisioned),
        "mb_s": {"write": rate, "read": rate}, "metadata_per_s": {}, "faults": list(faults),
    }  # fmt: skip


def test_a_slow_file_system() -> None:
    fault = "write 50 MB/s, floor 120 (80% of 150)"
    node = FakeNode({"storage-test": always(ended("FAILED", [storage(50, faults=(fault,))]))})
    [line], _, _ = walk(node, STORAGE)
    assert line.outcome is Outcome.FAILED and fault in line.found and line.wanted == "80 % of 150 MB/s"


def test_a_cluster_that_was_told_of_another_throughput() -> None:
    node = FakeNode({"storage-test": always(ended(result=[storage(140, provisioned=100)]))})
    lines, _, _ = walk(node, STORAGE)
    assert outcomes(lines) == [Outcome.PASSED, Outcome.FAILED]
    assert (lines[1].found, lines[1].wanted) == ("the cluster's settings say 100 MB/s", "150 MB/s")


@pytest.mark.parametrize("end", [KeyboardInterrupt(), Problem("no answer")])
def test_whatever_ends_it_no_job_stays_behind(end: BaseException) -> None:
    def gone(_look: int) -> Answer:
        raise end

    node = FakeNode({"hello-gpu": gone})
    with pytest.raises(type(end)):
        walk(node, HELLO)
    assert node.cancelled == ["1"]


def test_nothing_asked_is_no_pass() -> None:
    assert Report("local", "local", "i-1", ()).exit == 1
