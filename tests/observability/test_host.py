"""The monitoring host's scripts, with stand-ins of the commands that change a machine."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from settings.loader import load
from tests.stubs import fake_command
from trainyard import monitoring_bundle

HOST = monitoring_bundle.MONITORING / "host"
SELF_HOSTED = ("node_exporter", "prometheus", "alertmanager", "grafana")
COMMANDS = {
    # The volume is busy once, as it is while the instance before is going away.
    "aws": """
        case "$*" in
          *attach-volume*) [[ -e "${FAKE}/free" ]] || { touch "${FAKE}/free"; exit 254; }; touch "${FAKE}/device";
            mkdir -p "${ROOT}/dev/disk/by-id"
            touch "${ROOT}/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123" ;;
          *"s3 cp"*) cp "${FAKE}/s3/$(basename "${@: -2:1}")" "${@: -1}" ;;
          *get-parameter*) cat "${FAKE}/address" ;;
        esac""",
    "curl": """
        case "$*" in
          *api/token*) echo token ;;
          *instance-id*) echo i-0123 ;;
          *ready* | *health*) [[ ! -e "${FAKE}/down" || "$*" != *"$(<"${FAKE}/down")"* ]] ;;
          *) cp "${FAKE}/web/$(basename "${@: -1}")" "$(grep -oP '(?<=-o )\\S+' <<<"$*")" ;;
        esac""",
    "mountpoint": '[[ -e "${FAKE}/mounted" ]]',
    "mount": 'touch "${FAKE}/mounted"',
    "lsblk": '[[ ! -e "${FAKE}/filesystem" ]] || echo xfs',
    "mkfs.xfs": 'touch "${FAKE}/filesystem"',
    "xfs_growfs": "true",
    "useradd": "true",
    "chown": "true",
    "systemctl": "true",
    # Not the shim of a version manager, which would put other programs before these.
    "python3": f'exec {sys.executable} "$@"',
}


class Machine:
    """A folder as the root of a host, and a record of its commands."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.root, self.fake, self.bundle = folder / "root", folder / "fake", folder / "bundle"
        tools = folder / "bin"
        for path in (
            self.fake / "s3",
            self.fake / "web",
            self.root / "etc/systemd/system",
            self.root / "etc/trainyard",
        ):
            path.mkdir(parents=True)
        for name, text in COMMANDS.items():
            fake_command(tools / name, f'echo "{name} $*" >>"${{FAKE}}/calls"\n{text}')
        made = load(Path("environments") / ("local.yaml" if mode == "self-hosted" else "megatron-2xp5.yaml"))
        content = monitoring_bundle.build(made, "arn:aws:sns:us-east-1:000000000000:topic").content
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(self.bundle, filter="data")
        self._programs()
        values = {"MODE": mode, "REGION": "us-east-1", "ENVIRONMENT": "local", "HEAD": "head.trainyard"}
        values |= {"VOLUME_ID": "vol-0123", "VOLUME_GIB": "50", "RETENTION_DAYS": "15", "ASSETS_BUCKET": "assets"}
        values |= {"WORKSPACE_URL": "https://aps/workspaces/ws-1/", "GRAFANA_ID": "g-1", "GRAFANA_ENDPOINT": "grafana"}
        self.settings = self.root / "etc/trainyard/monitoring.env"
        self.settings.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        self.environment = {**os.environ, **values, "PATH": f"{tools}:{os.environ['PATH']}", "WAIT_S": "0"}
        self.environment |= {"ROOT": str(self.root), "FAKE": str(self.fake), "SETTINGS": str(self.settings)}

    def _programs(self) -> None:
        """Small archives in place of the releases, with their checksums."""
        programs = json.loads((self.bundle / "programs.json").read_text())
        for name in SELF_HOSTED:
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
                member = tarfile.TarInfo(f"{name}-1.0/{name}")
                member.size = len(name)
                archive.addfile(member, io.BytesIO(name.encode()))
            file = programs[name]["files"]["x86_64"]
            file["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()
            (self.fake / "web" / Path(file["url"]).name).write_bytes(buffer.getvalue())
        (self.bundle / "programs.json").write_text(json.dumps(programs))

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(self.bundle / "host" / script)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)

    @property
    def calls(self) -> list[str]:
        return (self.fake / "calls").read_text().splitlines()


