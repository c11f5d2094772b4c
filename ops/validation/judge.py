"""Turns the head node's answers about jobs into lines of the report. Pure.

The verdicts are the jobs' own. This module adds that they are complete: all nodes, mounts and GPUs have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ops.report.model import Chart
from ops.validation.plan import BURN, GPUS, HELLO, NCCL, NODE_SCAN, PAIRS, S3, Job
from ops.validation.report import HEAD_SCAN, Line, Outcome

_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_WAITS_FOR_OTHERS = ("Resources", "Priority")
_NOISY_PERCENT = 5
_GENUINE_SCANS = (
    "settings",
    "minimums",
    "scripts",
    "slurm",
    "slurm-controller",
    "slurmd",
    "locked-memory",
    "open-files",
)
"""Lines of a scan that are the same on the emulated AWS, whose Slurm and node limits are real."""
Answer = Mapping[str, Any]


def busy(answer: Answer) -> bool:
    """Whether a job only waits for other jobs to end, and not for nodes that are down, drained or do not start."""
    waits = answer["state"] == "PENDING" and answer.get("reason") in _WAITS_FOR_OTHERS
    return waits and not answer.get("down") and int(answer.get("taken", 0)) > 0


def unstarted(job: Job, answer: Answer, minutes: float) -> Line:
    """A job that did not start in time and was canceled."""
    found = f"{answer['state'].lower()} for {minutes:g} min, Slurm's reason: {answer.get('reason') or 'none'}"
    action = (
        "is there capacity, are nodes of other jobs in the way? squeue, sinfo -R, and the logs slurm_resume and "
        "clustermgtd of the head node; --start-minutes waits longer"
    )
    line = job.line(found, f"{job.nodes} within {minutes:g} min", action=action)
    return replace(line, output="\n".join(answer.get("down", ())))


def simulated(job: Job, line: Line) -> Line:
    """A line of the emulated AWS, marked if its answer comes from stand-ins (local/slurm/README.md lists them)."""
    is_scan = job.check in (HEAD_SCAN, NODE_SCAN)
    if line.asked in _GENUINE_SCANS or (job.check in _PER_NODE and line.where == job.where):
        return line
    if job.check == PAIRS and not line.simulated:  # TCP between the emulated nodes is measured
        return line
    if is_scan and line.asked == job.kind.asked:
        parts = ("GPUs, EFA, disks, " if job.place.gpus else "") + "file systems, Enroot, Pyxis"
        return replace(line, found=f"{line.found} (simulated: {parts})", simulated=True)
    return replace(line, found=f"simulated: {line.found.replace(' (simulated)', '')}", simulated=True)


def ended(job: Job, answer: Answer, *, emulated: bool = False) -> list[Line]:
    """The lines of a job that ended."""
    lines = list(_lines(job, answer.get("result")))
    if emulated:
        lines = [simulated(job, line) for line in lines]
    # Where Slurm has forgotten a job, what it left decides.
    if answer["state"] not in ("COMPLETED", "FORGOTTEN") and all(line.outcome is not Outcome.FAILED for line in lines):
        found = f"{answer['state']}, exit code {answer.get('exit') or 'none'}, on {answer.get('nodes') or 'no node'}"
        action = f"it had {job.minutes} min; --node-minutes allows more" if answer["state"] == "TIMEOUT" else ""
        lines.append(job.line(found, "COMPLETED", action=action))
    failed = [index for index, line in enumerate(lines) if line.outcome is Outcome.FAILED]
    if failed:
        lines[failed[-1]] = replace(lines[failed[-1]], output=answer.get("tail", ""))
    return lines


def scan(job: Job, where: str, report: Answer) -> Iterator[Line]:
    """The lines of a node's scan."""
    bad, verdict = report.get("lines") or (), report.get("verdict")
    for line in bad:
        outcome = Outcome.FAILED if line["verdict"] == "failure" else Outcome.WARNING
        yield job.line(line["found"], line["wanted"], outcome, line["action"], where=where, asked=line["name"])
    if verdict in ("ok", "warning"):
        counts = report.get("counts") or {}
        found = f"{counts.get('ok', 0)} ok, {counts.get('warning', 0)} warnings"
        yield job.line(found, "no failures", Outcome.PASSED, where=where)
    elif verdict != "failure":
        yield job.line("nothing", "a report of the scan", where=where)
    elif not any(line["verdict"] == "failure" for line in bad):
        yield job.line("failure", "ok", action="run the scan there by hand", where=where)
    elif report.get("left_out"):
        yield _left_out(job, where, int(report["left_out"]))


