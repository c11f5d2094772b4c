"""The report of each command: `diff` and `gate`, `preflight`, `validate`, `drift`."""

from collections.abc import Iterator

from ops.cost.change import cells
from ops.drift import findings
from ops.preflight import results as preflights
from ops.report.model import Code, Report, Row, Section, Tone
from ops.review.permissions import not_counted_by_cdk
from ops.review.resources import Effect, ResourceChange
from ops.review.structure import shown
from ops.review.verdict import Level, Verdict, at_stake, label, meaning
from ops.validation import history
from ops.validation import report as validations

_TONES = {Level.NOTHING: Tone.GOOD, Level.SAFE: Tone.GOOD, Level.DISRUPTIVE: Tone.WARNING, Level.DESTRUCTIVE: Tone.BAD}
_EMULATED = " (simulated: emulated AWS)"
_DIFFERENCES = 6
"""Differences of a resource that are shown; JSON holds all."""
_TYPES = 12
"""Types of resources that are named among those that drift does not compare."""


def review_report(verdict: Verdict, cdk_diff: str = "") -> Report:
    """The verdict on a change, with the CDK's own diff attached."""
    cluster, permissions = verdict.cluster, not_counted_by_cdk(verdict)
    data = (
        Row((f"{label(change)} ({change.stack})", at_stake(change), Code(", ".join(change.causes))), Tone.BAD)
        for change in verdict.data
    )
    keys = (
        Row((Code(key.path), Code(shown(key.old)), Code(shown(key.new)), meaning(key, cluster), key.policy))
        for key in cluster.keys
    )
    resources = (
        Row((f"{change.stack}: {label(change)}", _effect(change), Code(_differences(change))))
        for change in verdict.resources
    )
    left = f"No longer part of the app, and kept as they are: {', '.join(verdict.left_stacks)}"
    return Report(
        title=f"{verdict.environment} against {verdict.against}",
        headline=verdict.headline,
        tone=_TONES[verdict.level],
        data=_review_data(verdict, permissions),
        alarm=Section("Data at stake", ("Resource", "What happens", "Because of"), tuple(data), lead=2),
        sections=(
            Section(
                f"Cluster {cluster.name}: {cluster.outcome}",
                ("Key", "Old", "New", "What it means", "Policy"),
                tuple(keys),
                note=_accepted(verdict),
            ),
            Section(
                "Shares",
                ("What", "Change", "What it means"),
                tuple(Row((change.subject, Code(change.text), change.takes)) for change in verdict.shares),
            ),
            Section(
                "Permissions that the CDK does not count",
                ("May be broadened by",),
                tuple(Row((Code(line),)) for line in permissions),
            ),
            *_cost(verdict),
            Section(
                f"{len(verdict.resources)} resources",
                ("Resource", "What happens", "Changes"),
                tuple(resources),
                folded=True,
            ),
        ),
        notes=(*((left,) if verdict.left_stacks else ()), *(f"Not read: {text}" for text in verdict.unread)),
        attachment=("cdk diff", cdk_diff),
    )


def _cost(verdict: Verdict) -> Iterator[Section]:
    """What the change costs, with the rows that differ; nothing where nothing differs."""
    if verdict.cost and verdict.cost.rows:
        rows = (Row(cells(row)) for row in verdict.cost.rows)
        columns = ("Cost of", "Number", "Idle", "Full size or storage")
        yield Section("Cost", columns, tuple(rows), lead=len(columns), note=f"{verdict.cost.sentence()}.")


def _effect(change: ResourceChange) -> str:
    # CloudFormation changes the custom resource in place; what that does to the cluster is in the cluster's section.
    of_cluster = change.effect is Effect.CHANGED and change.type.startswith("Custom::ParallelCluster")
    return "changed as above" if of_cluster else str(change.effect)


def _differences(change: ResourceChange) -> str:
    if change.effect is not Effect.CHANGED or change.type.startswith("Custom::ParallelCluster"):
        return ""
    more = len(change.differences) - _DIFFERENCES
    return "; ".join([*map(str, change.differences[:_DIFFERENCES]), *([f"and {more} more"] if more > 0 else [])])


def _accepted(verdict: Verdict) -> str:
    states = verdict.cluster.accepted
    if states is None:
        return ""
    if states["running"]:
        return "ParallelCluster accepts the update as it is, with a running fleet."
    if states["stopped"]:
        return "ParallelCluster refuses the update while the fleet runs, and accepts it with the fleet stopped."
    return "ParallelCluster refuses the update, with the fleet running or stopped."


def _review_data(verdict: Verdict, permissions: tuple[str, ...]) -> dict[str, object]:
    cluster = verdict.cluster
    keys = [
        {"key": key.path, "meaning": meaning(key, cluster)}
        | {name: getattr(key, name) for name in ("old", "new", "needs", "strategies", "policy", "reason")}
        for key in cluster.keys
    ]
    return vars(verdict) | {
        "level": verdict.level.name.lower(),
        "exit": int(verdict.level),
        "reasons": [{"level": reason.level.name.lower(), "text": reason.text} for reason in verdict.reasons],
        "data": [f"{change.stack}/{change.logical_id}" for change in verdict.data],
        "cluster": vars(cluster) | {"queue_update_strategy": cluster.strategy, "keys": keys},
        "resources": [
            vars(change)
            | {"differences": [{"key": item.path, "old": item.old, "new": item.new} for item in change.differences]}
            for change in verdict.resources
        ],
        "shares": [vars(change) for change in verdict.shares],
        "permissions": permissions,
        "cost": verdict.cost.as_data() if verdict.cost else None,
    }