@pytest.fixture
def host(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "self-hosted")


def test_everything_is_installed_verified_and_started(host: Machine) -> None:
    done = host.run("install.sh")
    assert done.returncode == 0, done.stderr
    for name in SELF_HOSTED:
        assert (host.root / "opt/monitoring" / name / name).read_text() == name
        assert f"systemctl start {name}" in host.calls
        assert (host.root / f"etc/systemd/system/{name}.service").is_file()
    arguments = (host.root / "etc/trainyard/prometheus.env").read_text()
    # 70 % of the volume, so that Prometheus cannot fill it.
    assert "--storage.tsdb.retention.time=15d" in arguments
    assert "--storage.tsdb.retention.size=35840MB" in arguments
    attached = [call for call in host.calls if "attach-volume" in call]
    assert len(attached) == 2  # busy at first
    assert "--volume-id vol-0123 --instance-id i-0123" in attached[0]


def test_a_second_run_and_a_new_instance_keep_the_data(host: Machine) -> None:
    assert host.run("install.sh").returncode == 0
    made = [call for call in host.calls if call.startswith("mkfs")]
    assert len(made) == 1
    (host.fake / "calls").unlink()
    assert host.run("install.sh").returncode == 0
    assert not [call for call in host.calls if call.startswith(("mkfs", "mount ", "curl"))]
    # Another instance: not mounted, but with the file system of the first.
    (host.fake / "calls").unlink()
    (host.fake / "mounted").unlink()
    assert host.run("install.sh").returncode == 0
    assert [call.split()[0] for call in host.calls if call.startswith(("mkfs", "mount "))] == ["mount"]


def test_a_program_with_another_checksum_is_not_installed(host: Machine) -> None:
    [release] = (host.fake / "web").glob("prometheus-*")
    release.write_bytes(b"something else")
    done = host.run("install.sh")
    assert done.returncode == 1
    assert "does not have the SHA-256" in done.stderr
    assert not (host.root / "opt/monitoring/prometheus").exists()
    assert not [call for call in host.calls if call.startswith("systemctl") and call.endswith(" prometheus")]
    # The others run, and a later run restarts none of them.
    assert "systemctl start alertmanager" in host.calls and "systemctl start grafana" in host.calls
    assert host.run("install.sh").returncode == 1
    assert not [call for call in host.calls if "restart" in call]


def test_without_internet_programs_come_from_the_assets_bucket(host: Machine) -> None:
    shutil.rmtree(host.fake / "s3")
    (host.fake / "web").rename(host.fake / "s3")
    done = host.run("install.sh")
    assert done.returncode == 0, done.stderr
    assert not [call for call in host.calls if call.startswith("curl") and "https://" in call]


def test_units_listen_on_loopback_without_root_and_are_valid() -> None:
    for name, port in {"prometheus": 9090, "alertmanager": 9093, "node_exporter": 9100}.items():
        text = (HOST / "units" / f"{name}.service").read_text()
        assert f"--web.listen-address=127.0.0.1:{port}" in text
    for unit in (HOST / "units").glob("*.service"):
        if unit.stem != "refresh":
            assert f"User={unit.stem}\n" in unit.read_text()
            assert "NoNewPrivileges=yes\nProtectSystem=strict\n" in unit.read_text()
    grafana = (HOST / "grafana" / "grafana.ini").read_text()
    assert "http_addr = 127.0.0.1\n" in grafana and "org_role = Viewer\n" in grafana


