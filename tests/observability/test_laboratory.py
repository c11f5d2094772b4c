"""A monitored laboratory of 16 nodes: real Slurm, exporters, Prometheus and Alertmanager under the product's
configuration. Panels have data, a healthy cluster raises nothing, and planted faults raise exactly their alerts.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local.slurm import Laboratory, Timeouts, Unavailable, bootstrap, host, make, monitoring
from settings import load
from trainyard import dashboards, monitoring_config
from trainyard.dashboards.model import Metric, with_values

pytestmark = pytest.mark.lab

ROOT = Path(__file__).resolve().parents[2]
NODES, LIMIT_S = 16, 600
SINKS = "/run/lab/sinks.jsonl"
OTHER_ROOT = "/var/lib/interfaces"
OF_THE_HOST = {"HeadLoad", "HeadMemory"}
"""Nodes of the laboratory show the load and the memory of the machine that runs the tests."""
SHORTER = {
    "for: 25m": "for: 15s",
    "time() - slurm_job_start_time_seconds > 600": "time() - slurm_job_start_time_seconds > 20",
}
WITHOUT_DATA: dict[str, str] = {}
"""Queries that the laboratory cannot answer, by dashboard and panel, and why. Those of CloudWatch are not asked."""
TRAINER = """#!/bin/bash
file="/shared/monitoring/jobs/${SLURM_JOB_ID}.json" node="${SLURMD_NODENAME}"
for ((step = 1; ; step++)); do
  at="$(date +%s)"
  [[ ! -e "/fsx/hang" || "${SLURM_JOB_NAME}" != hangs ]] || at=$((at - 900))
  printf '{"step": %d, "steps_per_second": 0.2, "tokens_per_second": 4096, "mfu": 0.41, "loss": %d.5, "last_step_time": %d, "ranks": {"0": [%d, "%s"]}}' \\
    "${step}" "$((9 - step % 9))" "${at}" "${step}" "${node}" >"${file}.new" && mv "${file}.new" "${file}"
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

    def get(self, path: str) -> Any:
        """An answer of Prometheus' API."""
        try:
            with urllib.request.urlopen(f"{self.prometheus}/api/v1/{path}", timeout=120) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from error

    def alerts(self) -> set[tuple[str, str]]:
        """Pending and firing alerts: name, and job or node."""
        found = [alert["labels"] for alert in self.get("alerts")["alerts"]]
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
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """16 nodes, two training jobs, one job that waits, and sinks for messages."""
    lab = Laboratory(tmp_path_factory.mktemp("lab") / "monitored")
    plan = make(
        load(ROOT / "environments" / "local.yaml"),
        nodes=NODES,
        metrics=True,
        timeouts=Timeouts(slurmd_s=15, message_s=15, kill_wait_s=2),
    )
    try:
        host.install()
        lab.up(plan, before_slurmd=lambda: bootstrap.all_nodes(lab))
        with sinks(lab), monitoring.tunnel(lab) as prometheus:
            found = Cluster(lab, prometheus, {})
            found.root("chmod 1777 /fsx; sacctmgr -i add account research; sacctmgr -i add user ada account=research")
            lab.write("/fsx/trainer.sh", TRAINER, user="ada")
            interfaces(found)
            found.jobs["trains"] = found.submit("trains", "--nodes=2", "--comment=experiment=seven")
            found.jobs["hangs"] = found.submit("hangs", "--nodes=1")
            found.jobs["waits"] = found.submit("waits", f"--nodes={NODES}")
            configure(lab)
            yield found
    except Unavailable as reason:
        pytest.fail(f"no laboratory here: {reason}")
    finally:
        lab.down()


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
    port = f"{OTHER_ROOT}/sys/class/infiniband/rdmap0s6/ports/1/hw_counters"
    files = {
        f"{OTHER_ROOT}/{name}": "" for name in ("dev/kmsg", "opt/parallelcluster/.bootstrapped", "drivers/efa/new_id")
    }
    files |= {
        f"{port}/{name}": value for name, value in re.findall(r"^(\w+):(\d+)$", sample("efa-hw-counters.txt"), re.M)
    }
    files[f"{OTHER_ROOT}/sys/kernel/debug/lustre/llite/abcdbmv-ffff8800/stats"] = sample("llite-2.16.txt")
    files[f"{OTHER_ROOT}/proc/mounts"] = "10.0.0.9@tcp:/abcdbmv /fsx lustre rw 0 0\n"
    device = f"{OTHER_ROOT}/sys/class/infiniband/rdmap0s6/device"
    script = "".join(f"install -D /dev/null {name}; printf '%s' '{text}' >{name}\n" for name, text in files.items())
    script += f"mkdir {device}; ln -s {OTHER_ROOT}/drivers/efa {device}/driver\n"
    script += f"sed -i 's#--folder#--root {OTHER_ROOT} --folder#' /etc/systemd/system/{unit}; systemctl restart {unit}"
    cluster.root(script, node)


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
                asked = "" if isinstance(query, Metric) else with_values(query, "5m", "1m", values)
                if asked and not cluster.query(asked):
                    found.add(f"{one.name}: {panel.title}: {name}")
    return found


def test_targets_are_found_and_up(cluster: Cluster) -> None:
    """Prometheus finds node_exporter and dcgm-exporter of every node, and the head node's exporters."""
    wanted = {(node.name, job) for node in cluster.lab.plan.compute for job in ("node", "dcgm")}
    wanted |= {
        ("head", "node"),
        ("head", "slurm"),
        *(("monitoring", job) for job in ("node", "prometheus", "alertmanager")),
    }

    def up() -> set[tuple[str, str]]:
        return {(one["metric"]["node"], one["metric"]["job"]) for one in cluster.query("up == 1")}

    seconds = until(cluster, lambda: up() == wanted, lambda: up() ^ wanted)
    print(f"\n{len(wanted)} targets up after {seconds:.0f} s")


