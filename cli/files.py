"""`trainyard check`, `names`, `schema` and `completion`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from cli.environments import read
from cli.exits import DONE, NO


def check(options: argparse.Namespace) -> int:
    """Print every fault of the files, or that they have none."""
    import settings
    import settings.pipeline
    from ops.problem import Problem

    find: Callable[[str], Path] = settings.environment_file
    load: Callable[[Path], object] = settings.load
    if options.pipeline:
        find, load = settings.pipeline.pipeline_file, settings.pipeline.load
    try:
        found = [find(name) for name in options.names]
    except ValueError as unknown:
        raise Problem(str(unknown)) from unknown
    faults = 0
    for file in found:
        try:
            load(file)
            _print(f"{file}: ok")
        except settings.Faults as wrong:
            faults += len(wrong.faults)
            _print(str(wrong))
    if faults:
        _print(f"{faults} {'fault' if faults == 1 else 'faults'}")
    return NO if faults else DONE


def names(options: argparse.Namespace) -> int:
    """Print what a workflow needs to assume a role of the environment's account."""
    _, environment = read(options.environment)
    _print(f"name={environment.name}\naccount={environment.account}\nregion={environment.region}")
    return DONE


def schema(options: argparse.Namespace) -> int:
    """Print a JSON Schema, or write the generated files of the checkout."""
    from settings.schema import pipeline_schema_text, schema_text

    if options.write:
        from cli.reference import write_generated

        write_generated()
    else:
        sys.stdout.write(pipeline_schema_text() if options.pipeline else schema_text())
    return DONE


def completion(options: argparse.Namespace) -> int:
    """Print the completion script, generated from the parser."""
    import shtab

    from cli.parser import parser

    _print(shtab.complete(parser(), shell=options.shell))
    return DONE


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
