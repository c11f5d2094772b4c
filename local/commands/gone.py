"""A world that ended while a command was at work with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from botocore.exceptions import ConnectionError as Unreachable
from botocore.exceptions import HTTPClientError

from local.emulator import launch
from ops.problem import Problem


def reason(world: launch.Emulator) -> str:
    """What happened and what to do, as the end of a sentence."""
    return (
        "the emulated AWS ended in the middle, and what stood in it is gone with it.\n"
        "Run `make up` again: it starts a new one. Its last messages are in emulator.log and api.log "
        f"under {world.state_dir}."
    )


@contextmanager
def in_words(state: Path) -> Iterator[None]:
    """Turns a request that reached nobody into a Problem, where the world of a state folder is gone.

    Where it still runs, the error is one of the program's own and goes on as it is.
    """
    try:
        yield
    except (Unreachable, HTTPClientError) as error:
        world = launch.read(state)
        if world is None or world.alive:
            raise
        raise Problem(f"The command was stopped: {reason(world)}") from error
