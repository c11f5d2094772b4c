"""`trainyard check`, `names` and `schema`; the generated schemas and pages are current."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import jsonschema
import pytest
import yaml

from cli import main
from cli.reference import generated
from settings.loader import nested_part
from settings.model import Environment
from settings.model.base import Part
from settings.schema import SCHEMA, schema_text

ROOT = SCHEMA.parent.parent
FILES = sorted(SCHEMA.parent.glob("*.yaml"))
Edit = Callable[[Mapping[str, object]], Path]


def test_faults_are_printed_and_counted(edit: Edit, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *map(str, FILES)]) == 0
    fine = "".join(f"{file}: ok\n" for file in FILES)
    assert capsys.readouterr().out == fine
    file = edit({"storage.lustre.0.capacity_gib": 1000, "network.zone": "usw2-az1"})
    assert main(["check", *map(str, FILES), str(file)]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{fine}{file}:")
    assert "storage.lustre[0].capacity_gib\n    given:   1000\n" in said
    assert said.endswith("2 faults\n")


def test_as_a_program_it_shows_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cli", "check", str(tmp_path / "missing.yaml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot be read: no such file or directory" in done.stdout
    assert done.stderr == ""


def test_the_generated_files_are_current() -> None:
    stale = [file for file, text in generated().items() if file.read_text(encoding="utf-8") != text]
    assert stale == [], "run `make schema`"


def test_names_and_paths_of_files_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "local", "environments/dev.yaml"]) == 0
    assert main(["check", "--pipeline", "promotion"]) == 0
    assert capsys.readouterr().out.count(": ok\n") == 3


def test_schemas_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == schema_text(Environment)
    assert main(["schema", "--pipeline"]) == 0
    assert "Trainyard pipeline" in capsys.readouterr().out


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_name_the_schema_and_validate_against_it(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f"# yaml-language-server: $schema={SCHEMA.name}\n")
    validator = jsonschema.Draft202012Validator(json.loads(schema_text(Environment)))
    assert [error.message for error in validator.iter_errors(yaml.safe_load(text))] == []


def test_the_schema_refuses_what_the_types_refuse() -> None:
    data = yaml.safe_load(FILES[0].read_text(encoding="utf-8")) | {"nmae": "x"}
    validator = jsonschema.Draft202012Validator(json.loads(schema_text(Environment)))
    assert not validator.is_valid(data)


def test_every_key_is_described() -> None:
    silent: list[str] = []
    waiting: list[type[Part]] = [Environment]
    for part in waiting:
        silent += [f"{part.__name__}.{name}" for name, info in part.model_fields.items() if not info.description]
        inner = [nested_part(info.annotation) for info in part.model_fields.values()]
        waiting += [one for one in inner if one is not None and one not in waiting]
    assert silent == []
