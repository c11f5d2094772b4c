"""Check rendered configurations with the genuine ParallelCluster package:

    parallelcluster/.venv/bin/python -m parallelcluster.check CONFIG... [--account ACCOUNT] [--template FOLDER]

CONFIG is a JSON or YAML file with a configuration; the file's name without its ending is the cluster's. ACCOUNT is a
JSON file `{"<cluster>": {<attributes of account.Account>}}` of what differs from what the configurations name. FOLDER
gets each cluster's template as `<cluster>.json`.

Prints a JSON object: by cluster `ok`, `schema` (errors), `messages` (`level`, `type`, `message` each) and `resources`
(how many of which type). Exit status: 0 all are good, with or without warnings; 1 one has an error; 2 wrong use.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml


def _structure(path: Path) -> dict[str, Any]:
    try:
        structure = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SystemExit(_wrong_use(f"{path} cannot be read as JSON or YAML: {error}")) from None
    if not isinstance(structure, dict):
        raise SystemExit(_wrong_use(f"{path} holds a {type(structure).__name__}; it must hold a mapping."))
    return structure


def _wrong_use(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m parallelcluster.check", description=__doc__.splitlines()[0])
    parser.add_argument("configurations", nargs="+", type=Path, metavar="CONFIG", help="JSON or YAML file")
    parser.add_argument("--account", type=Path, help="JSON file of overrides by cluster name")
    parser.add_argument("--template", type=Path, help="folder for the clusters' templates")
    options = parser.parse_args(arguments)

    structures = {path.stem: _structure(path) for path in options.configurations}
    if len(structures) < len(options.configurations):
        return _wrong_use("Two configurations have one cluster name; give their files different names.")
    overrides = _structure(options.account) if options.account else {}
    if unknown := sorted(set(overrides) - set(structures)):
        return _wrong_use(f"{options.account} names {', '.join(unknown)}; allowed are {', '.join(structures)}.")

    # Imported late: it takes seconds, and wrong use should not.
    from parallelcluster.account import AccountError
    from parallelcluster.validation import check

    reports = {}
    for name, configuration in structures.items():
        try:
            reports[name] = check(name, configuration, overrides.get(name, {}))
        except AccountError as error:
            return _wrong_use(f"{name}: {error}")
    if options.template:
        options.template.mkdir(parents=True, exist_ok=True)
        for name, report in reports.items():
            if report.template:
                text = json.dumps(report.template, indent=2, sort_keys=True)
                (options.template / f"{name}.json").write_text(f"{text}\n", "utf-8")
    json.dump({name: report.summary() for name, report in reports.items()}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if all(report.ok for report in reports.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
