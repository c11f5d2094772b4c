"""Turns the head node's answers about jobs into lines of the report. Pure.

The verdicts are the jobs' own. This module adds that they are complete: all nodes, mounts and GPUs have answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ops.validation.plan import ASKED, GPUS, HELLO, NCCL, NODE_SCAN, STORAGE, Job
from ops.validation.report import HEAD_SCAN, Line, Outcome

_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_WAITS_FOR_OTHERS = ("Resources", "Priority")
_DO = {
    HELLO: "sinfo -R; dmesg of the node ('Xid'); have the node replaced",
    GPUS: "take the node out: scontrol update nodename=NAME state=drain reason=gpu-check",
    NCCL: "docs/jobs.md, 'When something is wrong'; the outputs lie in the folder of results",
    STORAGE: "is the file system busy? run it again; --storage-percent says what fewer clients can reach",
}


def head_scan(answer: Mapping[str, Any]) -> list[Line]:
    """The lines of the head node's own scan."""
    return list(_scan(HEAD_SCAN, ASKED[HEAD_SCAN], f"head node {answer.get('host', '')}".strip(), answer))


def busy(answer: Mapping[str, Any]) -> bool:
    """Whether a job only waits for other jobs to end, and not for nodes that are down, drained or do not start."""
    waits = answer.get("state") == "PENDING" and answer.get("reason") in _WAITS_FOR_OTHERS
    return waits and not answer.get("down") and int(answer.get("taken", 0)) > 0


def not_asked(job: Job, why: str, insisted: bool) -> Line:
    """A job for which no nodes were free. It says nothing about the cluster, unless the user insisted on it."""
    outcome = Outcome.FAILED if insisted else Outcome.NOT_ASKED
    action = "validate again when nodes are free (squeue); --start-minutes waits longer"
    return Line(job.check, _where(job), ASKED[job.check], why, f"{_nodes(job)} that are free", outcome, action)


def out_of_time(job: Job, found: str, minutes: float) -> Line:
    """A job that was canceled or not started because the time of the whole validation was over."""
    action = "--total-minutes allows more; or ask in parts: --only, --skip"
    wanted = f"the whole validation within {minutes:g} min"
    return Line(job.check, _where(job), ASKED[job.check], found, wanted, Outcome.FAILED, action)


def unstarted(job: Job, answer: Mapping[str, Any], minutes: float) -> Line:
    """A job that did not start in time and was canceled."""
    down = [str(text) for text in answer.get("down", [])]
    found = (
        f"{str(answer.get('state', '')).lower()} for {minutes:g} min, Slurm's reason: {answer.get('reason') or 'none'}"
    )
    action = (
        "is there capacity, are nodes of other jobs in the way? squeue, sinfo -R, and the logs slurm_resume and "
        "clustermgtd of the head node; --start-minutes waits longer"
    )
    wanted = f"{_nodes(job)} within {minutes:g} min"
    return Line(job.check, job.place.name, ASKED[job.check], found, wanted, Outcome.FAILED, action, "\n".join(down))


def refused(job: Job, reason: str) -> Line:
    """A job that the head node or Slurm refused."""
    action = "is the queue up (sinfo), and is what the environment file says deployed?"
    return Line(job.check, job.place.name, ASKED[job.check], reason, "a job that Slurm takes", Outcome.FAILED, action)


def overdue(job: Job, answer: Mapping[str, Any], minutes: float) -> Line:
    """A job that ran far beyond its time limit and was canceled."""
    found = f"still {answer.get('state', '')} after {minutes:g} min"
    action = "do its nodes answer? sinfo -R; scontrol show job"
    return Line(job.check, _where(job), ASKED[job.check], found, f"at most {job.minutes} min", Outcome.FAILED, action)


