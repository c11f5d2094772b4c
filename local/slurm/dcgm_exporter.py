#!/usr/bin/env python3
"""Imitates dcgm-exporter 4.8.0 of NVIDIA's package datacenter-gpu-manager-exporter: the lines of its /metrics.

Values follow from /etc/lab/gpus.json, which a test may change, and whether a job has the GPU: a made-up load, which its
key `utilization.job` changes. tests/observability/dcgm.json records what the genuine one serves.
"""

import argparse
import csv
import json
import os
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def values(gpu, load):
    """DCGM's fields; the others of the list of counters are 0."""
    used = gpu["memory.used"] + 0.8 * load * gpu["memory.total"]
    return {
        "DCGM_FI_DEV_GPU_UTIL": round(100 * load),
        "DCGM_FI_DEV_GPU_TEMP": gpu["temperature.gpu"] + round(30 * load),
        "DCGM_FI_DEV_POWER_USAGE": gpu["power.draw"] + 550 * load,
        "DCGM_FI_DEV_FB_USED": round(used),
        "DCGM_FI_DEV_FB_FREE": round(gpu["memory.total"] - used),
        "DCGM_FI_DEV_SM_CLOCK": gpu["clocks.sm"] + round(1600 * load),
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": int(gpu["clocks_throttle_reasons.active"], 16),
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": gpu["ecc.errors.uncorrected.volatile.total"],
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": int(gpu["remapped_rows.failure"] == "Yes"),
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": round(200_000 * load),
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": load,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.5 * load,
    }


def page(counters):
    """One block for each counter; a GPU with jobs has a line for each of them."""
    lines = {name: [f"# HELP {name} {text}", f"# TYPE {name} {kind}"] for name, kind, text in counters}
    for gpu in json.loads(Path("/etc/lab/gpus.json").read_text())["gpus"]:
        mapping = Path(os.environ.get("DCGM_HPC_JOB_MAPPING_DIR", "/nowhere"), str(gpu["index"]))
        jobs = mapping.read_text().split() if mapping.is_file() else []
        found = values(gpu, (gpu.get("utilization.job", 95) if jobs else gpu["utilization.gpu"]) / 100)
        labels = (
            f'gpu="{gpu["index"]}",UUID="{gpu["uuid"]}",pci_bus_id="{gpu["pci.bus_id"]}",device="nvidia{gpu["index"]}",'
            f'modelName="{gpu["name"]}",Hostname="{socket.gethostname()}"'
        )
        for name, block in lines.items():
            block += [
                f"{name}{{{labels}{job}}} {found.get(name, 0)}" for job in [f',hpc_job="{one}"' for one in jobs] or [""]
            ]
    return "".join(f"{line}\n" for block in lines.values() for line in block)


def main():
    parser = argparse.ArgumentParser(prog="dcgm-exporter (simulated)")
    parser.add_argument("-a", "--address", default=":9400")
    parser.add_argument("-f", "--collectors", type=Path, default=Path("/etc/dcgm-exporter/default-counters.csv"))
    parser.add_argument("-c", "--collect-interval", type=int, default=30000)
    parser.add_argument("-r", "--remote-hostengine-info")
    options = parser.parse_args()
    lines = [line for line in options.collectors.read_text().splitlines() if line and not line.startswith("#")]
    counters = list(csv.reader(lines, skipinitialspace=True))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = page(counters).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    host, _, port = options.address.rpartition(":")
    ThreadingHTTPServer((host, int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