def _hello(job: Job, node: str, count: int) -> Iterator[Line]:
    outcome = Outcome.PASSED if count == job.place.gpus else Outcome.FAILED
    yield replace(job.line(f"{count} GPUs", f"{job.place.gpus} GPUs", outcome, where=node), of_node={"GPUs": count})


def _gpus(job: Job, node: str, report: Answer) -> Iterator[Line]:
    passed, failed, lines = int(report["passed"]), int(report["failed"]), report["lines"]
    for line in lines:
        yield job.line(line["found"], line["wanted"], action=line["do"], where=node, asked=line["what"])
    found = f"{passed} as wanted" + (f", {failed} not" if failed else "")
    if not lines:
        outcome = Outcome.PASSED if passed and not failed else Outcome.FAILED
        yield job.line(found, "what the instance type has", outcome, where=node)
    elif failed > len(lines):
        yield _left_out(job, node, failed - len(lines))


_PER_NODE: dict[str, tuple[Callable[[Job, str, Any], Iterator[Line]], str]] = {
    NODE_SCAN: (scan, "a report"),
    HELLO: (_hello, "its GPUs"),
    GPUS: (_gpus, "what it has"),
}


def _lines(job: Job, result: Any) -> Iterator[Line]:  # noqa: ANN401 - JSON
    if job.check == NCCL:
        yield from _nccl(job, result or {})
    elif job.check == PAIRS:
        yield from _with_charts(_pairs(job, result or {}), _pair_charts(job, result or {}))
    elif job.check == BURN:
        yield from _with_charts(_burn(job, result or {}), _burn_charts(job, result or {}))
    elif job.check == S3:
        yield from _with_charts(_s3(job, result or {}), _s3_charts(job, result or {}))
    elif job.check not in _PER_NODE:
        yield from _storage(job, result or ())
    else:
        nodes = {report["node"]: report for report in result or ()} if job.check == NODE_SCAN else result or {}
        read, what = _PER_NODE[job.check]
        for node, report in sorted(nodes.items()):
            yield from read(job, node, report)
        if len(nodes) < job.place.nodes:
            yield job.line(f"{len(nodes)} of {job.nodes} gave {what}", job.nodes)


_READ_OUTPUT = "read the end of its output"


def _nccl(job: Job, verdict: Answer) -> Iterator[Line]:
    collectives = verdict.get("collectives") or ()
    for one in collectives:
        floors = [floor for floor in one["floors"] if floor.get("found") is not None]
        shown = [_rate(floor["found"], floor["bytes"], ".1f") for floor in floors]
        largest = one["largest"]
        if not shown and largest["bytes"]:  # without a table there is none
            shown = [_rate(largest["busbw"], largest["bytes"], ".1f")]
        found = "; ".join([*one["faults"], *shown, f"over {one['network']}, {one['engine']}"])
        wanted = ", ".join(_rate(floor["busbw"], floor["bytes"], "g") for floor in floors)
        outcome = Outcome.PASSED if one["passed"] and not one["faults"] else Outcome.FAILED
        where = f"{job.place.name}, {verdict.get('nodes')} nodes"
        wanted = wanted or "right values, no TCP (no floor is known)"
        line = job.line(found, wanted, outcome, where=where, asked=one["collective"])
        figures = {f"GB/s at {_size(largest['bytes'])}": largest["busbw"]} if largest["bytes"] else {}
        yield replace(line, figures=figures, charts=_sizes(line, one))
    if not collectives:
        yield job.line("nothing", "a verdict on each collective", action=_READ_OUTPUT)
    elif not verdict.get("passed") and all(one["passed"] for one in collectives):
        yield job.line("nothing", "a verdict that says passed", action=_READ_OUTPUT)


