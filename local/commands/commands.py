"""What `make up`, `make down`, `make diff` and `make status` do."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from rich.console import Console

from local.commands import cdk, hello, leftovers, summary
from local.commands.heartbeat import Heartbeat
from local.commands.progress import Progress
from local.commands.session import DEFAULT_PORT, ROOT, Session, aws, file_of, forget_users_aws, state_folder
from local.emulator import launch
from local.slurm import remote
from local.steering import Steer
from ops.problem import Problem
from ops.review import command, stacks
from ops.review.cdk import diff_text
from ops.review.synthesis import synthesize

WIDTH_IN_A_LOG = 160

console = Console(highlight=False)
if not console.is_terminal and "COLUMNS" not in os.environ:
    console.width = WIDTH_IN_A_LOG

BOOTSTRAP_STACK = "CDKToolkit"
EXPORT_IN_USE = "as it is in use by"
"""CloudFormation's words where a stack would lose what another one imports (docs/decisions/0004)."""


def open_session(name: str, state: Path | None) -> Session:
    """Read the environment; from here on nothing of the user's AWS settings is seen by this process."""
    forget_users_aws()
    return Session.open(name, state)


def start(session: Session, port: int | None, notes: Console = console) -> launch.Emulator:
    """The world of an environment, started where it does not run, with what the file names as bought in it."""
    environment = session.environment
    remote.remember(session.state, environment, session.file)
    world = session.world()
    if world and port and port != world.port:
        raise Problem(
            f"The emulated AWS of {session.file.name} runs on ports {world.port} and {world.port + 1}, not {port}.\n"
            f"Leave PORT out, or stop it first: make down ENV={session.file.stem}"
        )
    if world is None:
        first = port or DEFAULT_PORT
        notes.print(
            f"Starting the emulated AWS for [bold]{environment.name}[/bold] on 127.0.0.1, ports {first} and {first + 1}"
        )
        return launch.start(
            session.state,
            account=environment.account,
            region=environment.region,
            port=first,
            api_port=first + 1,
            seeds=session.seeds(),
        )
    notes.print(
        f"The emulated AWS for [bold]{environment.name}[/bold] is running already, on ports {world.port} and "
        f"{world.api_port}"
    )
    Steer(world).seeds(session.seeds())
    return world


def execute(session: Session, port: int | None, line: list[str], *, begin: bool) -> int:
    """Run a command with the emulated AWS in the place of AWS; its exit status."""
    world = start(session, port, Console(stderr=True, highlight=False)) if begin else session.require_world()
    try:
        return subprocess.run(line, env=world.child_environment(), check=False).returncode
    except OSError as error:
        raise Problem(f"{line[0]!r} cannot be run: {error.strerror}. Give a program that is in PATH.") from error


def up(session: Session, port: int | None, *, hello_gpu: bool = True) -> None:
    """Start the world if it is not there, bootstrap it, deploy every stack, show what stands, and run a first job."""
    begun = time.monotonic()
    environment = session.environment
    world = start(session, port)
    leftovers.mend(aws(world), environment, console)
    log = session.state / "cdk.log"
    _bootstrap(session, world, log)
    console.print("Deploying with the CDK CLI: cdk deploy --all")
    progress = Progress(console)
    code = _deploy(session, world, progress, "--all")
    if code and any(EXPORT_IN_USE in reason for reason in leftovers.failure_reasons(aws(world), environment)):
        console.print("The cluster still uses what the file no longer has: deploying the cluster first, then the rest")
        leftovers.mend(aws(world), environment, console)
        progress = Progress(console)
        code = _deploy(session, world, progress, "cluster", "--exclusively") or _deploy(
            session, world, progress, "--all"
        )
    if code:
        raise Problem(_failure("The deployment failed", progress, log, aws_world=world, session=session))
    console.print("Nothing to change: what stands is what the file says" if not progress.changed else "Deployed")
    summary.show(session, world, console)
    if hello_gpu and progress.changed:
        hello.run(session, console)
    console.print(f"[dim]{time.monotonic() - begun:.0f} s in all. Everything the CDK CLI said: {_shown(log)}[/dim]")


def _deploy(session: Session, world: launch.Emulator, progress: Progress, *stacks: str) -> int:
    return _run(
        session,
        world,
        progress,
        "deploy",
        *stacks,
        "--context",
        f"env={session.context}",
        "--output",
        str(session.state / "cdk.out"),
        "--require-approval",
        "never",
        "--concurrency",
        "4",
        "--progress",
        "events",
        "--outputs-file",
        str(session.outputs_file),
    )


