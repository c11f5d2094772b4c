"""`connect`, `init`, and `up`, `down` and `status` with `--on aws`: the account that your credentials reach."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cli.exits import DONE, FAILED
from cli.files import read

if TYPE_CHECKING:
    from pathlib import Path

    from ops.aws.deployment import Target
    from settings import Environment

ONLY_LOCAL = {"port": "--port", "no_hello": "--no-hello", "force": "--force"}
ONLY_AWS = {"yes": "--yes", "destructive": "--destructive", "despite_checks": "--despite-checks"}


def up(options: argparse.Namespace) -> int:
    """`trainyard up --on aws`."""
    from ops import lock
    from ops.aws import deployment

    checks = {"destructive": options.destructive, "despite_checks": options.despite_checks}
    target = _target(options)
    with lock.hold(target.state):
        deployment.up(target, yes=options.yes, **checks)
    return DONE


def down(options: argparse.Namespace) -> int:
    """`trainyard down --on aws`."""
    from ops import lock
    from ops.aws import removal

    target = _target(options)
    with lock.hold(target.state):
        removal.down(target, yes=options.yes, delete_data=options.delete_data)
    return DONE


def status(options: argparse.Namespace) -> int:
    """`trainyard status --on aws`."""
    from ops.aws import deployment
    from ops.preflight.aws import require_account

    target = _target(options)
    require_account(target.aws, target.environment)
    deployment.show(target)
    return DONE


def connect(options: argparse.Namespace) -> int:
    """Write an SSH configuration for a cluster on AWS, over Systems Manager with keys that last 60 seconds.

    trainyard connect my.yaml
    trainyard connect my.yaml --user ada --key ~/.ssh/id_ed25519
    trainyard connect my.yaml --dashboards
    """
    from ops.aws import connect, dashboards, deployment
    from ops.preflight.aws import require_account

    target = _target(options)
    require_account(target.aws, target.environment)
    if options.dashboards:
        dashboards.open_dashboards(target.account, target.environment, deployment.console())
        return DONE
    nodes = connect.hosts(target.account.client("ec2"), target.environment)
    folder = options.folder.expanduser().resolve()
    file = connect.write(folder, target.environment, nodes, options.key, options.user)
    console = deployment.console()
    console.print(f"Wrote {file}", soft_wrap=True)
    for line in connect.advice(file, list(nodes)):
        console.print(f"  {line}", markup=False, soft_wrap=True)
    missing = connect.missing_tools()
    for page in missing:
        console.print(f"[red]Missing on this machine:[/red] {page}", soft_wrap=True)
    return FAILED if missing else DONE


def init(options: argparse.Namespace) -> int:
    """Write a first environment file, from options or questions; asks STS for the account.

    trainyard init environments/mine.yaml
    trainyard init mine.yaml --region us-west-2 --reservation cr-0123456789abcdef0
    """
    import tempfile
    from pathlib import Path

    import boto3

    from ops.aws import deployment, init
    from ops.cost.estimate import estimate
    from ops.cost.prices import Prices
    from ops.preflight.aws import Aws
    from ops.review.synthesis import synthesize

    given = {key: getattr(options, key) for key in init.QUESTIONS}
    file = options.file.resolve()
    environment = init.write(file, given, lambda region: Aws(boto3.Session(region_name=region), region))
    console = deployment.console()
    console.print(f"Wrote {file}", soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="trainyard-init-") as folder:
        templates = synthesize(deployment.ROOT, file, Path(folder))
    session = boto3.Session(region_name=environment.region)
    deployment.show_costs(console, estimate(templates, Prices.of(environment, session)))
    console.print(f"Next: trainyard preflight {options.file} --on aws, then trainyard up {options.file} --on aws")
    return DONE


def on_aws(options: argparse.Namespace) -> bool:
    """Whether a command is for AWS.

    Raises:
        Problem: an option is given that has no meaning there.
    """
    from ops.problem import Problem

    aws: bool = options.on == "aws"
    other = ONLY_LOCAL if aws else ONLY_AWS
    if wrong := [flag for name, flag in other.items() if getattr(options, name, None)]:
        place = "the emulated AWS" if aws else "--on aws"
        raise Problem(f"{', '.join(wrong)}: only with {place}. Leave it out.")
    return aws


def state_of(options: argparse.Namespace, environment: Environment) -> Path:
    """The folder with the state and logs of an environment in an account."""
    from ops.aws.deployment import ROOT

    name = f"{environment.name}-{environment.account}-{environment.region}"
    given: Path = getattr(options, "state", None) or ROOT / ".trainyard" / "aws" / name
    return given.resolve()


def _target(options: argparse.Namespace) -> Target:
    import os

    import boto3

    from ops.aws.deployment import Target, console

    file, environment = read(options.environment)
    # The signing of requests to the ParallelCluster API reads the region there.
    os.environ["AWS_DEFAULT_REGION"] = os.environ["AWS_REGION"] = environment.region
    return Target(
        file, environment, state_of(options, environment), boto3.Session(region_name=environment.region), console()
    )
