"""`trainyard up`, `down`, `status` and `exec`."""

from __future__ import annotations

import subprocess
import time
from functools import partial
from pathlib import Path

import boto3
from rich.console import Console

from local.commands import cdk, hello
from local.commands.session import ROOT, Deployed, Session, aws, forget_users_aws
from local.emulator import launch
from local.emulator.processes import log_tail
from ops import lock
from ops.aws import deployment, removal, stacks
from ops.aws import status as table
from ops.aws.deployment import Run
from ops.problem import Problem
from ops.review.stacks import synthesized
from settings import Faults, environment_file

BOOTSTRAP_STACK = "CDKToolkit"
GENERATED_BUCKETS = ("cdk-", "parallelcluster-")
"""Buckets of the CDK and of ParallelCluster: a deployment writes their content again."""
GENERATED_KEYS = ("cluster/",)
"""What Trainyard publishes to the assets bucket."""
console = deployment.console()


def execute(session: Session, port: int | None, line: list[str], *, start: bool) -> int:
    """Run a program with the emulated AWS in the place of AWS; returns its exit status."""
    quiet = Console(stderr=True, highlight=False)
    emulator = session.ensure(port, quiet) if start else session.require_emulator()
    try:
        return subprocess.run(line, env=emulator.child_environment(), check=False).returncode
    except OSError as error:
        raise Problem(f"{line[0]!r} cannot be run: {error.strerror}. Give a program that is in PATH.") from error


def up(session: Session, port: int | None, *, hello_gpu: bool = True) -> None:
    """Start the emulator if none runs, bootstrap it, deploy every stack, show the result, and run a first job."""
    begun = time.monotonic()
    emulator = session.start(port, console)
    account = aws(emulator)
    deployment.prepare(account, session.environment, console, stacks.SETTLE_S)
    _bootstrap(session, emulator)
    console.print("Deploying with the CDK CLI: cdk deploy --all")
    done = deployment.deploy(account, session.environment, console, partial(_deploy, session, emulator))
    if done.code:
        raise _failure("The deployment failed", session, done)
    deployment.require_as_deployed(
        account,
        synthesized(session.assembly),
        changed=done.changed,
        console=console,
        show=lambda: _show(session, emulator),
    )
    if hello_gpu and done.changed:
        hello.run(session, console)
    seconds = time.monotonic() - begun
    console.print(f"[dim]{seconds:.0f} s in all. Output of the CDK CLI: {_shown(session.log)}[/dim]")


def status(session: Session) -> None:
    """The table that `up` ends with, for what exists now."""
    _show(session, session.require_emulator())


def force_down(name: str, given: Path | None, *, delete_data: bool) -> None:
    """Stop an emulator without a destroy, whatever its file says.

    Raises:
        Problem: a bucket holds data and `delete_data` is False; or the folder is that of another environment.
    """
    forget_users_aws()
    try:
        state = Session.open(name, given).as_deployed().state
    except Faults:
        deployed = Deployed.from_file(environment_file(name).resolve())
        found = given or (deployed.state if deployed else None)
        if found is None:
            raise
        state = found.resolve()
    with lock.hold(state):
        emulator = launch.find(state)
        if emulator is not None:
            _deletable_data(aws(emulator), f"trainyard down {name} --force", delete_data=delete_data)
        launch.stop(state)
    console.print("[green]Down.[/green] The emulated AWS was stopped without a destroy.")


def down(session: Session, *, delete_data: bool) -> None:
    """Destroy the stacks and stop the emulator.

    Raises:
        Problem: a bucket holds data and `delete_data` is False, or the destroy failed.
    """
    emulator = session.emulator()
    if emulator is None:
        launch.stop(session.state)
        console.print(f"Nothing is up for {session.environment.name!r}.")
        return
    account = aws(emulator)
    held = _deletable_data(account, f"trainyard down {session.name}", delete_data=delete_data)
    stacks.settle(account, session.environment, console)
    for bucket in held:
        stacks.empty_bucket(account, bucket)
        console.print(f"Emptied s3://{bucket}")
    holdings = removal.holdings(account, session.environment)
    stacks.allow_deletion(account, session.environment)
    console.print("Destroying with the CDK CLI: cdk destroy --all")
    done = _run(session, emulator, "destroy", "--all", "--force", *session.removal)
    if done.code:
        raise _failure("The destruction failed", session, done)
    if kept := [item for item in holdings if item.kept]:
        console.print("Kept by the environment's retention, as in AWS; gone with the emulated AWS now:")
        for item in kept:
            console.print(f"  {item.type} {item.id}")
    launch.stop(session.state)
    console.print("[green]Down.[/green] Nothing runs any more.")