def ended(job: Job, answer: Mapping[str, Any]) -> list[Line]:
    """The lines of a job that ended."""
    tail = str(answer.get("tail", ""))
    lines = list(_READERS[job.check](job, answer.get("result")))
    completed = answer.get("state") == "COMPLETED"
    # Where Slurm has forgotten a job, what it left decides.
    if (
        not completed
        and answer.get("state") != "FORGOTTEN"
        and all(line.outcome is not Outcome.FAILED for line in lines)
    ):
        found = (
            f"{answer.get('state')}, exit code {answer.get('exit') or 'none'}, on {answer.get('nodes') or 'no node'}"
        )
        action = _DO.get(job.check, "read the end of its output")
        lines.append(Line(job.check, _where(job), ASKED[job.check], found, "COMPLETED", Outcome.FAILED, action))
    failed = [index for index, line in enumerate(lines) if line.outcome is Outcome.FAILED]
    if failed and tail:
        last = lines[failed[-1]]
        lines[failed[-1]] = Line(
            last.check, last.where, last.asked, last.found, last.wanted, last.outcome, last.action, tail
        )
    return lines


def _scan(check: str, asked: str, where: str, report: Mapping[str, Any]) -> Iterator[Line]:
    counts = report.get("counts") or {}
    bad = report.get("lines") or []
    for line in bad:
        outcome = Outcome.FAILED if line["verdict"] == "failure" else Outcome.WARNING
        yield Line(check, where, line["name"], line["found"], line["wanted"], outcome, line["action"])
    if report.get("verdict") not in ("ok", "warning", "failure"):
        yield _missing(check, asked, where, "a report of the scan")
    elif report["verdict"] == "failure" and not any(line["verdict"] == "failure" for line in bad):
        yield Line(check, where, asked, "failure", "ok", Outcome.FAILED, "run the scan there by hand")
    elif report["verdict"] == "failure" and report.get("left_out"):
        yield _left_out(check, where, asked, int(report["left_out"]))
    elif report["verdict"] != "failure":
        found = f"{counts.get('ok', 0)} ok, {counts.get('warning', 0)} warnings"
        yield Line(check, where, asked, found, "no failures", Outcome.PASSED)


def _node_scans(job: Job, result: object) -> Iterator[Line]:
    reports = result if isinstance(result, list) else []
    for report in reports:
        yield from _scan(job.check, ASKED[job.check], str(report.get("node", job.place.name)), report)
    if len(reports) < job.place.nodes:
        yield _few(job, len(reports), "a report")


def _hello(job: Job, result: object) -> Iterator[Line]:
    answers: Mapping[str, int] = result if isinstance(result, dict) else {}
    for node, count in sorted(answers.items()):
        good = count == job.place.gpus
        yield Line(
            job.check, node, ASKED[job.check], f"{count} GPUs", f"{job.place.gpus} GPUs",
            Outcome.PASSED if good else Outcome.FAILED, "" if good else _DO[job.check],
        )  # fmt: skip
    if len(answers) < job.place.nodes:
        yield _few(job, len(answers), "its GPUs")


def _gpus(job: Job, result: object) -> Iterator[Line]:
    answers: Mapping[str, Mapping[str, Any]] = result if isinstance(result, dict) else {}
    for node, report in sorted(answers.items()):
        passed, failed, lines = int(report["passed"]), int(report["failed"]), report["lines"]
        for line in lines:
            action = line["do"] or _DO[job.check]
            yield Line(job.check, node, line["what"], line["found"], line["wanted"], Outcome.FAILED, action)
        found = f"{passed} as wanted" + (f", {failed} not" if failed else "")
        wanted = "what the instance type has"
        if passed and not failed:
            yield Line(job.check, node, ASKED[job.check], found, wanted, Outcome.PASSED)
        elif not lines:
            yield Line(job.check, node, ASKED[job.check], found, wanted, Outcome.FAILED, _DO[job.check])
        elif failed > len(lines):
            yield _left_out(job.check, node, ASKED[job.check], failed - len(lines))
    if len(answers) < job.place.nodes:
        yield _few(job, len(answers), "what it has")


