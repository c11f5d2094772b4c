"""`trainyard up`, `status` and `down` with `--on aws`: an environment in the account that your credentials reach."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ops.aws import cdk, permissions, stacks, status
from ops.aws.progress import Progress
from ops.cost.estimate import Estimate, dollars, estimate
from ops.cost.prices import Prices
from ops.drift.survey import not_as_deployed
from ops.preflight.aws import Aws, require_account
from ops.preflight.checks import run as preflight
from ops.problem import Problem
from ops.report.commands import preflight_report, review_report
from ops.report.rendering import text
from ops.review.command import verdict_against
from ops.review.resources import Effect
from ops.review.stacks import Stacks, deployed, synthesized
from ops.review.verdict import Level, Verdict, at_stake, label
from trainyard.pipeline.actions import DEPLOYMENT

if TYPE_CHECKING:
    import boto3

    from settings import Environment

ROOT = cdk.ROOT
_EXPORT_IN_USE = "as it is in use by"
"""CloudFormation's words where a stack would lose an export that another one imports."""

_WIDTH_IN_A_LOG = 160


class Run(NamedTuple):
    """A run of the CDK CLI: whether stacks changed, its exit status, and the failures of stacks."""

    changed: bool
    code: int
    failures: list[str]


@dataclass(frozen=True)
class Target(cdk.App):
    """An environment and its account on AWS."""

    account: boto3.Session
    console: Console

    @cached_property
    def aws(self) -> Aws:
        return Aws(self.account, self.environment.region)

    def cdk(self, *arguments: str) -> int:
        """Run the CDK CLI in the environment's region, with the credentials of the shell; returns its exit status."""
        region = self.environment.region
        settings = {"AWS_REGION": region, "AWS_DEFAULT_REGION": region, "CDK_DISABLE_VERSION_CHECK": "1"}
        return cdk.run(*arguments, env={**os.environ, **settings}, log=self.log)

    def run(self, *arguments: str) -> Run:
        """As `cdk`, with a line for each change of a stack."""
        return watch(self.console, self.account, self.environment, lambda: self.cdk(*arguments))

    def failure(self, what: str, done: Run) -> Problem:
        """The error of a failed deployment or removal, with CloudFormation's reasons."""
        body = "\n".join(f"  {line}" for line in done.failures or _tail(self.log))
        return Problem(
            f"{what}:\n{body}\nOutput of the CDK CLI: {self.log}\nCorrect the cause and run it again. What "
            f"was logged: trainyard logs {self.name} --on aws (cluster, bootstrap); to ask somebody: trainyard "
            f"support-bundle {self.name} --on aws"
        )


def watch(console: Console, account: boto3.Session, environment: Environment, run: Callable[[], int]) -> Run:
    """Run the CDK CLI with `run`, and print a line for each change of a stack."""
    with Progress(console, account, environment) as progress:
        code = run()
    return Run(progress.changed, code, progress.failures())


