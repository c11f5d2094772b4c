"""`trainyard check`, `names`, `schema` and `completion`; from the ENV of a command line to an environment."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cli.exits import DONE, NO

if TYPE_CHECKING:
    from settings import Environment


def read(name: str) -> tuple[Path, Environment]:
    """The absolute path of an environment file, and its content.

    Raises:
        UnknownName: no environment has this name.
        Faults: the file has faults.
    """
    from settings import environment_file, load

    file = environment_file(name).resolve()
    return file, load(file)


def check(options: argparse.Namespace) -> int:
    """Check environment or pipeline files without synthesizing them.

    trainyard check local
    trainyard check environments/*.yaml
    trainyard check --pipeline promotion
    """
    import settings

    find: Callable[[str], Path] = settings.environment_file
    load: Callable[[Path], object] = settings.load
    if options.pipeline:
        from settings import pipeline

        find, load = pipeline.pipeline_file, pipeline.load
    faults = 0
    for file in [find(name) for name in options.names]:
        try:
            load(file)
            say(f"{file}: ok")
        except settings.Faults as wrong:
            faults += len(wrong.faults)
            say(str(wrong))
    if faults:
        say(f"{faults} {'fault' if faults == 1 else 'faults'}")
    return NO if faults else DONE


def names(options: argparse.Namespace) -> int:
    """Print NAME=VALUE lines: name, account, region.

    trainyard names dev >> "$GITHUB_OUTPUT"
    """
    _, environment = read(options.environment)
    say(f"name={environment.name}\naccount={environment.account}\nregion={environment.region}")
    return DONE


def schema(options: argparse.Namespace) -> int:
    """Print the JSON Schema of environment files.

    trainyard schema > environment.schema.json
    trainyard schema --pipeline
    trainyard schema --write
    """
    if options.write:
        from cli.reference import generated

        for file, text in generated().items():
            file.write_text(text, encoding="utf-8", newline="\n")
    else:
        from settings.schema import GENERATED, schema_text

        root, *_ = GENERATED[1 if options.pipeline else 0]
        sys.stdout.write(schema_text(root))
    return DONE


def completion(options: argparse.Namespace) -> int:
    """Print a completion script for a shell.

    trainyard completion bash > ~/.local/share/bash-completion/completions/trainyard
    """
    import shtab

    from cli.parser import parser

    say(shtab.complete(parser(), shell=options.shell))
    return DONE


def say(line: object, *, at_once: bool = False) -> None:
    """Print a line; `at_once` flushes it, also into a pipe."""
    sys.stdout.write(f"{line}\n")
    if at_once:
        sys.stdout.flush()
