"""Commands for the emulated AWS where none runs: what users see, and which AWS settings reach it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber
from botocore.utils import get_environ_proxies
from rich.console import Console

from cli import main
from local.commands import cdk, session
from local.emulator import launch, processes
from ops.aws import cdk as runner
from ops.aws import progress
from ops.problem import Problem
from settings import environment_file, load
from tests.stubs import fake_command

ROOT = Path(__file__).resolve().parents[2]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    return code, capsys.readouterr().err


def test_nothing_up_says_how_to_start(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command, rest in (("status", ()), ("diff", ()), ("exec", ("--", "true"))):
        code, said = run(capsys, command, "local", "--state", str(tmp_path / "none"), *rest)
        assert code == 4
        assert "trainyard up local" in said


def test_down_of_what_is_not_up_succeeds(tmp_path: Path) -> None:
    assert main(["down", "local", "--state", str(tmp_path)]) == 0


def test_a_file_with_faults_is_refused_with_its_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (ROOT / "environments" / "local.yaml").read_text()
    file.write_text(text.replace("throughput: 125\n", "throughput: 300\n"))
    line = next(number for number, row in enumerate(file.read_text().splitlines(), 1) if "throughput: 300" in row)
    code, said = run(capsys, "up", str(file), "--state", str(tmp_path / "state"))
    assert code == 4
    assert f"mine.yaml:{line}: storage.lustre[0].throughput" in said
    assert not (tmp_path / "state").exists()


def test_what_the_file_names_by_id_exists_in_the_emulated_account(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (ROOT / "environments" / "local.yaml").read_text()
    ids = "vpc_id: vpc-0123456789abcdef0, private_subnet_id: subnet-0123456789abcdef0"
    existing = f"  existing: {{vpc_cidr: 10.0.0.0/16, {ids}}}\n"
    boundary = "arn:aws:iam::000000000000:policy/boundary"
    text = text.replace("  cidr: 10.0.0.0/16\n", existing)
    file.write_text(text.replace("  os: ubuntu2204\n", f"  os: ubuntu2204\n  permissions_boundary: {boundary}\n"))
    seeds = session.Session.open(str(file), tmp_path).seeds()
    assert seeds["policies"] == [boundary]
    assert seeds["networks"] == [
        {
            "vpc_id": "vpc-0123456789abcdef0",
            "cidr": "10.0.0.0/16",
            "zone_id": "use1-az4",
            "subnets": {"subnet-0123456789abcdef0": "10.0.0.0/17"},
        }
    ]


def test_nothing_of_the_users_aws_settings_reaches_the_cdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "mine")
    handed = cdk.environment_for({"AWS_ENDPOINT_URL": "http://127.0.0.1:4600"})
    assert {key for key in handed if key.startswith("AWS_")} == {"AWS_ENDPOINT_URL"}
    session.forget_users_aws()
    assert "AWS_PROFILE" not in os.environ
    assert os.environ["AWS_CONFIG_FILE"] == os.devnull


def test_loopback_never_goes_to_the_users_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(key, "http://198.51.100.1:3128")
    monkeypatch.setenv("NO_PROXY", "corp.internal")
    monkeypatch.delenv("no_proxy", raising=False)
    session.forget_users_aws()
    assert os.environ["NO_PROXY"] == "corp.internal,127.0.0.1,localhost"
    assert get_environ_proxies("http://127.0.0.1:4600/") == {}
    assert urllib.request.proxy_bypass("127.0.0.1")
    assert get_environ_proxies("http://example.com/")


@pytest.mark.parametrize("home", ["/proc/nohome", ""])
def test_tools_write_to_the_checkout_where_home_cannot_be_written(home: str, tmp_path: Path) -> None:
    variables = {"JSII_RUNTIME_PACKAGE_CACHE_ROOT", "CDK_HOME"}
    kept = {key: value for key, value in os.environ.items() if key not in variables}
    with mock.patch.dict(os.environ, kept | {"HOME": home or str(tmp_path)}, clear=True):
        assert main(["names", "local"]) == 0
        assert variables & set(cdk.environment_for({})) == (variables if home else set())


def test_the_users_own_settings_of_jsii_and_the_cdk_reach_them() -> None:
    given = {"JSII_RUNTIME_PACKAGE_CACHE": "disabled", "JSII_RUNTIME_PACKAGE_CACHE_ROOT": "/mine", "CDK_HOME": "/mine"}
    with mock.patch.dict(os.environ, given | {"HOME": "/proc/nohome"}):
        assert main(["names", "local"]) == 0
        assert given.items() <= cdk.environment_for({}).items()


def test_seeds_hold_the_reservations_that_the_file_names(tmp_path: Path) -> None:
    opened = session.Session.open("jakarta-80xp5e", tmp_path)
    assert opened.seeds()["capacity_reservations"] == [
        {
            "id": opened.environment.cluster.queues[0].capacity.reservation,
            "instance_type": "p5e.48xlarge",
            "zone_id": "apse3-az1",
            "count": 80,
            "type": "on-demand",
        }
    ]


@pytest.fixture
def a_cdk_that_never_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_command(tmp_path / "node_modules" / ".bin" / "cdk", "exec sleep 600")
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "GUARD_INTERVAL_S", 0.1)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of an emulator, which the test can end."""
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        yield sleeping
        sleeping.kill()


