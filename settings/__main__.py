"""Command line: `python -m settings check FILE...`, `check-pipeline FILE...`, `names ENV`, `schema`, `reference`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from settings.faults import Faults
from settings.files import environment_file
from settings.loader import load
from settings.model import Environment
from settings.pipeline import Pipeline
from settings.pipeline import load as load_pipeline
from settings.reference import DOCUMENT, PIPELINE_DOCUMENT, document_with_reference
from settings.schema import PIPELINE_SCHEMA, SCHEMA, pipeline_schema_text, schema_text

OK, FAULTY = 0, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. 0 where all is well, 2 where a file has faults (or the command line has)."""
    parser = argparse.ArgumentParser(
        prog="python -m settings", description="Environment files: check and describe them."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="check environment files; faults go to standard output")
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    pipelines = commands.add_parser("check-pipeline", help="check pipeline files, and the environments they name")
    pipelines.add_argument("files", nargs="+", type=Path, metavar="FILE")
    names = commands.add_parser(
        "names", help="print name, account and region of an environment, a line NAME=value each"
    )
    names.add_argument("environment", metavar="ENV", help="a name under environments/, or a file's path")
    commands.add_parser("schema", help="write the JSON Schema of environment files, and that of pipeline files")
    commands.add_parser("reference", help=f"write the tables in {DOCUMENT.name} and {PIPELINE_DOCUMENT.name}")
    chosen = parser.parse_args(arguments)
    if chosen.command == "check":
        return _check(chosen.files, load)
    if chosen.command == "check-pipeline":
        return _check(chosen.files, load_pipeline)
    if chosen.command == "names":
        return _names(chosen.environment)
    if chosen.command == "schema":
        SCHEMA.write_text(schema_text(), encoding="utf-8", newline="\n")
        PIPELINE_SCHEMA.write_text(pipeline_schema_text(), encoding="utf-8", newline="\n")
    else:
        for document, root in ((DOCUMENT, Environment), (PIPELINE_DOCUMENT, Pipeline)):
            text = document_with_reference(document.read_text(encoding="utf-8"), root)
            document.write_text(text, encoding="utf-8", newline="\n")
    return OK


def _names(name: str) -> int:
    try:
        environment = load(environment_file(name))
    except (Faults, ValueError) as fault:
        sys.stderr.write(f"{fault}\n")
        return FAULTY
    for key in ("name", "account", "region"):
        print(f"{key}={getattr(environment, key)}")  # noqa: T201 - the command's output
    return OK


def _check(files: Sequence[Path], read: Callable[[Path], object]) -> int:
    faults = 0
    for file in files:
        try:
            read(file)
            print(f"{file}: ok")  # noqa: T201 - the command's output
        except Faults as found:
            faults += len(found.faults)
            print(found)  # noqa: T201 - the command's output
    if faults:
        print(f"{faults} {'fault' if faults == 1 else 'faults'}")  # noqa: T201 - the command's output
    return FAULTY if faults else OK


if __name__ == "__main__":
    sys.exit(main())