def console() -> Console:
    """A console; wide where it writes to a file or a pipe."""
    made = Console(highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _WIDTH_IN_A_LOG
    return made


def up(target: Target, *, yes: bool, destructive: bool, despite_checks: bool) -> None:
    """Check, show what is created and what it costs, ask once, deploy, and show what exists.

    Raises:
        Problem: a check failed, nobody confirmed, or the deployment failed.
    """
    require_account(target.aws, target.environment)
    require_answer(yes=yes)
    prepare(target.account, target.environment, target.console, stacks.SETTLE_ON_AWS_S)
    target.console.print("Synthesizing with the CDK CLI")
    if target.cdk("synth", "--quiet", *target.synthesis):
        raise Problem("\n".join(["The synthesis failed:", *_tail(target.log), f"Whole output: {target.log}"]))
    _require_ready(target, despite_checks=despite_checks)
    new = synthesized(target.assembly)
    old = deployed(target.account.client("cloudformation"), new)
    verdict = verdict_against(target.account, target.environment, old, new)
    _show_verdict(target, verdict)
    show_costs(target.console, estimate(new, Prices.of(target.environment, target.account)))
    if verdict.level is not Level.NOTHING:
        _confirm_deployment(target, verdict, yes=yes, destructive=destructive)
    options = ("--app", str(target.assembly), "--require-approval", "never", "--concurrency", "4")

    def run(*parts: str) -> Run:
        return target.run("deploy", *parts, *options)

    # CloudFormation can only delete a stack whose first creation failed, which the CDK CLI does before it deploys.
    stacks.allow_deletion(target.account, target.environment, ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"))
    done = deploy(target.account, target.environment, target.console, run, stacks.SETTLE_ON_AWS_S)
    if done.code:
        raise target.failure("The deployment failed", done)
    require_as_deployed(target.account, new, changed=done.changed, console=target.console, show=lambda: show(target))


def prepare(account: boto3.Session, environment: Environment, console: Console, seconds: int) -> None:
    """Finish what an earlier run left, so that CloudFormation accepts a deployment.

    Raises:
        Problem: a stack belongs to another application, is in progress after `seconds`, or its removal has failed.
    """
    stacks.require_own(account, environment)
    stacks.settle(account, environment, console, seconds)
    stacks.finish_rollbacks(account, environment, console, seconds)


def require_as_deployed(
    account: boto3.Session, new: Stacks, *, changed: bool, console: Console, show: Callable[[], None]
) -> None:
    """Say what was done and show what exists.

    Raises:
        Problem: the cluster was deleted or changed outside CloudFormation.
    """
    outside, _ = not_as_deployed(account, deployed(account.client("cloudformation"), new))
    unchanged = "The stacks match the file" if outside else "Nothing to change: the deployment matches the file"
    console.print("Deployed" if changed else unchanged)
    show()
    if outside:
        raise Problem("\n".join(("Not as deployed:", *(f"  {line}" for line in outside))))


def deploy(
    account: boto3.Session,
    environment: Environment,
    console: Console,
    run: Callable[..., Run],
    seconds: int = stacks.SETTLE_S,
) -> Run:
    """Deploy all stacks with `run`; if an export is in use, its users first (docs/decisions/0004).

    Prints what the deployment should have removed and did not.
    """
    done = run("--all")
    if any(_EXPORT_IN_USE in reason for reason in done.failures):
        console.print("The cluster still uses what the file no longer has: deploying the cluster first, then the rest")
        stacks.settle(account, environment, console, seconds)
        stacks.finish_rollbacks(account, environment, console, seconds)
        # A file system that is removed is also in the data links, and has alarms.
        done = run("data-links", "cluster", "observability", "--exclusively")
        if not done.code:
            done = run("--all")
    if not done.code:
        # CloudFormation removes what an update replaced after the update has succeeded, and goes on if it cannot.
        for reason in done.failures:
            console.print(f"[red]Not removed, and may go on costing:[/red] {escape(reason)}", soft_wrap=True)
    return done


def show(target: Target) -> None:
    """The table of what exists."""
    status.show(target.account, target.environment, f"{target.name} --on aws", target.console)
    name = target.name
    target.console.print(
        f"[bold]Next[/bold]\n  open a shell:     trainyard connect {name}\n"
        f"  check the nodes:  trainyard validate {name} --on aws\n"
        f"  change it:        edit {target.file.name}, then: trainyard up {name} --on aws\n"
        f"  remove it:        trainyard down {name} --on aws",
        highlight=False,
    )


def show_costs(console: Console, found: Estimate) -> None:
    """The table of what an environment costs, by resource, with its sums."""
    title = "USD on demand or as cost.prices has it, before taxes and discounts"
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left")
    for column in ("what", "one", "idle, hour", "full size, hour", "month"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for item in found.items:
        idle, full = (
            f"{count:g} x" if item.price is None else dollars(item.price * count) for count in (item.idle, item.full)
        )
        cells = ("", "", full) if item.is_storage else (idle, full, "")
        table.add_row(item.what, dollars(item.price), *cells)
    console.print(table)
    charged = ", ".join(f"{service} ({count})" for service, count in found.by_use.items())
    console.print(
        f"[bold]{found.summary}[/bold]. Charged by use, and not in it: {charged or 'nothing'}; traffic, backups"
    )
    if found.unknown:
        console.print(f"[yellow]Without a known price, and in no sum:[/yellow] {'; '.join(found.unknown)}")


def confirm(question: str, word: str, *, yes: bool) -> None:
    """Return if `yes`, or if the user types `word`.

    Raises:
        Problem: the user typed something else, or there is no terminal.
    """
    require_answer(yes=yes)
    if yes:
        return
    try:
        given = input(f"{question} Type {word} to continue: ")
    except EOFError:
        given = ""
    if given.strip() != word:
        raise Problem(f"Nothing was changed: {given.strip()!r} is not {word!r}.")


def require_answer(*, yes: bool) -> None:
    """Return if `yes`, or if there is a terminal to ask on. Raises Problem."""
    if not yes and not sys.stdin.isatty():
        raise Problem("There is no terminal to ask on. Nothing was changed. Give --yes to continue without a question.")


def _require_ready(target: Target, *, despite_checks: bool) -> None:
    environment, console = target.environment, target.console
    unknown = permissions.require_bootstrap(target.aws, environment, target.assembly)
    missing, reason = permissions.missing(target.aws, environment, target.assembly, DEPLOYMENT)
    for line in filter(None, (unknown, reason)):
        console.print(f"[yellow]Not checked:[/yellow] {line}")
    for line in missing:
        console.print(f"[red]Missing permission:[/red] {line}")
    unable = any(line.startswith("sts:AssumeRole") for line in missing)
    now = datetime.now(UTC)
    found = preflight(
        target.aws, environment, target.file, now, progress=lambda line: console.print(f"[dim]{line}[/dim]")
    )
    text(preflight_report(found), console)
    if despite_checks or (found.ready and not unable):
        return
    raise Problem(
        "Nothing was changed: the checks above did not pass. Do what they say, or give --despite-checks to continue "
        "without them."
    )


def _show_verdict(target: Target, verdict: Verdict) -> None:
    """The verdict without its list of resources, which are counted."""
    report = review_report(verdict)
    text(replace(report, sections=tuple(item for item in report.sections if not item.folded)), target.console)
    counts = Counter(f"{change.type.removeprefix('AWS::')} {change.effect}" for change in verdict.resources)
    counted = ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))
    if counted:
        more = f"Each of them: trainyard diff {target.name} --on aws"
        target.console.print(f"{len(verdict.resources)} resources: {counted}. {more}", markup=False)


def _confirm_deployment(target: Target, verdict: Verdict, *, yes: bool, destructive: bool) -> None:
    refused = [f"{label(item)}: {at_stake(item)}" for item in verdict.resources if item.effect is Effect.REFUSED]
    if refused:
        raise Problem("\n".join(("Nothing was changed: CloudFormation would refuse this deployment.", *refused)))
    dangerous = verdict.level is Level.DESTRUCTIVE
    if yes and dangerous and not destructive:
        raise Problem(
            f"Nothing was changed: the verdict is {verdict.headline}\nGive --destructive too if that is what you want."
        )
    environment = target.environment
    question = f"Deploy {environment.name} to account {environment.account} in {environment.region}?"
    confirm(question, environment.name if dangerous else "yes", yes=yes)


def _tail(log: Path) -> list[str]:
    return log.read_text("utf-8", errors="replace").splitlines()[-30:]
