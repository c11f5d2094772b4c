"""`trainyard up`, `down`, `status`, `exec`, `promote` and `lab`: commands for the emulated AWS, some also for AWS."""

from __future__ import annotations

import argparse

from cli import account, overview
from cli.exits import DONE


def up(options: argparse.Namespace) -> int:
    """Deploy an environment: to an emulated AWS on this machine, or to AWS.

    trainyard up local
    trainyard up my.yaml --port 4700 --no-hello
    trainyard up my.yaml --on aws
    """
    if account.on_aws(options):
        return account.up(options)
    from local.commands import deployment
    from local.commands.session import open_session
    from ops import lock

    with open_session(options.environment, options.state) as session, lock.hold(session.state):
        deployment.up(session, options.port, hello_gpu=not options.no_hello)
    return DONE


def down(options: argparse.Namespace) -> int:
    """Remove an environment from the emulated AWS and stop that, or from AWS.

    trainyard down local
    trainyard down local --delete-data
    trainyard down my.yaml --on aws
    """
    if account.on_aws(options):
        return account.down(options)
    from local.commands import deployment
    from local.commands.session import open_session
    from ops import lock

    if options.force:
        deployment.force_down(options.environment, options.state, delete_data=options.delete_data)
        return DONE
    with open_session(options.environment, options.state) as opened:
        session = opened.as_deployed()
        with lock.hold(session.state):
            deployment.down(session, delete_data=options.delete_data)
    return DONE


def status(options: argparse.Namespace) -> int:
    """Show what is deployed, or with --web how the cluster works.

    trainyard status local
    trainyard status my.yaml --on aws
    trainyard status local --web
    """
    if options.web:
        return overview.show(options)
    overview.refuse_web_options(options)
    if account.on_aws(options):
        return account.status(options)
    from local.commands import deployment
    from local.commands.session import open_session

    with open_session(options.environment, options.state) as session:
        deployment.status(session)
    return DONE


def execute(options: argparse.Namespace) -> int:
    """Run a command with the emulated AWS in the place of AWS.

    trainyard exec local -- aws s3 ls
    trainyard exec local --start -- bash
    """
    from local.commands import deployment
    from local.commands.session import open_session

    with open_session(options.environment, options.state) as session:
        return deployment.execute(session, options.port, options.line, start=options.start)


def promote(options: argparse.Namespace) -> int:
    """Take this checkout through a pipeline in emulated AWS accounts.

    trainyard promote promotion
    trainyard promote promotion --resume --approve dev/Approve-Permissions
    """
    from local.commands.session import require_setup
    from local.pipeline import promotion

    require_setup()
    return promotion.promote(options)


def lab(options: argparse.Namespace) -> int:
    """Run Slurm with an environment's bootstrap and jobs on this machine (root, Debian or Ubuntu).

    trainyard lab up local
    trainyard lab run -- srun -N2 hostname
    """
    from local.commands import lab
    from local.commands.session import require_setup

    require_setup()
    return lab.run(options)
