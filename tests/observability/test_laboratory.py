"""A monitored laboratory of 13 nodes: real Slurm, exporters, Prometheus and Alertmanager under the product's
configuration. Panels have data, a healthy cluster raises nothing, and planted faults raise exactly their alerts.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local.slurm import Laboratory, Timeouts, bootstrap, make, monitoring
from settings import load
from tests.slurm.conftest import lab_machine, running
from trainyard import dashboards, monitoring_config
from trainyard.dashboards.model import Metric, with_values

__all__ = ["lab_machine"]
pytestmark = pytest.mark.lab

ROOT = Path(__file__).resolve().parents[2]
NODES, LIMIT_S = 13, 600
SINKS = "/run/lab/sinks.jsonl"
HEALTH = "/opt/trainyard/current/scans/node-health.sh"
OTHER_ROOT, COUNTERS = "/var/lib/interfaces", "sys/class/infiniband/rdmap0s6/ports/1/hw_counters"
OF_THE_HOST = {"HeadLoad", "HeadMemory"}
"""Nodes of the laboratory show the load and the memory of the machine that runs the tests."""
SHORTER = {
    "for: 25m": "for: 15s",
    "time() - slurm_job_start_time_seconds > 600": "time() - slurm_job_start_time_seconds > 20",
}
WITHOUT_DATA: dict[str, str] = {}
"""Queries that the laboratory cannot answer, by dashboard and panel, and why. Those of CloudWatch are not asked."""
TRAINER = """#!/bin/bash
file="/shared/monitoring/jobs/${SLURM_JOB_ID}.lab.json"
for ((step = 1; ; step++)); do
  at="$(date +%s)"
  [[ ! -e "/fsx/hang" || "${SLURM_JOB_NAME}" != hangs ]] || at=$((at - 900))
  cat >"${file}.new" <<END
{"step": ${step}, "steps_per_second": 0.2, "tokens_per_second": 4096, "mfu": 0.41, "loss": 2.5,
 "last_step_time": ${at}, "ranks": {"0": [${step}, "${SLURMD_NODENAME}"]}}
END
  mv "${file}.new" "${file}"
  sleep 5
done
"""
"""Writes what a job's watchdog writes (cluster_assets/jobs/watchdog/status.py)."""
XID = "3,1204,81234570,-;NVRM: Xid (PCI:0000:53:00): 79, pid=1, name=python3, GPU has fallen off the bus."


