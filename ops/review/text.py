"""The verdict for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ops.review.permissions import not_counted_by_cdk
from ops.review.resources import Effect
from ops.review.structure import shown
from ops.review.verdict import Level, Verdict, at_stake, label, meaning

_COLOURS = {Level.NOTHING: "green", Level.SAFE: "green", Level.DISRUPTIVE: "yellow", Level.DESTRUCTIVE: "bold red"}
_DIFFERENCES = 6


def head(verdict: Verdict, console: Console) -> None:
    """Data at stake in red, if any, and the verdict in one line."""
    for change in verdict.data:
        console.print(
            f"[bold red]DATA  {escape(label(change))} ({change.stack}): {escape(at_stake(change))}[/]", soft_wrap=True
        )
        for cause in change.causes:
            console.print(f"[red]      because of {escape(cause)}[/]", soft_wrap=True)
    console.print(f"[{_COLOURS[verdict.level]}]{escape(verdict.headline)}[/]", soft_wrap=True)
    console.print(f"[dim]{escape(verdict.environment)} against {escape(verdict.against)}[/]", soft_wrap=True)


def body(verdict: Verdict, console: Console) -> None:
    """The cluster's keys, what may broaden permissions, then the other resources."""
    cluster = verdict.cluster
    console.print(f"\n[bold]Cluster {escape(cluster.name)}[/]: {escape(cluster.outcome)}", soft_wrap=True)
    for key in cluster.keys:
        console.print(f"  {escape(key.path)}", style="bold", soft_wrap=True)
        console.print(f"    {escape(shown(key.old))} -> {escape(shown(key.new))}", soft_wrap=True)
        console.print(f"    {escape(meaning(key, cluster))} [dim]({key.policy})[/]", soft_wrap=True)
    if cluster.keys and cluster.accepted is not None:
        console.print(f"  {accepted(verdict)}", soft_wrap=True)
    if granted := not_counted_by_cdk(verdict):
        console.print("\n[bold]Permissions that the CDK does not count[/]")
    for line in granted:
        console.print(f"  {escape(line)}", soft_wrap=True)
    if verdict.resources:
        console.print("\n[bold]Resources[/]")
    for change in verdict.resources:
        console.print(f"  {change.stack}: {escape(label(change))} {change.effect}", soft_wrap=True)
        if change.effect is Effect.CHANGED and not change.kind.startswith("Custom::ParallelCluster"):
            for difference in change.differences[:_DIFFERENCES]:
                console.print(f"    [dim]{escape(str(difference))}[/]", soft_wrap=True)
            if len(change.differences) > _DIFFERENCES:
                console.print(f"    [dim]and {len(change.differences) - _DIFFERENCES} more[/]")
    if verdict.left_stacks:
        console.print(f"\nNo longer made, and left as they are: {', '.join(verdict.left_stacks)}", soft_wrap=True)


def accepted(verdict: Verdict) -> str:
    """Whether ParallelCluster takes the update, in one sentence."""
    states = verdict.cluster.accepted or {}
    if states.get("running"):
        return "ParallelCluster accepts the update as it is, with a running fleet."
    if states.get("stopped"):
        return "ParallelCluster refuses the update while the fleet runs, and accepts it with the fleet stopped."
    return "ParallelCluster refuses the update, with the fleet running or stopped."