def _sizes(line: Line, one: Answer) -> tuple[Chart, ...]:
    """Bus bandwidth over message size, with the floors."""
    floors = {floor["bytes"]: floor["busbw"] for floor in one["floors"]}
    rows = [(size, rate) for size, rate in one.get("rows") or () if size]
    series = ("measured", "floor") if floors else ("measured",)
    points = tuple((size, rate, floors.get(size)) if floors else (size, rate) for size, rate in rows)
    title = f"{line.asked}, {line.where}"
    return (Chart("sizes", title, "GB/s bus bandwidth", points, series),) if points else ()


_DRAIN = "take it out and have it replaced: scontrol update nodename={} state=drain reason=pairs"
_OF_FAULTS = {
    "node": _DRAIN,
    "silent": _DRAIN,
    "link": "a path or an interface between them: drain one of them, and ask AWS",
    "group": "what do they share? compare aws ec2 describe-instance-topology; drain them, and ask AWS for other nodes",
    "undecided": "validate again with --only pairs; the outputs of the pairs are in the folder of results",
}
"""What to do about each kind of fault of tournament.py."""


def _names(fault: Answer) -> str:
    return ", ".join(fault["nodes"]) + (f" and {fault['left_out']} more" if fault["left_out"] else "")


def _faults(job: Job, verdict: Answer, wanted: str, action: Callable[[str, str], str]) -> Iterator[Line]:
    """A line for each fault of a verdict; `action` returns what to do, from its kind and its nodes."""
    for fault in verdict["faults"]:
        names = _names(fault)
        line = job.line(fault["text"], wanted, action=action(fault["kind"], names), where=names)
        yield replace(line, simulated=bool(verdict.get("simulated")))
    if verdict["left_out"]:
        yield _left_out(job, job.where, verdict["left_out"])


def _burn(job: Job, verdict: Answer) -> Iterator[Line]:
    if "faults" not in verdict:
        yield job.line("nothing", "a verdict on each GPU", action=_READ_OUTPUT)
        return
    known = {kind: rates for kind, rates in verdict["peers"].items() if "tflops" in rates}
    usual = "; ".join(f"{kind} {one['tflops']:g} TFLOP/s, {one['gb_s']:g} GB/s" for kind, one in known.items())
    wanted = f"no errors, and at most {verdict['margin_percent']:g} % below the usual {usual or 'figures'}"
    advice = job.kind.advice
    yield from _faults(
        job, verdict, wanted, lambda kind, names: _READ_OUTPUT if kind == "error" else advice.replace("NAME", names)
    )
    if not verdict["faults"]:
        found, expected = verdict["gpus"], job.place.nodes * (job.place.gpus or 0)
        passed = verdict["passed"] and found == expected
        outcome, action = (Outcome.PASSED, "") if passed else (Outcome.FAILED, _READ_OUTPUT)
        units = {"tflops": "TFLOP/s", "gb_s": "GB/s", "all_reduce": "GB/s of all_reduce on a node"}
        units |= {"from_host": "GB/s from the host", "to_host": "GB/s to the host", "to_gpus": "GB/s to other GPUs"}
        figures = {f"{units[key]}, {kind}": rate for kind, one in known.items() for key, rate in one.items()}
        line = job.line(f"{found} GPUs, {usual}", f"{expected} GPUs; {wanted}", outcome, action)
        yield replace(line, figures=figures)
    for text, number in verdict.get("unasked", {}).items():  # not of an older head node
        tool, _, why = text.partition(": ")
        found = f"{why} ({number} node{'s' * (number > 1)})"
        yield job.line(found, "on the host or in the image", Outcome.SKIPPED, asked=tool)
    if unread := verdict["xids_unread"]:
        action = "is libnvidia-ml.so.1 in the image?"
        yield job.line(f"of {unread} GPUs not readable", "NVML's events", Outcome.WARNING, action, asked="Xid errors")


