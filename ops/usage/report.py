"""The usage of a cluster as a report, and as CSV."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ops.report import Chart, Figure, Report, Row, Section, Tone
from ops.usage import records
from ops.usage.records import Job, Unused, Usage, grouped

TOP_JOBS = 20
MOST_LINES = 8
WASTED = ("failed", "cancelled", "interrupted")
"""Outcomes with columns of their own. Only `failed` counts as wasted: a user ends a job on purpose, and a job that was
preempted or requeued goes on from its checkpoint."""
COLUMNS = (
    *("kind", "team", "user", "model", "job", "name", "state", "start", "resource", "runs", "gpu_hours", "node_hours"),
    *("usd", "failed_gpu_hours", "failed_usd", "cancelled_gpu_hours", "interrupted_gpu_hours"),
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which a spreadsheet begins a formula (OWASP, CSV injection)."""


def usd_of(parts: Iterable[records.Row | Job | Unused]) -> float | None:
    """The sum in USD; None if a part that has hours has no price."""
    amounts = [part.usd for part in parts if part.node_hours]
    return None if None in amounts else sum(amount or 0 for amount in amounts)


def known_usd(parts: Iterable[records.Row | Job | Unused]) -> float:
    """The sum in USD of the parts whose price is known."""
    return sum(part.usd or 0 for part in parts)


def money(amount: float | None) -> str:
    """An amount for a table."""
    return "price unknown" if amount is None else f"${amount:,.2f}"


def hours(amount: float) -> str:
    """Hours for a table."""
    return f"{amount:,.1f}"