def emulator_of(process: subprocess.Popen[bytes], folder: Path, monkeypatch: pytest.MonkeyPatch) -> launch.Emulator:
    monkeypatch.setattr(processes, "of", lambda _: [process.pid] if process.poll() is None else [])
    return launch.Emulator(folder, "111122223333", "us-east-1", 1, 2, (process.pid,))


@pytest.mark.usefixtures("a_cdk_that_never_ends")
def test_the_cdk_is_stopped_when_it_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    monkeypatch.setattr(cdk, "TIME_LIMIT_S", 0.2)
    with pytest.raises(Problem, match="took more than"):
        cdk.run(emulator_of(process, tmp_path, monkeypatch), "deploy", log=tmp_path / "cdk.log")


@pytest.mark.usefixtures("a_cdk_that_never_ends")
def test_the_cdk_is_stopped_when_the_emulator_exits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    emulator = emulator_of(process, tmp_path, monkeypatch)
    process.kill()
    process.wait()
    with pytest.raises(Problem, match="the emulated AWS exited in the middle"):
        cdk.run(emulator, "deploy", log=tmp_path / "cdk.log")


def test_an_unanswered_request_to_an_emulator_that_exited_is_explained(tmp_path: Path) -> None:
    state = {"account": "111122223333", "region": "us-east-1", "port": 1, "api_port": 2, "pids": [2**22 + 1]}
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.raises(Problem, match="trainyard up"), session.explain_exit(tmp_path):
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")


def test_without_an_emulator_the_error_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(EndpointConnectionError), session.explain_exit(tmp_path):
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")


def test_progress_shows_failed_resources_when_a_stack_begins_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    status = "CREATE_IN_PROGRESS"
    account = boto3.Session("key", "secret", region_name="us-east-1")
    monkeypatch.setattr(progress, "stacks_of", lambda *_: [{"StackName": "local-images", "StackStatus": status}])
    monkeypatch.setattr(progress, "operations", lambda *_: {})
    monkeypatch.setattr(progress, "failure_reasons", lambda *_: ["local-images: Repository: [no]"])
    cluster = Stubber(account.client("cloudformation"))
    for _ in range(2):
        cluster.add_client_error("describe_stacks", "ValidationError", "Stack with id local does not exist")
    monkeypatch.setattr(account, "client", lambda _: cluster.client)
    output = io.StringIO()
    with cluster, progress.Progress(Console(file=output), account, load(environment_file("local"))):
        status = "ROLLBACK_IN_PROGRESS"
    assert "local-images: ROLLBACK_IN_PROGRESS\n" in output.getvalue()
    assert output.getvalue().endswith("local-images: Repository: [no]\n")