def _run(session: Session, world: launch.Emulator, progress: Progress, *arguments: str) -> int:
    with Heartbeat(progress, aws(world), session.environment.cluster_name):
        return cdk.run(world, *arguments, log=session.state / "cdk.log", on_line=progress.line)


def _bootstrap(session: Session, world: launch.Emulator, log: Path) -> None:
    environment = session.environment
    client = aws(world).client("cloudformation")
    status: str
    try:
        status = client.describe_stacks(StackName=BOOTSTRAP_STACK)["Stacks"][0]["StackStatus"]
    except client.exceptions.ClientError:
        status = "absent"
    if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        return
    console.print("Bootstrapping: cdk bootstrap")
    code = cdk.run(
        world,
        "bootstrap",
        f"aws://{environment.account}/{environment.region}",
        "--app",
        "",
        "--progress",
        "events",
        log=log,
    )
    if code:
        raise Problem(f"cdk bootstrap failed. Its output: {_shown(log)}\n{_tail(log)}")


def force_down(name: str, state: Path | None) -> None:
    """Stop a world as it is, whatever stands in its file: for one in which a destroy cannot go through."""
    launch.stop(state_folder(file_of(name), state))
    console.print("[green]Down.[/green] The emulated AWS was stopped without a destroy.")


def down(session: Session, *, delete_data: bool) -> None:
    """Destroy the stacks and stop the world; refuse where a bucket holds data that nobody asked to delete."""
    world = session.world()
    if world is None:
        launch.stop(session.state)
        console.print(f"Nothing is up for {session.environment.name!r}.")
        return
    account = aws(world)
    held = leftovers.user_data(account, session)
    if held and not delete_data:
        listed = "\n".join(
            f"  s3://{bucket}: {count} objects, for example {example}" for bucket, count, example in held
        )
        raise Problem(
            f"These buckets hold data, and the emulated AWS forgets everything when it stops:\n{listed}\n"
            f"Copy what you need, then: make down ENV={session.file.stem} DELETE_DATA=yes"
        )
    leftovers.mend(account, session.environment, console)
    for bucket, _, _ in held:
        leftovers.empty_bucket(account, bucket)
        console.print(f"Emptied s3://{bucket}")
    leftovers.unprotect(account, session.environment)
    log = session.state / "cdk.log"
    console.print("Destroying with the CDK CLI: cdk destroy --all")
    progress = Progress(console)
    code = _run(
        session,
        world,
        progress,
        "destroy",
        "--all",
        "--force",
        *_assembly(session),
        "--progress",
        "events",
    )
    if code:
        raise Problem(_failure("The destruction failed", progress, log, aws_world=world, session=session))
    kept = leftovers.kept(account, session.environment)
    if kept:
        console.print("Kept by the environment's retention, as in AWS; gone with the emulated AWS now:")
        for line in kept:
            console.print(f"  {line}")
    launch.stop(session.state)
    session.outputs_file.unlink(missing_ok=True)
    console.print("[green]Down.[/green] Nothing runs any more.")


def _assembly(session: Session) -> tuple[str, ...]:
    """What was synthesized for the last deployment, which is all a destroy needs; without it, how to make it."""
    assembly = session.state / "cdk.out"
    if (assembly / "manifest.json").is_file():
        return ("--app", str(assembly))
    return ("--context", f"env={session.context}", "--output", str(assembly))


def diff(session: Session, *, form: str = "text", output: Path | None = None) -> int:
    """The verdict on what `up` would change, with the CDK's diff against the emulated AWS; the exit status."""
    client = aws(session.require_world()).client("cloudformation")
    new = synthesize(ROOT, session.file, session.state / "cdk.out", bundle=True)
    old = stacks.deployed(client, new)
    return command.report(
        session.environment.name,
        "what stands in the emulated AWS",
        old=old,
        new=new,
        cdk_diff=diff_text(old, new),
        form=form,
        output=output,
        console=console,
    )


def status(session: Session) -> None:
    """The table that `up` ends with, for what stands now."""
    summary.show(session, session.require_world(), console)


def _failure(what: str, progress: Progress, log: Path, *, aws_world: launch.Emulator, session: Session) -> str:
    reasons = leftovers.failure_reasons(aws(aws_world), session.environment)
    lines = reasons or progress.errors or progress.failures or [_tail(log)]
    body = "\n".join(f"  {line}" for line in lines)
    name = session.file.stem
    return (
        f"{what}:\n{body}\n"
        f"Everything the CDK CLI said: {_shown(log)}; the world's own logs: {_shown(session.state)}/\n"
        f"Mend the cause and run `make up ENV={name}` again; `make down ENV={name}` removes what stands,\n"
        f"and `make down ENV={name} FORCE=yes` stops the emulated AWS whatever state it is in."
    )


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text().splitlines()[-lines:])


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