@pytest.fixture(scope="module")
def without_data(cluster: Cluster) -> set[str]:
    """Queries that had no data while the cluster was healthy: those that show only faults, once the others have some."""
    until(cluster, lambda: len(cluster.query("count_over_time(up{job='dcgm'}[10m]) >= 5")) == NODES, lambda: "scrapes")
    return empty(cluster)


def test_a_healthy_cluster_raises_nothing(cluster: Cluster, without_data: set[str]) -> None:
    """No alert is pending or firing after five scrapes of all nodes, and no message was sent."""
    assert without_data
    assert cluster.alerts() == set()
    assert [m for m in cluster.messages("sns") if not OF_THE_HOST & set(m["text"]["Subject"].split())] == []


def test_faults_raise_exactly_their_alerts(cluster: Cluster, without_data: set[str]) -> None:
    """Each planted fault arrives by webhook, mail and SNS. Jobs run where exporters do not; no alert has another cause."""
    lab, node = cluster.lab, cluster.node
    configure(lab, "gone")  # a wrong address
    cluster.jobs["idles"] = ""
    planted: dict[tuple[str, str], Callable[[], object]] = {
        ("NodeDown", node(3)): lambda: cluster.root("pkill -KILL slurmd", node(3)),
        ("NodeDrained", node(4)): lambda: cluster.root(
            f"scontrol update node={node(4)} state=drain reason='Fan broken'"
        ),
        ("XidError", node(5)): lambda: cluster.root(f"echo '{XID}' >>/dev/kmsg", node(5)),
        ("ExporterDown", node(6)): lambda: cluster.root("systemctl stop trainyard-dcgm-exporter", node(6)),
        ("ExporterDown", node(7)): lambda: without_dcgm(lab, node(7)),
        ("GpuThrottled", node(8)): lambda: planted_gpu(cluster, node(8), "clocks_throttle_reasons.active", "0x40"),
        ("EccDoubleBit", node(9)): lambda: planted_gpu(cluster, node(9), "ecc.errors.uncorrected.volatile.total", 2),
        ("GpuMissing", node(10)): lambda: cluster.change_gpus(node(10), lambda gpus: gpus.pop()),
        ("FileSystemFull", "/fsx"): lambda: cluster.root("mount -o remount,size=32m /fsx; fallocate -l 28M /fsx/big"),
        ("JobWithoutProgress", cluster.jobs["hangs"]): lambda: lab.write("/fsx/hang", "", user="root"),
        ("MonitoringFails", "monitoring"): lambda: None,
    }
    try:
        for plant in planted.values():
            plant()
        for number in range(8):
            planted_gpu(cluster, node(11), "utilization.job", 0, number)
        cluster.jobs["idles"] = cluster.submit("idles", "--nodes=1", f"--nodelist={node(11)}")
        begun = time.time()
        wanted = {*planted, ("GpusIdleInJob", cluster.jobs["idles"])}
        until(cluster, lambda: arrived(cluster) >= wanted, lambda: wanted - arrived(cluster))
        assert cluster.alerts() == wanted
        for how in ("mail", "sns"):
            until(
                cluster,
                lambda how=how: all(name in texts(cluster, how) for name, _ in wanted),
                lambda how=how: texts(cluster, how),
            )
        shown = texts(cluster, "sns")
        assert all(which in shown for _, which in wanted)
        # Exporters that do not answer stop no job.
        assert lab.output(["srun", f"--nodelist={node(6)}", "hostname"], user="ada") == node(6)
        assert lab.output(["srun", f"--nodelist={node(7)}", "hostname"], user="ada") == node(7)
        assert without_data & empty(cluster) == set(WITHOUT_DATA)
        for message in cluster.messages("webhook"):
            for alert in message["text"]["alerts"]:
                print(
                    f"{message['at'] - begun:6.1f} s  {alert['labels']['alertname']}: {alert['annotations']['summary']}"
                )
    finally:
        repair(cluster)


def arrived(cluster: Cluster) -> set[tuple[str, str]]:
    """The alerts that the webhook received, without resolved ones."""
    alerts = (alert for message in cluster.messages("webhook") for alert in message["text"]["alerts"])
    return {key(one["labels"]) for one in alerts if one["status"] == "firing"}


def texts(cluster: Cluster, how: str) -> str:
    """All that a sink received."""
    return "\n".join(str(message["text"]) for message in cluster.messages(how))


def planted_gpu(cluster: Cluster, node: str, name: str, value: object, number: int = 0) -> None:
    cluster.change_gpus(node, lambda gpus: gpus[number].update({name: value}))


def without_dcgm(lab: Laboratory, node: str) -> None:
    """A node whose image has no DCGM: its bootstrap succeeds and says so."""
    unit = "trainyard-dcgm-exporter"
    lab.run(
        f"systemctl stop {unit}; rm /etc/systemd/system/{unit}.service /usr/local/bin/nv-hostengine",
        node=node,
        user="root",
    )
    done = bootstrap.run(lab, node, "compute-configured")
    assert "DCGM" in done.stdout


def repair(cluster: Cluster) -> None:
    """Undo what a second run of the test needs undone."""
    slurmd, node = cluster.node(3), cluster.node
    cluster.root("rm -f /fsx/hang /fsx/big; scancel --name=idles", check=False)
    cluster.root("systemctl start slurmd", slurmd, check=False)
    for name in (node(3), node(4)):
        cluster.root(f"scontrol update node={name} state=resume", check=False)
    configure(cluster.lab)
