"""Command line: `python -m settings check FILE...`, `schema`, `reference`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from settings.faults import Faults
from settings.loader import load
from settings.reference import DOCUMENT, document_with_reference
from settings.schema import SCHEMA, schema_text

OK, FAULTY = 0, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. 0 where all is well, 2 where a file has faults (or the command line has)."""
    parser = argparse.ArgumentParser(
        prog="python -m settings", description="Environment files: check and describe them."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="check environment files; faults go to standard output")
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    commands.add_parser("schema", help=f"write {SCHEMA.parent.name}/{SCHEMA.name}")
    commands.add_parser("reference", help=f"write the tables in {DOCUMENT.parent.name}/{DOCUMENT.name}")
    chosen = parser.parse_args(arguments)
    if chosen.command == "check":
        return _check(chosen.files)
    if chosen.command == "schema":
        SCHEMA.write_text(schema_text(), encoding="utf-8", newline="\n")
    else:
        document = document_with_reference(DOCUMENT.read_text(encoding="utf-8"))
        DOCUMENT.write_text(document, encoding="utf-8", newline="\n")
    return OK


def _check(files: Sequence[Path]) -> int:
    faults = 0
    for file in files:
        try:
            load(file)
            print(f"{file}: ok")  # noqa: T201 - the command's output
        except Faults as found:
            faults += len(found.faults)
            print(found)  # noqa: T201 - the command's output
    if faults:
        print(f"{faults} {'fault' if faults == 1 else 'faults'}")  # noqa: T201 - the command's output
    return FAULTY if faults else OK


if __name__ == "__main__":
    sys.exit(main())