@dataclass
class Cluster:
    """The monitored laboratory."""

    lab: Laboratory
    prometheus: str
    jobs: dict[str, str]

    def node(self, number: int) -> str:
        return self.lab.plan.compute[number].name

    def query(self, query: str) -> list[dict[str, Any]]:
        """The result of an instant query."""
        found: list[dict[str, Any]] = self.get("query?" + urllib.parse.urlencode({"query": query}))["result"]
        return found

    def get(self, path: str) -> dict[str, Any]:
        """An answer of Prometheus' API."""
        try:
            with urllib.request.urlopen(f"{self.prometheus}/api/v1/{path}", timeout=120) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)["data"]
                return found
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from error

    def firing(self) -> set[tuple[str, str]]:
        """Firing alerts, also those that others inhibit."""
        found = [alert["labels"] for alert in self.get("alerts")["alerts"] if alert["state"] == "firing"]
        return {key(labels) for labels in found if labels["alertname"] not in OF_THE_HOST}

    def messages(self, how: str) -> list[dict[str, Any]]:
        """What a sink received."""
        lines = self.lab.path(SINKS).read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["how"] == how]

    def submit(self, name: str, *options: str) -> str:
        line = ["sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null", *options, "/fsx/trainer.sh"]
        return self.lab.output(line, user="ada")

    def change_gpus(self, node: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
        """Change the simulated GPUs of a node."""
        text = json.loads(self.lab.path("/etc/lab/gpus.json", node=node).read_text())
        change(text["gpus"])
        self.lab.write("/etc/lab/gpus.json", json.dumps(text), node=node, user="root")

    def root(self, command: str, node: str = "head", *, check: bool = True) -> str:
        return self.lab.run(command, node=node, user="root", check=check).stdout.strip()


def key(labels: dict[str, str]) -> tuple[str, str]:
    """An alert's name, and its job, or else its node or mount."""
    return labels["alertname"], labels.get("job") or labels.get("node") or labels.get("mountpoint", "")


@pytest.fixture(scope="module")
def cluster(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:  # noqa: ARG001 -- a fixture that asks for another
    """13 nodes, two training jobs, one job that waits, and sinks for messages."""
    timeouts, seconds = Timeouts(slurmd_s=30, message_s=20, kill_wait_s=2), monitoring_config.INTERVAL_S
    plan = make(load(ROOT / "environments" / "local.yaml"), nodes=NODES, metrics_s=seconds, timeouts=timeouts)
    with (
        running(tmp_path_factory.mktemp("lab") / "monitored", plan, bootstrap.all_nodes) as lab,
        sinks(lab),
        monitoring.tunnel(lab) as prometheus,
    ):
        found = Cluster(lab, prometheus, {})
        found.root("chmod 1777 /fsx; sacctmgr -i add account research; sacctmgr -i add user ada account=research")
        lab.write("/fsx/trainer.sh", TRAINER, user="ada")
        interfaces(found)
        two = f"--nodelist={found.node(0)},{found.node(1)}"
        found.jobs["trains"] = found.submit("trains", two, "--comment=experiment=seven")
        found.jobs["hangs"] = found.submit("hangs", f"--nodelist={found.node(2)}")
        found.jobs["waits"] = found.submit("waits", f"--nodes={NODES}")
        configure(lab)
        yield found


@contextmanager
def sinks(lab: Laboratory) -> Iterator[None]:
    lab.write("/run/lab/sinks.py", (Path(__file__).parent / "sinks.py").read_text(), node="aws", user="root")
    lab.write(SINKS, "", node="aws", user="root")
    process = subprocess.Popen(lab.line(["python3", "/run/lab/sinks.py", SINKS], node="aws", user="root"), cwd="/")
    try:
        yield
    finally:
        process.kill()
        process.wait()


def configure(lab: Laboratory, *webhooks: str) -> None:
    """The product's rules, with the two longest durations shortened, and receivers on this laboratory's sinks."""
    rules = monitoring_config.rules()
    for old, new in SHORTER.items():
        assert sum(text.count(old) for text in rules.values()) == 1, old
        rules = {name: text.replace(old, new) for name, text in rules.items()}
    mail = {"to": "ops@example.com", "from": "alerts@example.com", "smarthost": "127.0.0.1:2525", "require_tls": False}
    topic = monitoring_config.sns("arn:aws:sns:us-east-1:000000000000:notifications", "us-east-1")["sns_configs"][0]
    keys = {"region": "us-east-1", "access_key": "simulated", "secret_key": "simulated"}
    receiver = {
        "webhook_configs": [{"url": f"http://127.0.0.1:8080/{path}"} for path in ("webhook", *webhooks)],
        "email_configs": [{**mail, "headers": {"Subject": topic["subject"]}, "text": topic["message"], "html": ""}],
        "sns_configs": [{**topic, "api_url": "http://127.0.0.1:8080/sns", "sigv4": keys}],
    }
    monitoring.configure(lab, rules, receiver)
    lab.run(["systemctl", "reload", "prometheus", "alertmanager"], node="aws", user="root")


def interfaces(cluster: Cluster) -> None:
    """Recorded counters of EFA and Lustre for the collector of one node, which reads them below another root."""
    node, unit = cluster.node(0), "trainyard-node-collector.service"
    files = dict.fromkeys(("dev/kmsg", "opt/parallelcluster/.bootstrapped", "drivers/efa/new_id"), "")
    files |= {f"{COUNTERS}/{name}": value for name, value in re.findall(r"(\w+):(\d+)", sample("efa-hw-counters.txt"))}
    files[f"{COUNTERS}/rdma_write_bytes"] = "0"  # of newer interfaces
    files["sys/kernel/debug/lustre/llite/abcdbmv-ffff8800/stats"] = sample("llite-2.16.txt")
    files["proc/mounts"] = "10.0.0.9@tcp:/abcdbmv /fsx lustre rw 0 0\n"
    for name, text in files.items():
        file = cluster.lab.path(f"{OTHER_ROOT}/{name}", node=node)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    cluster.root(
        f"cd {OTHER_ROOT}/{COUNTERS}/../../.. && mkdir device && ln -s {OTHER_ROOT}/drivers/efa device/driver && "
        f"sed -i 's#--folder#--root {OTHER_ROOT} --folder#' /etc/systemd/system/{unit} && systemctl restart {unit}",
        node,
    )


def sample(name: str) -> str:
    return (Path(__file__).parent / "samples" / name).read_text()


def until(cluster: Cluster, condition: Callable[[], bool], what: Callable[[], object]) -> float:
    """Wait until a condition holds; returns the seconds."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < LIMIT_S, (
            f"not after {LIMIT_S} s: {what()}\n{cluster.root('sinfo -N; squeue')}"
        )
        time.sleep(1)
    return time.monotonic() - begun


def empty(cluster: Cluster) -> set[str]:
    """Queries of panels that have no data now: dashboard, panel and series."""
    found = set()
    for one in dashboards.dashboards(cluster.lab.plan.environment):
        values = {variable.name: variable.query for variable in one.variables if variable.kind == "text"}
        values["job"] = cluster.jobs["trains"]
        for panel in one.panels:
            for name, query in panel.queries.items():
                asked = "" if isinstance(query, Metric) else with_values(query, "5m", "5m", values)
                if asked and not cluster.query(asked):
                    found.add(f"{one.name}: {panel.title}: {name}")
    return found


def test_targets_are_found_and_up(cluster: Cluster) -> None:
    """Prometheus finds node_exporter and dcgm-exporter of every node, and the head node's exporters."""
    wanted = {(node.name, job) for node in cluster.lab.plan.compute for job in ("node", "dcgm")}
    wanted |= {("head", "node"), ("head", "slurm")}
    wanted |= {("monitoring", job) for job in ("node", "prometheus", "alertmanager")}

    def up() -> set[tuple[str, str]]:
        return {(one["metric"]["node"], one["metric"]["job"]) for one in cluster.query("up == 1")}

    seconds = until(cluster, lambda: up() == wanted, lambda: up() ^ wanted)
    sys.stdout.write(f"\n{len(wanted)} targets up after {seconds:.0f} s\n")


@pytest.fixture(scope="module")
def without_data(cluster: Cluster) -> set[str]:
    """Queries that have no data while the cluster is healthy: those that show only faults."""
    enough = "count_over_time(up{job='dcgm'}[10m]) >= 3"
    until(cluster, lambda: len(cluster.query(enough)) == NODES, lambda: cluster.query("count_over_time(up[10m])"))
    return empty(cluster)


def test_a_healthy_cluster_raises_nothing(cluster: Cluster, without_data: set[str]) -> None:  # noqa: ARG001 -- waits
    """No alert fires in the first minute, and no message is sent, while nodes start, wait and train."""
    assert cluster.firing() == set()
    assert arrived(cluster) == set()


def test_faults_raise_exactly_their_alerts(cluster: Cluster, without_data: set[str]) -> None:
    """Each planted fault arrives by webhook, mail and SNS; nothing else does; jobs run where exporters do not."""
    lab, node = cluster.lab, cluster.node
    drain = f"scontrol update node={node(4)} state=drain reason='Fan broken'"
    full = "mount -o remount,size=32m /fsx; fallocate -l 28M /fsx/big"
    planted: dict[tuple[str, str], Callable[[], object]] = {
        ("NodeDown", node(3)): lambda: cluster.root("pkill -KILL slurmd", node(3), check=False),
        ("NodeDrained", node(4)): lambda: cluster.root(drain),
        ("XidError", node(5)): lambda: cluster.root(f"echo '{XID}' >>/dev/kmsg", node(5)),
        ("ExporterDown", node(6)): lambda: cluster.root("systemctl stop trainyard-dcgm-exporter", node(6)),
        ("ExporterDown", node(7)): lambda: without_dcgm(lab, node(7)),
        ("GpuThrottled", node(8)): lambda: gpu(cluster, node(8), "clocks_throttle_reasons.active", "0x40"),
        ("EccDoubleBit", node(9)): lambda: gpu(cluster, node(9), "ecc.errors.uncorrected.volatile.total", 2),
        ("RowRemapFailure", node(9)): lambda: gpu(cluster, node(9), "remapped_rows.failure", "Yes"),
        ("GpuMissing", node(10)): lambda: cluster.change_gpus(node(10), lambda gpus: gpus.pop()),
        # The check that Slurm runs every five minutes.
        ("NodeCheckFailed", node(10)): lambda: cluster.root(f"bash {HEALTH}", node(10)),
        ("NodeDrained", node(10)): lambda: None,
        ("EfaErrors", node(0)): lambda: efa_errors(cluster),
        ("FileSystemFull", "/fsx"): lambda: cluster.root(full),
        ("JobWithoutProgress", cluster.jobs["hangs"]): lambda: lab.write("/fsx/hang", "", user="root"),
        ("GpusIdleInJob", idle_job(cluster, node(11))): lambda: None,
        ("MonitoringFails", "monitoring"): lambda: configure(lab, "a-wrong-address"),
    }
    wanted, begun = set(planted), time.time()
    try:
        for name in ("ecc.errors.corrected.volatile.total", "nvlink.crc"):  # shown, and too few for an alert
            gpu(cluster, node(8), name, 3)
        for plant in planted.values():
            plant()
        until(cluster, lambda: arrived(cluster) >= wanted, lambda: wanted - arrived(cluster))
        assert arrived(cluster) == cluster.firing() | wanted == wanted
        for how in ("mail", "sns"):
            for one in wanted:
                until(cluster, lambda: all(word in texts(cluster, how) for word in one), lambda: (how, one))  # noqa: B023
        assert all("Run: " in one["text"]["Message"] for one in cluster.messages("sns"))
        # Exporters that do not answer stop no job.
        for name in (node(6), node(7)):
            assert lab.output(["srun", f"--nodelist={name}", "hostname"], user="ada") == name
        # Rates end five minutes after the errors, which a slow machine may exceed.
        efa_errors(cluster)
        gpu(cluster, node(8), "nvlink.crc", 6)
        until(
            cluster, lambda: without_data & empty(cluster) == set(WITHOUT_DATA), lambda: without_data & empty(cluster)
        )
        for message in cluster.messages("webhook"):
            for alert in message["text"]["alerts"]:
                summary = alert["annotations"]["summary"]
                sys.stdout.write(f"{message['at'] - begun:6.1f} s  {alert['labels']['alertname']}: {summary}\n")
    finally:
        repair(cluster)


def arrived(cluster: Cluster) -> set[tuple[str, str]]:
    """The alerts that the webhook received, without resolved ones."""
    alerts = (alert for message in cluster.messages("webhook") for alert in message["text"]["alerts"])
    found = [one["labels"] for one in alerts if one["status"] == "firing"]
    return {key(labels) for labels in found if labels["alertname"] not in OF_THE_HOST}


def texts(cluster: Cluster, how: str) -> str:
    """All that a sink received."""
    return "\n".join(str(message["text"]) for message in cluster.messages(how))


def gpu(cluster: Cluster, node: str, name: str, value: object, number: int = 0) -> None:
    """Change a value of one simulated GPU."""
    cluster.change_gpus(node, lambda gpus: gpus[number].update({name: value}))


def idle_job(cluster: Cluster, node: str) -> str:
    """A job whose GPUs compute nothing."""
    cluster.change_gpus(node, lambda gpus: [one.update({"utilization.job": 0}) for one in gpus])
    return cluster.submit("idles", "--nodes=1", f"--nodelist={node}")


def efa_errors(cluster: Cluster) -> None:
    """100 of each error more, as the interface would count them."""
    folder = cluster.lab.path(f"{OTHER_ROOT}/{COUNTERS}", node=cluster.node(0))
    for name in (
        "rx_drops",
        "retrans_bytes",
        "retrans_timeout_events",
        "unresponsive_remote_events",
        "impaired_remote_conn_events",
    ):
        (folder / name).write_text(str(int((folder / name).read_text()) + 100))


def without_dcgm(lab: Laboratory, node: str) -> None:
    """A node whose image has no DCGM: its bootstrap succeeds and says so."""
    unit = "trainyard-dcgm-exporter"
    files = f"/etc/systemd/system/{unit}.service /usr/local/bin/nv-hostengine"
    lab.run(f"systemctl stop {unit}; rm -f {files}", node=node, user="root")
    assert "DCGM" in bootstrap.run(lab, node, "compute-configured").stdout


def repair(cluster: Cluster) -> None:
    """Undo most faults; /fsx stays small, and node 7 without dcgm-exporter."""
    node = cluster.node
    cluster.root("rm -f /fsx/hang /fsx/big; scancel --name=idles", check=False)
    cluster.root("systemctl start slurmd", node(3), check=False)
    for name in (node(3), node(4), node(10)):
        cluster.root(f"scontrol update node={name} state=resume", check=False)
    configure(cluster.lab)
