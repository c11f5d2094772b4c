"""Monitoring of a laboratory: the product's exporters, rules and configuration, with Debian's programs.

The bootstrap installs node_exporter and dcgm-exporter from the assets bucket, as in a network without internet access.
Prometheus and Alertmanager run on the node `aws`.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import select
import shutil
import socket
import socketserver
import tarfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from local.slurm import base
from local.slurm.laboratory import Laboratory
from ops.problem import Problem
from trainyard import cluster_bundle, monitoring_config

FOLDER = "/etc/prometheus"
DCGM_EXPORTER = Path(__file__).parent / "figures" / "dcgm-exporter"
_CLONE_NEWNET = 0x40000000


def assets(laboratory: Laboratory) -> Path:
    """A copy of cluster_assets/ whose programs.json pins the laboratory's exporters, which are put into the bucket."""
    target, plan = laboratory.state / "assets", laboratory.plan
    shutil.copytree(cluster_bundle.ASSETS, target, dirs_exist_ok=True)
    pinned = json.loads((target / "monitoring/programs.json").read_text())
    bucket = laboratory.path(f"/run/lab/s3/{plan.buckets['assets']}/{cluster_bundle.PREFIX}/programs")
    bucket.mkdir(parents=True, exist_ok=True)
    programs = {
        "node_exporter": ("node_exporter", base.folder(plan.base) / "usr/bin/prometheus-node-exporter"),
        "dcgm-exporter": ("usr/bin/dcgm-exporter", DCGM_EXPORTER),
    }
    for name, (path, program) in programs.items():
        archive = bucket / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            tar.add(program, f"{name}/{path}")
        one = {"url": f"https://invalid/{archive.name}", "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}
        pinned[name]["files"] = {os.uname().machine: one}
    (target / "monitoring/programs.json").write_text(json.dumps(pinned))
    return target


def start(laboratory: Laboratory) -> None:
    """Write the configuration and start Prometheus and Alertmanager, which sends its alerts nowhere."""
    configure(laboratory, monitoring_config.rules(), {})
    laboratory.run(["systemctl", "start", "node-exporter", "prometheus", "alertmanager"], node="aws", user="root")


def configure(laboratory: Laboratory, rules: Mapping[str, str], receiver: monitoring_config.Receiver) -> None:
    """Write the configuration of both; memory file systems in place of Lustre and OpenZFS get these types."""
    plan = laboratory.plan
    text = monitoring_config.prometheus(plan.environment.name, plan.head.address, interval_s=plan.metrics_s)
    prometheus = yaml.safe_load(text)
    for one in plan.shared:
        if kind := {"lustre": "lustre", "openzfs": "nfs4"}.get(one.name.partition("-")[0]):
            found = {"source_labels": ["__name__", "mountpoint"], "regex": f"node_filesystem_.+;{one.mount}"}
            relabel = {**found, "target_label": "fstype", "replacement": kind}
            prometheus["scrape_configs"][0]["metric_relabel_configs"].append(relabel)
    files = {f"rules/{name}": text for name, text in rules.items()}
    files["prometheus.yml"] = yaml.safe_dump(prometheus)
    files["alertmanager.yml"] = monitoring_config.alertmanager(receiver)
    files["message.tmpl"] = monitoring_config.message(plan.environment.observability.runbooks)
    for name, text in files.items():
        laboratory.write(f"{FOLDER}/{name}", text, node="aws", user="root")


@contextlib.contextmanager
def tunnel(laboratory: Laboratory) -> Iterator[str]:
    """While entered, the address on this host's loopback of Prometheus' port of the node `aws`."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            # What fails here closes the connection: the client reports that there is no answer.
            with contextlib.suppress(OSError, Problem):
                # Of this thread only. A socket belongs to the network of the thread that creates it.
                with Path(f"/proc/{laboratory.pid('aws')}/ns/net").open() as network:
                    if ctypes.CDLL(None).setns(network.fileno(), _CLONE_NEWNET):
                        return
                with socket.create_connection(("127.0.0.1", 9090), timeout=60) as upstream:
                    ends = {self.request: upstream, upstream: self.request}
                    while True:
                        for end in select.select(list(ends), [], [])[0]:
                            if not (data := end.recv(65536)):
                                return
                            ends[end].sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