def _burn_charts(job: Job, verdict: Answer) -> Iterator[Chart]:
    """A bar per node; of many nodes only the slowest."""
    if slowest := verdict.get("slowest"):
        points = tuple((place, rate) for place, (_, rate) in enumerate(slowest))
        title = f"slowest GPU of each node, {job.place.name}"
        yield Chart("bars", title, "TFLOP/s", points, ("TFLOP/s",), tuple(name for name, _ in slowest))


def _with_charts(lines: Iterator[Line], charts: Iterator[Chart]) -> Iterator[Line]:
    """The lines, the first one with the charts."""
    first, *rest = lines
    yield from (replace(first, charts=tuple(charts)), *rest)


def _pairs(job: Job, verdict: Answer) -> Iterator[Line]:
    if "faults" not in verdict:
        yield job.line("nothing", "a verdict on each node", action=_READ_OUTPUT)
        return
    peers, margin, simulated = verdict["peers"], verdict["margin_percent"], bool(verdict["simulated"])
    wanted = f"{margin:g} % below the usual {peers:.3g} GB/s at most ({verdict['measure']})"
    yield from _faults(job, verdict, wanted, lambda kind, names: _OF_FAULTS[kind].format(names))
    if verdict["nodes"] < job.place.nodes:
        yield job.line(f"{verdict['nodes']} nodes", job.nodes)
    elif not verdict["faults"]:
        found = f"{verdict['nodes']} nodes, {verdict['pairs']} pairs in {verdict['rounds']} rounds, {peers:.3g} GB/s"
        outcome = Outcome.PASSED if verdict["passed"] else Outcome.FAILED
        noisy = verdict["noise_percent"] > _NOISY_PERCENT
        found += f"; they vary by {verdict['noise_percent']:g} %, so that only large differences show" if noisy else ""
        outcome = Outcome.WARNING if noisy and verdict["passed"] else outcome
        yield replace(job.line(found, wanted, outcome), simulated=simulated, figures={"GB/s of a usual pair": peers})


def _pair_charts(job: Job, verdict: Answer) -> Iterator[Chart]:
    """The matrix of pairs, and each node's best pair, which clears it; of many nodes only the slowest."""
    simulated, names, figures = bool(verdict.get("simulated")), verdict.get("names") or (), verdict.get("figures") or ()
    best = dict(verdict.get("slowest") or ((name, 0.0) for name in names))
    few = f", the {len(best)} slowest" if verdict.get("slowest") else ""
    for *pair, rate in figures:
        for name in (names[place] for place in pair):
            best[name] = max(rate or 0.0, best[name])
    if figures:
        points, peers = tuple(map(tuple, figures)), verdict["peers"]
        title = f"pairs of {job.place.name}, {verdict['measure']}"
        yield Chart("matrix", title, "GB/s", points, (), tuple(names), peers, simulated)
    if best:
        least = verdict["peers"] * (1 - verdict["margin_percent"] / 100)
        points = tuple((place, rate, least) for place, rate in enumerate(best.values()))
        title, series = f"best pair of each node{few}, {job.place.name}", ("best pair", "margin")
        yield Chart("bars", title, "GB/s", points, series, tuple(best), simulated=simulated)


