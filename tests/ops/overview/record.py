"""Records what a real Prometheus answers to the page's queries: python -m tests.ops.overview.record

An hour of a simulated cluster is imported with promtool, Prometheus evaluates the product's alert rules on it, and its
answers go to answers.json. Needs the Debian package prometheus. Takes three minutes, because alerts wait for theirs.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ops.overview import page
from ops.overview.prometheus import Prometheus

ROOT = Path(__file__).parents[3]
ANSWERS = Path(__file__).parent / "answers.json"
RULES = ROOT / "cluster_assets/monitoring/prometheus/rules"
PORT = 19090
STEP = 15
WAIT = 170
NODES, GPUS = 6, 8
SLOW, DRAINED = "gpu-st-p5-3", "gpu-st-p5-6"
JOBS = {"41": ("llama-8b", "alice", "research", (1, 2, 3, 4)), "44": ("ablation-7", "bob", "vision", (5,))}


class Recorder(Prometheus):
    """Keeps every answer."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.answers: dict[str, Any] = {}

    def _get(self, path: str, fields: Any, key: str) -> Any:  # noqa: ANN401
        answer = super()._get(path, fields, key)
        self.answers[f"{path} {fields.get('query', '')}".strip()] = {key: answer}
        return answer


def series(at: float, start: float) -> Iterator[tuple[str, dict[str, str], float]]:
    """All series at a time: name, labels, value."""
    age = at - start
    everywhere = {"cluster": "local", "job": "slurm"}

    def one(series: str, value: float, /, **labels: object) -> tuple[str, dict[str, str], float]:
        return series, {**everywhere, **{key: str(text) for key, text in labels.items()}}, value

    for number in range(1, NODES + 1):
        node = f"gpu-st-p5-{number}"
        place = {"node": node, "queue": "gpu"}
        job = next((name for name, about in JOBS.items() if number in about[3]), "")
        yield one(
            "slurm_node_state", 1, **place, state="drained" if node == DRAINED else "allocated" if job else "idle"
        )
        yield one("slurm_node_gpus", GPUS, **place)
        yield one("slurm_node_gpus_allocated", GPUS if job else 0, **place)
        if node == DRAINED:
            yield one("slurm_node_reason", 1, **place, reason="gpu-check: GPU 5: NVLink 3 is down")
        for exporter in ("node", "dcgm"):
            yield one("up", 1, **place, job=exporter)
        wave = 0.5 + 0.5 * math.sin(age / 200 + number)
        for gpu in range(GPUS):
            label = {**place, "gpu": gpu, "modelName": "NVIDIA H100 80GB HBM3 (simulated)"}
            if job:
                label["hpc_job"] = job
            use = (93 + 5 * wave if job == "41" else 71 + 20 * wave) if job else 0
            slow = node == SLOW and gpu == 5 and age > 2400
            yield one("DCGM_FI_DEV_GPU_UTIL", use, **label)
            yield one("DCGM_FI_DEV_POWER_USAGE", 75 + use * 5.8 - 180 * slow, **label)
            yield one("DCGM_FI_DEV_GPU_TEMP", 34 + use / 3 + 22 * slow, **label)
            yield one("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 64 if slow else 0, **label)
        traffic = 310e9 if job == "41" else 0
        yield one(
            "trainyard_efa_tx_bytes_total", age * traffic * (0.9 + 0.001 * wave), **place, device="rdmap0", port=1
        )
        yield one(
            "trainyard_efa_rx_bytes_total", age * traffic * (0.9 + 0.001 * wave), **place, device="rdmap0", port=1
        )
        yield one("trainyard_efa_rdma_write_bytes_total", age * traffic * 0.88, **place, device="rdmap0", port=1)
        yield one("trainyard_efa_rdma_read_bytes_total", 0, **place, device="rdmap0", port=1)
        burst = age * 0.4e9 + 6e9 * math.floor(age / 600)
        yield one("trainyard_lustre_read_bytes_total", age * 1.1e9, **place, mount="/fsx")
        yield one("trainyard_lustre_write_bytes_total", burst, **place, mount="/fsx")
        if job:
            name, user, account, _ = JOBS[job]
            yield one("trainyard_job_info", 1, **place, job=job, user=user, account=account, experiment=name)
        for mount, fstype, full in (("/", "ext4", 0.41), ("/fsx", "lustre", 0.772 + age / 1e5)):
            disk = {**place, "mountpoint": mount, "fstype": fstype, "device": mount}
            yield one("node_filesystem_size_bytes", 1e12, **disk)
            yield one("node_filesystem_avail_bytes", 1e12 * (1 - full), **disk)
    head = {"node": "head", "queue": ""}
    yield one("up", 1, **head, job="slurm")
    yield one("slurm_up", 1, **head)
    for job, (name, user, account, nodes) in JOBS.items():
        about = {"user": user, "account": account, "queue": "gpu"}
        yield one("slurm_job_info", 1, job=job, name=name, **about, experiment=name)
        yield one("slurm_job_gpus", GPUS * len(nodes), job=job)
        yield one("slurm_job_start_time_seconds", start - 7900, job=job)
        yield one("slurm_jobs", 1, state="running", **about)
        lost = 0.82 if job == "41" and age > 2400 else 1
        yield one("training_tokens_per_second", len(nodes) * 81e3 * lost + 900 * math.sin(age / 90), job=job)
        yield one("training_mfu_ratio", 0.47 * lost + 0.004 * math.sin(age / 90), job=job)
        yield one("training_last_step_time_seconds", at - 3, job=job)
    yield one("slurm_jobs", 3 + (age > 1500), state="pending", user="carol", account="vision", queue="gpu")


def lines(at: float, start: float) -> Iterator[str]:
    """The text format, without times."""
    for name, labels, value in series(at, start):
        shown = ",".join(f'{key}="{text}"' for key, text in labels.items() if text)
        yield f"{name}{{{shown}}} {value:.9g}"


def openmetrics(start: float, end: float) -> str:
    """The text that promtool imports."""
    found = [f"{line} {at}" for at in range(int(start), int(end), STEP) for line in lines(at, start)]
    return "\n".join([*sorted(found, key=lambda line: line.split("{")[0]), "# EOF", ""])


def exporter(start: float) -> ThreadingHTTPServer:
    """Serves the present, because alerts are series that Prometheus writes itself."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            now = [line for line in lines(time.time(), start) if not line.startswith("up{")]
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write("\n".join([*now, ""]).encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Record."""
    with tempfile.TemporaryDirectory() as name:
        folder, now = Path(name), time.time()
        start = now - page.SPAN
        (folder / "metrics.txt").write_text(openmetrics(start, now))
        subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", folder / "metrics.txt", folder / "data"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        rules = sorted(str(path) for path in RULES.glob("*.yml"))
        target = f"127.0.0.1:{exporter(start).server_port}"
        scrape = {
            "job_name": "slurm",
            "honor_labels": True,
            "static_configs": [{"targets": [target], "labels": {"cluster": "local"}}],
            "metric_relabel_configs": [{"action": "labeldrop", "regex": "instance"}],
        }
        interval = {"scrape_interval": "15s", "evaluation_interval": "5s"}
        config = {"global": interval, "rule_files": rules, "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(json.dumps(config))
        line = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        process = subprocess.Popen([*line, f"--web.listen-address=127.0.0.1:{PORT}", "--log.level=error"])
        try:
            time.sleep(WAIT)
            recorder, now = Recorder(f"http://127.0.0.1:{PORT}"), round(time.time())
            page.overview("local", recorder, now)
        finally:
            process.terminate()
            process.wait(60)
    answers = json.loads(json.dumps(recorder.answers), parse_float=lambda text: round(float(text), 3))
    ANSWERS.write_text(f"{json.dumps({'time': now, 'answers': answers}, separators=(',', ':'), sort_keys=True)}\n")


if __name__ == "__main__":
    main()