def _deletable_data(account: boto3.Session, command: str, *, delete_data: bool) -> list[str]:
    """Return the buckets with objects of the user's, which may be deleted.

    Raises:
        Problem: there are some and `delete_data` is False.
    """
    held = user_data(account)
    if held and not delete_data:
        listed = "\n".join(
            f"  s3://{bucket}: {count} {'object' if count == 1 else 'objects'}, for example {key}"
            for bucket, count, key in held
        )
        raise Problem(
            f"These buckets hold data, and the emulated AWS forgets everything when it stops:\n{listed}\n"
            f"Copy what you need, then: {command} --delete-data"
        )
    return [bucket for bucket, _, _ in held]


def user_data(account: boto3.Session) -> list[tuple[str, int, str]]:
    """Name, number of objects and first key of each bucket with objects of the user's."""
    client = account.client("s3")
    found = []
    for bucket in client.list_buckets()["Buckets"]:
        name = bucket["Name"]
        if name.startswith(GENERATED_BUCKETS) or name.endswith(f"{account.region_name}-aws-parallelcluster"):
            continue
        # Versions, not objects: deleted and overwritten ones still exist, and S3 deletes no bucket that has any.
        keys = {
            item["Key"]
            for page in client.get_paginator("list_object_versions").paginate(Bucket=name)
            for item in page.get("Versions", [])
            if not item["Key"].startswith(GENERATED_KEYS)
        }
        if keys:
            found.append((name, len(keys), min(keys)))
    return found


def _show(session: Session, emulator: launch.Emulator) -> None:
    name = session.name
    table.show(aws(emulator), session.environment, name, console)
    console.print(
        f"[bold]Next[/bold]\n  edit {session.file.name}, then: trainyard diff {name}, trainyard up {name}\n"
        f"  remove it all:    trainyard down {name}\n"
        f"  deploy it to AWS: trainyard up {name} --on aws  (with the account's credentials)\n"
        f"  connect there:    trainyard connect {name}",
        highlight=False,
    )


def _deploy(session: Session, emulator: launch.Emulator, *parts: str) -> Run:
    return _run(
        session,
        emulator,
        "deploy",
        *parts,
        *session.synthesis,
        *("--require-approval", "never"),
        *("--concurrency", "4"),
    )


def _run(session: Session, emulator: launch.Emulator, *arguments: str) -> Run:
    run = partial(cdk.run, emulator, *arguments, log=session.log)
    return deployment.watch(console, aws(emulator), session.environment, run)


def _bootstrap(session: Session, emulator: launch.Emulator) -> None:
    client = aws(emulator).client("cloudformation")
    try:
        state: str = client.describe_stacks(StackName=BOOTSTRAP_STACK)["Stacks"][0]["StackStatus"]
    except client.exceptions.ClientError:
        state = "absent"
    if state in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        return
    console.print("Bootstrapping: cdk bootstrap")
    place = f"aws://{session.environment.account}/{session.environment.region}"
    if cdk.run(emulator, "bootstrap", place, "--app", "", log=session.log):
        raise Problem(f"cdk bootstrap failed. Its output: {_shown(session.log)}\n{log_tail(session.log)}")


def _failure(what: str, session: Session, done: Run) -> Problem:
    lines = done.failures or [log_tail(session.log)]
    body = "\n".join(f"  {line}" for line in lines)
    return Problem(
        f"{what}:\n{body}\n"
        f"Output of the CDK CLI: {_shown(session.log)}; logs of the emulator: {_shown(session.state)}/, of the "
        f"cluster: trainyard logs {session.name}\n"
        f"Correct the cause and run `trainyard up {session.name}` again; `trainyard down {session.name}` removes what "
        f"exists,\nand `trainyard down {session.name} --force` stops the emulated AWS whatever state it is in."
    )


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
