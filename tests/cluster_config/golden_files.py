"""The rendered configuration of each shipped environment, kept in git so that a review shows what a change does to it.

Write the files anew with

    .venv/bin/python -m tests.cluster_config.golden_files

and look at the difference before it is committed.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from settings import Environment
from tests.cluster_config.references import environments, references
from trainyard.cluster_config import render

FOLDER = Path(__file__).parent / "golden"


def path(name: str) -> Path:
    """Where the configuration of the environment file `name` lies."""
    return FOLDER / f"{name}.yaml"


def text(environment: Environment) -> str:
    """Its content."""

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
            return True

    return yaml.dump(render(environment, references(environment)), Dumper=Plain, sort_keys=False, width=1000)


def refresh() -> None:
    """Write all files and remove those of environments that are gone."""
    FOLDER.mkdir(exist_ok=True)
    contents = {path(name): text(environment) for name, environment in environments().items()}
    for stale in set(FOLDER.glob("*.yaml")) - set(contents):
        stale.unlink()
    for file, content in contents.items():
        file.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    refresh()
