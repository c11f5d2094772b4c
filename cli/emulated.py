"""`trainyard up`, `down`, `status`, `exec`, `promote` and `lab`: commands for the emulated AWS on this machine."""

from __future__ import annotations

import argparse

from cli.exits import DONE


def up(options: argparse.Namespace) -> int:
    """Deploy an environment."""
    from local.commands import deployment
    from local.commands.session import open_session

    with open_session(options.environment, options.state) as session:
        deployment.up(session, options.port, hello_gpu=not options.no_hello)
    return DONE


def down(options: argparse.Namespace) -> int:
    """Destroy an environment and stop the emulator."""
    from local.commands import deployment
    from local.commands.session import open_session

    if options.force:
        deployment.force_down(options.environment, options.state)
        return DONE
    with open_session(options.environment, options.state) as session:
        deployment.down(session, delete_data=options.delete_data)
    return DONE


def status(options: argparse.Namespace) -> int:
    """Show what exists."""
    from local.commands import deployment
    from local.commands.session import open_session

    with open_session(options.environment, options.state) as session:
        deployment.status(session)
    return DONE


def execute(options: argparse.Namespace) -> int:
    """Run a program; returns its exit status."""
    from local.commands import deployment
    from local.commands.session import open_session

    with open_session(options.environment, options.state) as session:
        return deployment.execute(session, options.port, options.line, start=options.start)


def promote(options: argparse.Namespace) -> int:
    """Take the checkout through a pipeline."""
    from local.commands.session import require_setup
    from local.pipeline.__main__ import main

    require_setup()
    line = [options.pipeline, *["--stop"] * options.stop, *["--resume"] * options.resume]
    for name in ("checkout", "state", "port"):
        if getattr(options, name) is not None:
            line += [f"--{name}", str(getattr(options, name))]
    line += [word for skipped in options.skip for word in ("--skip", skipped)]
    line += [word for key in " ".join(options.approve).split() for word in ("--approve", key)]
    return main(line)


def lab(options: argparse.Namespace) -> int:
    """Run one action of the laboratory."""
    from local.commands import lab
    from local.commands.session import require_setup

    require_setup()
    return lab.run(options)