def preflight_report(preflight: preflights.Report) -> Report:
    """What needs an action first; every other result folded."""
    verdicts = preflights.Verdict
    tones = {
        verdicts.OK: Tone.GOOD,
        verdicts.NOTE: Tone.QUIET,
        verdicts.WARNING: Tone.WARNING,
        verdicts.FAULT: Tone.BAD,
        verdicts.UNKNOWN: Tone.UNKNOWN,
    }
    todo: list[Row] = []
    rest: list[Row] = []
    for item in preflight.results:
        cells = str(item.verdict), f"{item.check}: {item.subject}", item.asked, item.found, item.wanted
        if item.todo and item.verdict is not verdicts.NOTE:
            todo.append(Row((*cells, item.todo), tones[item.verdict]))
        else:
            rest.append(Row(cells, tones[item.verdict]))
    columns = ("Verdict", "Check", "Asked", "Found", "Wanted")
    return Report(
        title=f"Preflight of {preflight.environment} in {preflight.account}, {preflight.region}"
        + _EMULATED * preflight.simulated,
        headline=preflight.headline,
        tone=Tone.GOOD if preflight.ready else Tone.BAD,
        data={
            "environment": preflight.environment,
            "account": preflight.account,
            "region": preflight.region,
            "ready": preflight.ready,
            "exit": 0 if preflight.ready else 1,
            "simulated": preflight.simulated,
            "lines": [vars(item) for item in preflight.results],
        },
        sections=(
            Section("What to do", (*columns, "Do"), tuple(todo), lead=2),
            Section(f"{len(rest)} other results", columns, tuple(rest), folded=True),
        ),
    )


def validation_report(validation: validations.Report) -> Report:
    """Every check with what it found, and the output of failed jobs."""
    outcomes = validations.Outcome
    tones = {
        outcomes.PASSED: Tone.GOOD,
        outcomes.WARNING: Tone.WARNING,
        outcomes.FAILED: Tone.BAD,
        outcomes.SKIPPED: Tone.QUIET,
    }
    rows = tuple(
        Row(
            (str(line.outcome), line.check, line.where, line.asked, line.found, line.wanted, line.action),
            tones[line.outcome],
            line.output,
        )
        for line in validation.lines
    )
    lines = [vars(line) for line in validation.lines]
    earlier = tuple(Row((run.time, run.headline), Tone.GOOD if run.passed else Tone.BAD) for run in validation.earlier)
    simulated = " (emulated AWS: nothing was measured of GPUs, EFA, Lustre)" if validation.simulated else ""
    used = [vars(one) | {"usd": one.usd} for one in validation.used]
    charged = "simulated: on AWS this would be " if validation.simulated else ""
    title = f"Validation of {validation.environment}: cluster {validation.cluster}, on {validation.head_node}"
    return Report(
        title=title + simulated,
        headline=validation.headline,
        tone=Tone.GOOD if validation.passed else Tone.BAD,
        data=vars(validation)
        | {"passed": validation.passed, "exit": 0 if validation.passed else 1, "lines": lines, "used": used}
        | {"figures": validation.figures},
        charts=(*validation.charts, *history.chart(validation)),
        sections=(
            Section("Checks", ("Verdict", "Check", "Where", "Asked", "Found", "Wanted", "Do"), rows, lead=4),
            Section(f"{len(earlier)} earlier runs", ("When", "Verdict"), earlier, folded=True),
        ),
        notes=tuple(f"Used, without the start and end of nodes: {charged}{one}" for one in validation.used),
    )


def drift_report(drift: findings.Report) -> Report:
    """Every difference between what was deployed and what exists, and what was not compared."""
    rows = tuple(
        Row((item.part, item.subject, *map(Code, (item.path, shown(item.expected), shown(item.actual))), item.advice))
        for item in drift.findings
    )
    more = {
        "level": drift.level.name.lower(),
        "exit": int(drift.level),
        "findings": [vars(item) for item in drift.findings],
        "unchecked": dict(sorted(drift.unchecked.items())),
    }
    levels = findings.Level
    return Report(
        title=f"Drift of {drift.environment} in {drift.account}" + _EMULATED * drift.simulated,
        headline=drift.headline,
        tone={levels.NONE: Tone.GOOD, levels.DRIFT: Tone.BAD, levels.UNKNOWN: Tone.UNKNOWN}[drift.level],
        data=vars(drift) | more,
        sections=(Section("Differences", ("Where", "What", "Property", "Deployed", "Actual", "Do"), rows, lead=2),),
        notes=tuple(_drift_notes(drift)),
    )


def _drift_notes(drift: findings.Report) -> Iterator[str]:
    for reason in drift.missing:
        yield f"Not compared: {reason}"
    if drift.edits:
        yield drift.edits
    if drift.unchecked:
        named = [f"{kind} ({count})" for kind, count in drift.unchecked.most_common(_TYPES)]
        more = len(drift.unchecked) - _TYPES
        rest = f" and {more} more types" if more > 0 else ""
        total = drift.unchecked.total()
        yield f"Neither CloudFormation nor this command compares {total} resources: {', '.join(named)}{rest}."
