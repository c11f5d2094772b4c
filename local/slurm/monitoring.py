"""Monitoring of a laboratory: the product's exporters, rules and configuration with Debian's programs.

The bootstrap installs node_exporter and dcgm-exporter from the assets bucket, as in a network without internet access.
Prometheus and Alertmanager run on the node `aws`.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import io
import json
import os
import shutil
import socket
import socketserver
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import yaml

from local.slurm import base
from local.slurm.laboratory import Laboratory
from trainyard import cluster_bundle, monitoring_config

PROMETHEUS, ALERTMANAGER = 9090, 9093
FOLDER = "/etc/prometheus"
DCGM_EXPORTER = Path(__file__).parent / "dcgm_exporter.py"
_CLONE_NEWNET = 0x40000000


def assets(laboratory: Laboratory) -> Path:
    """A copy of cluster_assets/ whose programs.json pins the laboratory's exporters, which are put into the bucket."""
    target = laboratory.state / "assets"
    shutil.copytree(cluster_bundle.ASSETS, target, dirs_exist_ok=True)
    file = target / "monitoring" / "programs.json"
    pinned = json.loads(file.read_text())
    node = base.folder(laboratory.plan.base) / "usr/bin/prometheus-node-exporter"
    bucket = laboratory.path(f"/run/lab/s3/{laboratory.plan.buckets['assets']}/{cluster_bundle.PREFIX}/programs")
    bucket.mkdir(parents=True)
    for name, path, program in (
        ("node_exporter", name, node),
        ("dcgm-exporter", "usr/bin/dcgm-exporter", DCGM_EXPORTER),
    ):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
            member = archive.gettarinfo(program, f"{name}/{path}")
            member.mode = 0o755
            with program.open("rb") as content:
                archive.addfile(member, content)
        (bucket / f"{name}.tar.gz").write_bytes(buffer.getvalue())
        one = {
            "url": f"https://laboratory.invalid/{name}.tar.gz",
            "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        }
        pinned[name]["files"] = {os.uname().machine: one}
    file.write_text(json.dumps(pinned))
    return target


def start(laboratory: Laboratory, receiver: monitoring_config.Receiver | None = None) -> None:
    """Write the configuration and start Prometheus and Alertmanager; without a receiver, alerts go to none."""
    plan = laboratory.plan
    files = {f"{FOLDER}/rules/{name}": text for name, text in monitoring_config.rules().items()}
    files[f"{FOLDER}/prometheus.yml"] = configuration(laboratory)
    files[f"{FOLDER}/alertmanager.yml"] = monitoring_config.alertmanager(receiver or {})
    files[f"{FOLDER}/message.tmpl"] = monitoring_config.message(plan.environment.observability.runbooks)
    for path, text in files.items():
        laboratory.write(path, text, node="aws", user="root")
    laboratory.run(["systemctl", "start", "node-exporter", "prometheus", "alertmanager"], node="aws", user="root")


def configuration(laboratory: Laboratory) -> str:
    """The product's prometheus.yml; memory file systems in place of Lustre and OpenZFS get these types."""
    plan = laboratory.plan
    found = yaml.safe_load(monitoring_config.prometheus(plan.environment.name, plan.head.address))
    for one in plan.shared:
        if kind := {"lustre": "lustre", "openzfs": "nfs4"}.get(one.name.partition("-")[0]):
            found["scrape_configs"][0]["metric_relabel_configs"].append(
                {
                    "source_labels": ["__name__", "mountpoint"],
                    "regex": f"node_filesystem_.+;{one.mount}",
                    "target_label": "fstype",
                    "replacement": kind,
                }
            )
    return yaml.safe_dump(found)


@contextlib.contextmanager
def tunnel(laboratory: Laboratory, port: int = PROMETHEUS) -> Iterator[str]:
    """While entered, the address on this host's loopback of a port of the node `aws`, which other hosts do not reach."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            # Of this thread only: sockets belong to the network namespace of the thread that creates them.
            with Path(f"/proc/{laboratory.pid('aws')}/ns/net").open() as network:
                ctypes.CDLL(None).setns(network.fileno(), _CLONE_NEWNET)
            with socket.create_connection(("127.0.0.1", port), timeout=60) as upstream:
                back = threading.Thread(target=_copy, args=(upstream, self.request))
                back.start()
                _copy(self.request, upstream)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