def test_the_head_nodes_address_follows_it_and_a_dead_prometheus_gives_no_sign_of_life(host: Machine) -> None:
    hosts = host.root / "etc/hosts"
    hosts.write_text("127.0.0.1 localhost\n10.0.0.1 head.trainyard\n")
    host.environment |= {"HOSTS": str(hosts)}
    (host.fake / "address").write_text("10.0.0.2\n")
    assert host.run("refresh.sh").returncode == 0
    assert hosts.read_text() == "127.0.0.1 localhost\n10.0.0.2 head.trainyard\n"
    assert any("put-metric-data" in call and "MonitoringHostReady" in call for call in host.calls)
    (host.fake / "calls").unlink()
    (host.fake / "down").write_text("3000/api/health")  # Grafana alone
    assert host.run("refresh.sh").returncode != 0
    (host.fake / "down").write_text("")
    (host.fake / "address").write_text("NONE\n")  # a cluster that does not run
    assert host.run("refresh.sh").returncode != 0
    assert not any("put-metric-data" in call for call in host.calls)
    assert "10.0.0.2 head.trainyard\n" in hosts.read_text()


class Grafana(BaseHTTPRequestHandler):
    """Records what is written; knows no data source at first."""

    written: ClassVar[list[tuple[str, str, dict[str, Any]]]] = []

    def _answer(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Authorization"] == "Bearer secret"
        self.written.append((self.command, self.path, content))
        self.send_response(404 if self.command == "PUT" else 200)
        self.end_headers()

    do_PUT = do_POST = _answer  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        pass


def test_managed_sends_to_the_workspace_and_writes_dashboards(tmp_path: Path) -> None:
    host = Machine(tmp_path, "managed")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Grafana)
    Thread(target=server.serve_forever, daemon=True).start()
    aws = tmp_path / "bin" / "aws"
    answers = {
        "list-workspace-service-accounts": {"serviceAccounts": []},
        "create-workspace-service-account-token": {"serviceAccountToken": {"id": "7", "key": "secret"}},
        "create-workspace-service-account ": {"id": "3"},
    }
    cases = "\n".join(f"  *'{words}'*) echo '{json.dumps(answer)}' ;;" for words, answer in answers.items())
    aws.write_text(
        f'#!/bin/bash\necho "aws $*" >>"${{FAKE}}/calls"\ncase "$* " in\n{cases}\n*"s3 cp"*) exit 1 ;;\nesac\n'
    )
    script = host.bundle / "host" / "publish_dashboards.py"
    # The real script speaks https; the stand-in of Grafana has no certificate.
    script.write_text(script.read_text().replace("https://", "http://"))
    host.environment["GRAFANA_ENDPOINT"] = f"127.0.0.1:{server.server_port}"
    host.settings.write_text(host.settings.read_text().replace("=grafana\n", f"=127.0.0.1:{server.server_port}\n"))
    try:
        done = host.run("install.sh")
        assert done.returncode == 0, done.stderr
    finally:
        server.shutdown()
    config = (host.bundle / "config/prometheus.yml").read_text()
    assert "url: https://aps/workspaces/ws-1/api/v1/remote_write" in config
    assert "--agent" in (host.root / "etc/trainyard/prometheus.env").read_text()
    assert not [call for call in host.calls if "alertmanager" in call or "attach-volume" in call]
    written = {path for method, path, _ in Grafana.written if method == "POST"}
    assert written == {"/api/datasources", "/api/dashboards/db"}
    sources = [content["jsonData"] for _, path, content in Grafana.written if path == "/api/datasources"]
    assert [source.get("sigV4AuthType", source.get("authType")) for source in sources] == ["ec2_iam_role"] * 2
    boards = [content["dashboard"]["uid"] for _, path, content in Grafana.written if path == "/api/dashboards/db"]
    assert len(set(boards)) == len(list((host.bundle / "dashboards").glob("*.json")))
    assert any("delete-workspace-service-account-token" in call and "--token-id 7" in call for call in host.calls)


def test_a_workspace_that_is_not_ready_is_an_error_of_one_line(tmp_path: Path) -> None:
    fake_command(tmp_path / "aws", "echo 'ResourceNotFoundException' >&2\nexit 254")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "GRAFANA_ID": "g-1", "REGION": "us-east-1"}
    done = subprocess.run(
        [sys.executable, str(HOST / "publish_dashboards.py"), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines() == [
        "monitoring: dashboards not published: aws grafana list-workspace-service-accounts: ResourceNotFoundException"
    ]
