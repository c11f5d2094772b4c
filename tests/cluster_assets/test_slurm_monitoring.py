"""The step that monitors Slurm, and Slurm's mails on their way to the topic."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore.session
import pytest
from botocore.validate import validate_parameters

from tests.cluster_assets.conftest import ASSETS

if TYPE_CHECKING:
    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]
TOPIC = "arn:aws:sns:us-east-1:111122223333:trainyard-local-jobs"
UNITS = "/etc/systemd/system"
MAIL = ASSETS / "monitoring" / "slurm-mail.sh"


@pytest.fixture
def head(node: Node) -> Node:
    """A head node with the lines of slurm.conf that ParallelCluster writes; the user slurm need not exist here."""
    conf = node.path("/opt/slurm/etc/slurm_parallelcluster.conf")
    conf.write_text("SlurmctldHost=ip-10-0-16-10(10.0.16.10)\nSuspendTime=600\n")
    node.command("chown", 'echo "$*" >>"${FAKE}/chown-calls"')
    return node


def monitored(settings: Settings, mode: str) -> Settings:
    return settings | {"monitoring": {"mode": mode, "topic_arn": TOPIC}}


def test_exporter_and_mails_of_a_self_hosted_environment(head: Node, settings: Settings) -> None:
    """Written once; the service restarts with a new bundle only."""
    head.bootstrap(monitored(settings, "self-hosted"), role="head-configured")
    unit = head.path(f"{UNITS}/trainyard-slurm-exporter.service").read_text()
    sha256 = head.path("/opt/trainyard/current").resolve().name
    program = f"/opt/trainyard/{sha256}/monitoring/slurm-exporter.py"
    assert f"{program} --listen 10.0.16.10:9101 --jobs /shared/monitoring/jobs\n" in unit and "DynamicUser=yes" in unit
    assert head.path("/shared/monitoring/jobs").stat().st_mode & 0o7777 == 0o1777
    assert head.path("/shared/monitoring").stat().st_mode & 0o7777 == 0o755
    spool = head.path("/var/spool/trainyard/mail")
    assert spool.stat().st_mode & 0o7777 == 0o700 and f"slurm: {spool}" in head.calls("chown")
    names = ("trainyard-slurm-exporter.service", "trainyard-mail.path")

    def started() -> list[str]:
        return [call for call in head.calls("systemctl") if call.endswith(names) and not call.startswith("is-")]

    assert started() == [f"{verb} {name}" for name in names for verb in ("enable", "restart")]
    before = head.snapshot()
    assert head.run("updated").returncode == 0
    assert head.snapshot() == before
    assert len(started()) == 4


def step(node: Node, settings: Settings) -> str:
    """Run the step alone, which must succeed; returns its log."""
    (node.fake / "settings.json").write_text(json.dumps(settings))
    words = ["bash", str(ASSETS / "steps" / "slurm-exporter.sh")]
    variables = os.environ | node.environment | {"TRAINYARD_SETTINGS": str(node.fake / "settings.json")}
    return subprocess.run(words, env=variables, capture_output=True, text=True, timeout=60, check=True).stderr


def test_modes(head: Node, settings: Settings) -> None:
    """In mode cloudwatch there is no Prometheus; in mode off nothing is left."""
    exporter = head.path(f"{UNITS}/trainyard-slurm-exporter.service")
    mail = head.path(f"{UNITS}/trainyard-mail.path")
    for mode, expected in (("", (False, False)), ("managed", (True, True)), ("cloudwatch", (False, True))):
        step(head, monitored(settings, mode) if mode else settings)
        assert (exporter.exists(), mail.exists()) == expected, mode
    assert "disable --now trainyard-slurm-exporter.service" in head.calls("systemctl")
    step(head, settings)
    assert not [path for path in mail.parent.iterdir() if "mail" in path.name]
    assert not head.path("/var/spool/trainyard/mail").exists()


@pytest.mark.parametrize(
    ("command", "part", "said"),
    [
        ("systemctl", "exporter", "systemctl is broken"),
        ("systemctl", "mail", "systemctl is broken"),
        ("chown", "mail", "chown is broken"),
        ("", "exporter", "no SlurmctldHost with an address in /opt/slurm/etc"),
    ],
)
def test_a_failure_is_a_warning(head: Node, settings: Settings, command: str, part: str, said: str) -> None:
    if command:
        head.command(command, f"[[ $* != *trainyard* ]] || {{ echo '{command} is broken' >&2; exit 1; }}")
    else:
        head.path("/opt/slurm/etc/slurm_parallelcluster.conf").unlink()
    log = step(head, monitored(settings, "self-hosted"))
    assert said in log and f"WARNING: Slurm's {part} is not set up" in log


def test_a_run_after_a_hang_repairs(head: Node, settings: Settings) -> None:
    systemctl = (head.fake / "bin/systemctl").read_text()
    head.command("systemctl", "exec sleep 3600")
    head.environment["TRAINYARD_MONITORING_SECONDS"] = "1"
    assert "Slurm's mail is not set up" in step(head, monitored(settings, "self-hosted"))
    del head.environment["TRAINYARD_MONITORING_SECONDS"]
    (head.fake / "bin/systemctl").write_text(systemctl.replace("echo", '[[ "$1" != is-enabled ]] || exit 1\necho'))
    assert "WARNING" not in step(head, monitored(settings, "self-hosted"))
    assert {"enable trainyard-mail.path", "restart trainyard-slurm-exporter.service"} <= set(head.calls("systemctl"))


# --- mails


def mail(node: Node, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the program as slurmctld or the service does."""
    here = {"TRAINYARD_SETTINGS": str(node.fake / "settings.json"), "TRAINYARD_MAILS": str(node.fake / "spool")}
    return subprocess.run(
        ["bash", str(MAIL), *words],
        env=os.environ | node.environment | here | variables,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def mails(node: Node, settings: Settings) -> Path:
    """The spool of a monitored environment, whose `aws` keeps the requests and fails if there is a file `fails`."""
    (node.fake / "settings.json").write_text(json.dumps(monitored(settings, "cloudwatch")))
    node.command(
        "aws",
        'echo "$*" >>"${FAKE}/aws-calls"\n'
        'for word; do [[ "${word}" != file://* ]] || cat "${word#file://}" >>"${FAKE}/requests"; done\n'
        '[[ ! -e "${FAKE}/fails" ]] || { echo "An error occurred (AuthorizationError)" >&2; exit 254; }',
    )
    (node.fake / "spool").mkdir()
    return node.fake / "spool"


# As Slurm 22.05.8 and 24.11.5 call it in the laboratory.
ENVIRONMENT = {
    "SLURM_CLUSTER_NAME": "local", "SLURM_JOB_ID": "3", "SLURM_JOB_USER": "grace", "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_NODELIST": "gpu-dy-p5-4", "SLURM_JOB_WORK_DIR": "/home/grace", "SLURM_JOB_MAIL_TYPE": "Failed",
}  # fmt: skip
SUBJECT = "Slurm Job_id=3 Name=done Failed, Run time 00:00:00, FAILED, ExitCode 3"


def test_a_mail_becomes_a_message_for_its_user(node: Node, mails: Path) -> None:
    queued = mail(node, "-s", SUBJECT, "someone-else@example.com", **ENVIRONMENT)
    assert (queued.returncode, queued.stdout, queued.stderr) == (0, "", "")
    assert not node.calls("aws")  # slurmctld waits for no network
    [file] = mails.iterdir()
    assert file.suffix == ".json" and file.stat().st_mode & 0o777 == 0o600
    assert mail(node, "send").returncode == 0
    assert not list(mails.iterdir())
    [call] = node.calls("aws")
    assert call.startswith(f"sns publish --region us-east-1 --topic-arn {TOPIC} --cli-input-json file://")
    request = json.loads((node.fake / "requests").read_text())
    assert request["Subject"] == SUBJECT and request["Message"].startswith(
        f"{SUBJECT}\n\nUser: grace\nPartition: gpu\n"
    )
    attributes = {name: one["StringValue"] for name, one in request["MessageAttributes"].items()}
    assert attributes == {"kind": "job", "user": "grace", "job": "3"}
    shape = botocore.session.get_session().get_service_model("sns").operation_model("Publish").input_shape
    assert shape
    validate_parameters({**request, "TopicArn": TOPIC}, shape)


@pytest.mark.parametrize("name", ["evil\nX: y\r\n\x07", "naïve äöü", '"$(touch /tmp/x)`id`\\', "n" * 2000])
def test_a_name_of_a_job_stays_a_name(node: Node, mails: Path, name: str) -> None:
    """SNS takes subjects of less than 100 printable ASCII characters."""
    assert mail(node, "-s", f"Slurm Job_id=3 Name={name} Began", "ada", **ENVIRONMENT).returncode == 0
    [file] = mails.iterdir()
    request = json.loads(file.read_text())
    assert request["Subject"].isascii() and request["Subject"].isprintable() and len(request["Subject"]) < 100
    assert len(request["Message"].splitlines()) == 7


def test_what_cannot_be_published_is_logged_and_dropped(node: Node, mails: Path) -> None:
    (node.fake / "fails").touch()
    for user in ("ada", "grace"):
        mail(node, "-s", SUBJECT, user, **ENVIRONMENT | {"SLURM_JOB_USER": user})
    (mails / "link.json").symlink_to("/etc/passwd")
    sent = mail(node, "send")
    assert sent.returncode == 0 and sent.stderr.count(f"WARNING: not published: {SUBJECT}") == 2
    assert [path.name for path in mails.iterdir()] == ["link.json"] and len(node.calls("aws")) == 2


def test_many_mails_are_one_message_per_user(node: Node, mails: Path) -> None:
    mail(node, "-s", SUBJECT, "grace", **ENVIRONMENT)
    [first] = mails.iterdir()
    for number in range(150):
        (mails / f"job-{number}.json").write_text(first.read_text())
    mail(node, "-s", SUBJECT, "ada", **ENVIRONMENT | {"SLURM_JOB_USER": "ada"})
    assert mail(node, "send").returncode == 0
    assert not list(mails.glob("*.json")) and len(node.calls("aws")) == 2
    decoder, text = json.JSONDecoder(), (node.fake / "requests").read_text()
    single, at = decoder.raw_decode(text)
    many = decoder.raw_decode(text[at:])[0]
    assert single["Subject"] == SUBJECT and single["MessageAttributes"]["user"]["StringValue"] == "ada"
    assert many["Subject"].startswith("151 mails of Slurm, the first: Slurm Job_id=3") and len(many["Subject"]) < 100
    assert many["Message"].splitlines()[-1] == "and 51 more" and len(many["Message"].splitlines()) == 101


def test_without_monitoring_mails_go_nowhere(node: Node, mails: Path) -> None:
    mails.rmdir()
    assert mail(node, "-s", SUBJECT, "grace", **ENVIRONMENT).returncode == 0
    assert not mails.exists() and mail(node, "send").returncode == 0
    assert mail(node, "receive").returncode == 64