def _nccl(job: Job, result: object) -> Iterator[Line]:
    verdict: Mapping[str, Any] = result if isinstance(result, dict) else {}
    collectives = verdict.get("collectives") or []
    for one in collectives:
        where = f"{job.place.name}, {verdict.get('nodes')} nodes"
        floors = [floor for floor in one["floors"] if floor.get("found") is not None]
        shown = [f"{floor['found']:.1f} GB/s at {_size(floor['bytes'])}" for floor in floors]
        largest = one["largest"]
        shown = shown or [f"{largest['busbw']:.1f} GB/s at {_size(largest['bytes'])}"]
        floor = ", ".join(f"{one['busbw']:g} GB/s at {_size(one['bytes'])}" for one in floors)
        wanted = floor or "right values, no TCP (no floor is known)"
        found = "; ".join([*one["faults"], *shown, f"over {one['network']}"])
        outcome = Outcome.PASSED if one["passed"] and not one["faults"] else Outcome.FAILED
        action = "" if outcome is Outcome.PASSED else _DO[job.check]
        yield Line(job.check, where, one["collective"], found, wanted, outcome, action)
    if not collectives:
        yield _missing(job.check, ASKED[job.check], job.place.name, "a verdict on each collective")
    elif not verdict.get("passed") and all(one["passed"] for one in collectives):
        yield _missing(job.check, ASKED[job.check], job.place.name, "a verdict that says passed")


def _storage(job: Job, result: object) -> Iterator[Line]:
    mount, mb_s = job.facts["mount"], job.facts["mb_s"]
    where = f"{mount} from {job.place.name}"
    report = next((one for one in result if one.get("mount") == mount), None) if isinstance(result, list) else None
    if report is None:
        yield _missing(job.check, ASKED[job.check], where, f"figures of {mount}")
        return
    rates = ", ".join(f"{direction} {rate:.0f} MB/s" for direction, rate in report["mb_s"].items()) or "no figures"
    rates += " (simulated)" if report.get("simulated") else ""
    percent = dict(zip(job.options[::2], job.options[1::2], strict=True)).get("--fraction", "80")
    wanted = f"{percent} % of {report.get('target_mb_s') or mb_s:g} MB/s"
    outcome = Outcome.PASSED if report["passed"] else Outcome.FAILED
    found = "; ".join([rates, *report["faults"]])
    action = "" if report["passed"] else _DO[job.check]
    yield Line(job.check, where, ASKED[job.check], found, wanted, outcome, action)
    if report.get("provisioned_mb_s") != mb_s:
        found = f"the cluster's settings say {report.get('provisioned_mb_s')} MB/s"
        action = "deploy the file, then run the bootstrap on the head node: entry.sh BUCKET updated REGION"
        yield Line(job.check, where, "provisioned throughput", found, f"{mb_s} MB/s", Outcome.FAILED, action)


_READERS = {NODE_SCAN: _node_scans, HELLO: _hello, GPUS: _gpus, NCCL: _nccl, STORAGE: _storage}


def _few(job: Job, found: int, what: str) -> Line:
    text = f"{found} of {_nodes(job)} gave {what}"
    action = _DO.get(job.check, "read the end of its output; sinfo -R")
    return Line(job.check, job.place.name, ASKED[job.check], text, _nodes(job), Outcome.FAILED, action)


def _missing(check: str, asked: str, where: str, wanted: str) -> Line:
    return Line(check, where, asked, "nothing", wanted, Outcome.FAILED, "read the end of its output")


def _nodes(job: Job) -> str:
    return f"{job.place.nodes} node{'' if job.place.nodes == 1 else 's'}"


def _where(job: Job) -> str:
    return f"{job.facts['mount']} from {job.place.name}" if "mount" in job.facts else job.place.name


def _left_out(check: str, where: str, asked: str, number: int) -> Line:
    """Lines of a failed node that did not fit into the head node's answer."""
    action = "the reports lie in the folder of results; --nodes asks fewer nodes at once"
    return Line(check, where, asked, f"{number} more lines", "all in the report", Outcome.WARNING, action)


def _size(size: int) -> str:
    for unit, name in _BYTES:
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