def _storage(job: Job, reports: Iterable[Answer]) -> Iterator[Line]:
    report = next((one for one in reports if one.get("mount") == job.mount), None)
    if report is None:
        yield job.line("nothing", f"figures of {job.mount}", action=_READ_OUTPUT)
        return
    # A head node of an older version measures once, from all nodes.
    steps = report.get("steps") or [{"nodes": job.place.nodes, "mb_s": report["mb_s"]}]
    shown = [
        f"{direction} {' / '.join(format(one['mb_s'].get(direction, 0), '.0f') for one in steps)} MB/s"
        for direction in report["mb_s"]
    ]
    several = f" from {' / '.join(str(one['nodes']) for one in steps)} nodes" if len(steps) > 1 else ""
    rates = (", ".join(shown) or "no figures") + several
    rates += " (simulated)" if report.get("simulated") else ""
    wanted = f"{job.percent} % of {report.get('target_mb_s') or job.mb_s:g} MB/s"
    outcome = Outcome.PASSED if report["passed"] else Outcome.FAILED
    line = job.line("; ".join([rates, *report["faults"], *report.get("scaling", ())]), wanted, outcome)
    limits = {"required": (report.get("target_mb_s") or job.mb_s) * job.percent / 100}
    limits["provisioned"] = report.get("provisioned_mb_s") or job.mb_s
    bars = {
        f"{direction}, {one['nodes']} node{'s' * (one['nodes'] > 1)}": one["mb_s"][direction]
        for direction in report["mb_s"]
        for one in steps
        if direction in one["mb_s"]
    }
    points = tuple((place, rate, *limits.values()) for place, rate in enumerate(bars.values()))
    series, simulated = ("measured", *limits), bool(report.get("simulated"))
    title = f"{line.where}, {job.nodes}"
    chart = Chart("bars", title, "MB/s", points, series, tuple(bars), simulated=simulated)
    figures = {bar.replace(", ", " MB/s of "): rate for bar, rate in bars.items()}
    yield replace(line, figures=figures, charts=(chart,) if points else ())
    if report.get("provisioned_mb_s") != job.mb_s:
        found = f"the cluster's settings say {report.get('provisioned_mb_s')} MB/s"
        action = "deploy the file, then run the bootstrap on the head node: entry.sh BUCKET updated REGION"
        yield job.line(found, f"{job.mb_s} MB/s", action=action, asked="provisioned throughput")


def _s3(job: Job, verdict: Answer) -> Iterator[Line]:
    """Without figures for later runs: S3 varies by more than the 5 % of a warning."""
    if "faults" not in verdict:
        yield job.line("nothing", "a verdict on each node", action=_READ_OUTPUT)
        return
    peers, of_all = verdict["peers"], verdict["all"]
    usual = ", ".join(f"{key} {rate:g} GB/s" for key, rate in peers.items())
    wanted = f"{verdict['share_percent']:g} % of the usual {usual or 'figures'}"
    yield from _faults(job, verdict, wanted, lambda _kind, _names: "")
    if verdict["nodes"] < job.place.nodes:
        yield job.line(f"{verdict['nodes']} nodes", job.nodes)
    elif not verdict["faults"]:
        each = ", ".join(f"{key} {rate:g} GB/s each, {of_all[key]:g} GB/s of all" for key, rate in peers.items())
        outcome = Outcome.PASSED if verdict["passed"] else Outcome.FAILED
        yield job.line(f"{job.nodes}: {each}", wanted, outcome)


def _s3_charts(job: Job, verdict: Answer) -> Iterator[Chart]:
    if slowest := verdict.get("slowest"):
        usual = min(verdict["peers"].values(), default=0) * verdict["share_percent"] / 100
        points = tuple((place, rate, usual) for place, (_, rate) in enumerate(slowest))
        title, labels = f"S3 from {job.place.name}, the slower direction", tuple(name for name, _ in slowest)
        yield Chart("bars", title, "GB/s", points, ("slower direction", "required"), labels)


def _left_out(job: Job, where: str, number: int) -> Line:
    """Lines of a failed node that did not fit into the head node's answer."""
    action = "the reports are in the folder of results; --nodes asks fewer nodes at once"
    return job.line(f"{number} more lines", "all in the report", Outcome.WARNING, action, where=where)


def _rate(busbw: float, size: int, form: str) -> str:
    return f"{busbw:{form}} GB/s at {_size(size)}"


def _size(size: int) -> str:
    unit, name = next((unit, name) for unit, name in _BYTES if size >= unit and size % unit == 0)
    return f"{size // unit} {name}"