def moment(seconds: float) -> str:
    """A time in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def report(found: Usage, by: str) -> Report:
    """The report by team, user, model or job."""
    used, unused = found.rows, found.unused
    failed = [row for row in used if row.outcome == "failed"]
    cost, lost = known_usd([*used, *unused]), known_usd([*failed, *unused])
    gpu_hours = sum(row.gpu_hours for row in used)
    unknown = usd_of([*used, *unused]) is None
    spent = f"{'at least ' * unknown}{money(cost)}"
    headline = f"{hours(gpu_hours)} GPU hours in {found.runs:,} runs of jobs; nodes cost {spent}"
    headline += f", {lost / cost:.0%} of it idle or wasted." if cost else "."
    groups = _jobs(found.jobs) if by == "job" else _groups(found, by)
    return Report(
        title=f"{found.environment}: {moment(found.since)} to {moment(found.until)} UTC"
        + " (simulated: on AWS the nodes would cost this)" * found.simulated,
        headline=headline if found.runs else f"No job ran. {headline}",
        tone=Tone.NONE,
        data={**asdict(found), "gpu_hours": gpu_hours, "usd": None if unknown else cost},
        sections=(
            groups,
            _wasted(failed, unused),
            *(() if by == "job" or not found.jobs else (_jobs(found.jobs[:TOP_JOBS]),)),
        ),
        figures=(
            Figure("GPU hours", hours(gpu_hours), "GPUs that jobs had, times the hours they had them."),
            Figure("Cost of nodes", spent, "Of compute nodes: in use, idle, drained, or reserved and not running."),
            Figure("Idle or wasted", money(lost), "Failed jobs, idle, drained and down nodes, unused reservations."),
        ),
        charts=tuple(_charts(found, "team" if by == "job" else by)),
        notes=(
            *found.notes,
            "Compute nodes only, without root volumes, storage and traffic. A node that starts is counted from its"
            " registration with Slurm on.",
        ),
    )


def _groups(found: Usage, by: str) -> Section:
    rows = []
    for name, parts in grouped(found, by):
        lost = {kind: sum(row.gpu_hours for row in parts if row.outcome == kind) for kind in WASTED}
        cells: tuple[str, ...] = (
            name,
            f"{sum(row.runs for row in parts):,}",
            hours(sum(row.gpu_hours for row in parts)),
        )
        cells += (hours(sum(row.node_hours for row in parts)), money(usd_of(parts)))
        failed = usd_of(row for row in parts if row.outcome == "failed")
        rows.append(Row((*cells, money(failed), *(hours(lost[kind]) for kind in WASTED))))
    columns = ("Runs", "GPU hours", "Node hours", "Cost", "Cost of failed", *(f"GPU h {kind}" for kind in WASTED))
    return Section(f"By {by}", (by.capitalize(), *columns), tuple(rows), folded=True)


def _jobs(jobs: Sequence[Job]) -> Section:
    rows = (
        Row(
            (
                *(job.job, job.name, job.user, job.team, job.model, job.state, moment(job.start)),
                *(hours((job.end - job.start) / records.HOUR), hours(job.gpu_hours), money(job.usd)),
            )
        )
        for job in jobs
    )
    columns = ("Job", "Name", "User", "Team", "Model", "State", "Start (UTC)", "Hours", "GPU hours", "Cost")
    return Section("Largest runs of jobs", columns, tuple(rows), folded=True)


def _wasted(failed: Sequence[records.Row], unused: Sequence[Unused]) -> Section:
    rows = [
        Row((part.kind, part.resource, hours(part.gpu_hours), hours(part.node_hours), money(part.usd)))
        for part in unused
    ]
    if failed:
        gpu, node = sum(row.gpu_hours for row in failed), sum(row.node_hours for row in failed)
        rows.insert(0, Row(("failed jobs", "all", hours(gpu), hours(node), money(usd_of(failed)))))
    return Section("Idle and wasted", ("What", "Nodes", "GPU hours", "Node hours", "Cost"), tuple(rows), folded=True)


def _charts(found: Usage, by: str) -> Iterable[Chart]:
    names = [(name, sum(row.gpu_hours for row in parts)) for name, parts in grouped(found, by)]
    if names:
        points = tuple((float(index), amount) for index, (_, amount) in enumerate(names))
        labels = tuple(name for name, _ in names)
        yield Chart("bars", f"By {by}", "GPU hours", points, ("GPU hours",), labels)
    kinds: dict[str, float] = defaultdict(float)
    for row in found.rows:
        kinds[row.outcome] += row.node_hours
    for part in found.unused:
        kinds[part.kind] += part.node_hours
    if kinds:
        points = tuple((float(index), amount) for index, amount in enumerate(kinds.values()))
        yield Chart("bars", "Where the hours went", "node hours", points, ("node hours",), tuple(kinds))
    days: dict[float, dict[str, float]] = defaultdict(dict)
    totals: dict[str, float] = defaultdict(float)
    for day, team, gpu_hours, _ in found.days:
        start = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
        days[start][team] = gpu_hours
        totals[team] += gpu_hours
    teams = sorted(totals, key=lambda team: -totals[team])[:MOST_LINES]
    if len(days) > 1:
        lines = tuple((start, *(row.get(team, 0.0) for team in teams)) for start, row in sorted(days.items()))
        yield Chart("times", "By day and team", "GPU hours", lines, tuple(teams))


def table(found: Usage, by: str) -> str:
    """CSV of the groups or jobs, and of unused nodes; the sum of `usd` is what the nodes cost.

    A text that a spreadsheet would take for a formula begins with an apostrophe. An unknown amount is empty.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    rows: list[dict[str, Any]] = []
    if by == "job":
        for job in found.jobs:
            own = {name: getattr(job, name) for name in ("team", "user", "model", "job", "name", "state")}
            figures = {"gpu_hours": job.gpu_hours, "node_hours": job.node_hours, "usd": job.usd, "runs": 1}
            rows.append({"kind": "used", **own, "start": moment(job.start), **figures})
    else:
        for name, parts in grouped(found, by):
            lost = {f"{kind}_gpu_hours": sum(r.gpu_hours for r in parts if r.outcome == kind) for kind in WASTED}
            rows.append(
                {
                    **{"kind": "used", by: name, "runs": sum(row.runs for row in parts), **lost},
                    **{key: sum(getattr(row, key) for row in parts) for key in ("gpu_hours", "node_hours")},
                    **{"usd": usd_of(parts), "failed_usd": usd_of(r for r in parts if r.outcome == "failed")},
                }
            )
    for part in found.unused:
        figures = {"gpu_hours": part.gpu_hours, "node_hours": part.node_hours, "usd": part.usd}
        rows.append({"kind": part.kind, "resource": part.resource, **figures})
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})
    return stream.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float):
        return round(value, 4)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
