"""The command line itself: help, exit statuses, completion, colours, what it imports, and make's aliases."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli import exits, main, verdicts
from cli.parser import FORMATS, parser
from cli.reference import _subparsers
from ops.preflight.aws import Aws, Denied
from ops.report import FORMATS as FORMATS_OF_REPORTS

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "up", "down", "status", "connect", "init", "exec", "promote", "lab", "logs", "support-bundle",
    "diff", "gate", "preflight", "validate", "notify", "drift", "data", "cost",
    "check", "names", "schema", "completion", "user",
}  # fmt: skip
HEAVY = ("boto3", "botocore", "aws_cdk", "jsii", "rich", "pydantic", "yaml", "jinja2", "settings", "ops", "local")


def test_every_command_has_help_with_examples_that_parse(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {command.prog.removeprefix("trainyard "): command for command in _subparsers(parser())}
    assert set(commands) == COMMANDS
    for name, command in commands.items():
        examples = re.findall(r"^  trainyard (.*?)(?: >.*)?$", command.epilog or "", re.MULTILINE)
        assert examples, name
        assert (command.epilog or "").count("\n") == len(examples), name  # nothing else is printed as one
        for example in examples:
            options = parser().parse_args(example.split())
            assert options.command == name
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert all(meaning in said for _, meaning in exits.TABLE)


def test_formats_are_those_of_the_report_module() -> None:
    """Its own tuple, so that the command line needs no import of it."""
    assert FORMATS == FORMATS_OF_REPORTS


def loaded(program: str) -> set[str]:
    """The packages that a Python program loads."""
    line = [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("command", ["check", "diff", "preflight", "validate", "drift", "up", "lab"])
def test_nothing_heavy_is_imported_before_the_work_begins(command: str) -> None:
    line = [command, "up" if command == "lab" else "local"]
    found = loaded(f"from cli.parser import parser; parser().parse_args({line!r})")
    assert "cli" in found
    assert not found & set(HEAVY)


def test_a_check_of_a_file_needs_no_aws() -> None:
    found = loaded("from cli import main; main(['check', 'local'])")
    assert "pydantic" in found
    assert not found & {"boto3", "botocore", "aws_cdk", "jsii", "rich", "jinja2", "local"}


@pytest.mark.parametrize(
    "arguments", [[], ["nothing"], ["diff"], ["up", "local", "--port", "80"], ["drift", "x", "--on", "gcp"]]
)
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == exits.FAILED
    assert "usage: trainyard" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["diff", "preflight", "validate", "notify", "drift"])
def test_interrupted(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verdicts, "read", interrupted)
    assert main([command, "local"]) == exits.INTERRUPTED
    assert "Interrupted. There is no result." in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_ended_is_not_an_error(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "cli", "schema"]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (exits.DONE, b"")


@pytest.mark.parametrize("command", ["diff", "preflight", "validate", "drift", "cost", "user apply"])
def test_credentials_of_another_account_are_refused(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    caller = {"Account": "210987654321", "Arn": "arn:aws:iam::210987654321:user/ada"}
    monkeypatch.setattr(Aws, "call", lambda *_, **__: caller)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert main([*command.split(), "staging", "--on", "aws"]) == exits.FAILED
    assert "Your credentials belong to account 210987654321" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Denied("fsx:DescribeBackups"), "fsx:DescribeBackups is not allowed for your credentials"),
        (ZeroDivisionError(), "ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("command", ["diff", "preflight", "drift"])
def test_an_error_is_named_and_is_not_a_verdict(
    command: str, error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(verdicts, "read", failing)
    assert main([command, "local"]) == exits.FAILED
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check local", "names", "status", "diff", "preflight", "validate", "drift"])
def test_an_unknown_environment_lists_the_known_ones(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    on_aws = ["--on", "aws"] if command in {"preflight", "validate", "drift"} else []
    assert main([*command.split(), "nowhere", *on_aws]) == exits.FAILED
    said = capsys.readouterr()
    assert said.out == ""
    assert "'nowhere'" in said.err and "jakarta-80xp5e" in said.err and "Traceback" not in said.err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS)
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.parametrize("arguments", [["--no-color", "names", "local"], ["names", "local", "--no-color"]])
def test_colours_can_be_turned_off(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert main(arguments) == 0
    assert os.environ["NO_COLOR"] == "1"


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    line, env = ["make", "--silent", *arguments], {**os.environ, **variables}
    return subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


CODE = """x; touch {0}1 $(touch {0}2) $$(touch {0}3) $(shell touch {0}4) `touch {0}5`"; touch {0}6; \""""


@pytest.mark.parametrize(("target", "variable"), [("check", "ENV"), ("check", "PIPELINE"), ("diff", "PORT")])
def test_make_runs_nothing_that_a_variable_holds(target: str, variable: str, tmp_path: Path) -> None:
    given = CODE.format(tmp_path / "trace")
    for done in (make(target, f"{variable}={given}"), make(target, **{variable: given})):
        assert done.returncode == 2
        assert f"{given!r}" in done.stderr
        assert not list(tmp_path.iterdir())


def test_make_takes_names_and_paths() -> None:
    assert make("check", "ENV=environments/dev.yaml").stdout == "environments/dev.yaml: ok\n"
    assert make("check", "PIPELINE=promotion").returncode == 0


def test_the_help_of_make_has_no_escape_codes() -> None:
    done = make("help")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "preflight" in done.stdout


def test_minutes_of_a_job_may_be_parts_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    for given, minutes in (("30", 30), ("0.2", 0.2), ("1440", 1440)):
        assert parser().parse_args(["validate", "local", "--start-minutes", given]).start_minutes == minutes
    for wrong in ("0", "-1", "1441", "1e3", "nan", "soon"):
        with pytest.raises(SystemExit):
            parser().parse_args(["validate", "local", f"--start-minutes={wrong}"])
        assert f"{wrong!r}; allowed: more than 0, to 1440" in capsys.readouterr().err
