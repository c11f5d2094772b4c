"""gpu_burn.py measure|worker|tools|verdict: loads all GPUs of a node at the same time and names slow and faulty ones.

`measure --seconds N` measures this node and prints one line of JSON: per GPU matrix products (TFLOP/s) and memory
bandwidth (GB/s, bytes read plus bytes written) with the lowest second of each, wrong results, temperature, power,
clock, throttle reasons, ECC errors, failed row remappings and Xid errors. `worker` is its process of one GPU.
`tools` prints what nvbandwidth and `dcgmi diag` find, where they are installed. `verdict RESULTS` compares the nodes
and writes verdict.json. RESULTS has `nodes` (a name per line), and per node the outputs NODE.txt of `measure`,
NODE-all_reduce.txt of torch_collectives.py, and NODE-host.txt and NODE-container.txt of `tools`. A GPU or node fails if
it

- is more than 10 % below the median of all GPUs of its type in this run
- was throttled by heat or the power supply's brake signal (the software's power cap is normal under load)
- has new uncorrectable ECC errors, Xid errors, a failed row remapping, or wrong results
- fails a test of dcgmi diag
- did not answer

Needs torch to measure, otherwise the standard library; Python 3.9 or later. Exit codes: 0 passed; 1 failed; 2 wrong
arguments.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean, median, median_high
from typing import Any

MARGIN = 0.10
"""A GPU or node is slow if it is more than this share below its peers."""
_START_S, _GRACE_S, _SMI_S = 120, 60, 30  # until all processes have loaded torch; after the measurement; of nvidia-smi
_WARM_PART, _COPY_PART = 1 / 10, 1 / 6  # shares of the seconds; the first one is not measured
_ORDER = 8192  # of the matrices
_COPIED = 4 << 30  # bytes, more than any cache
_FIELDS = {
    "index": "index",
    "uuid": "uuid",
    "name": "name",
    "celsius": "temperature.gpu",
    "watts": "power.draw",
    "mhz": "clocks.sm",
    "uncorrected": "ecc.errors.uncorrected.volatile.total",
    # Driver 580 takes this name and the newer one, clocks_event_reasons.active; drivers before 535 only this one.
    "reasons": "clocks_throttle_reasons.active",
}
_REMAPPED = {"uuid": "gpu_uuid", "remapped": "remapped_rows.uncorrectable", "remap_failed": "remapped_rows.failure"}
# NVML's bits (NVML API reference R550, NvmlClocksEventReasons). HwSlowdown, 0x8, is also set during changes of the
# clock (DCGM API reference 2.4, field constants); its causes have bits of their own.
_THROTTLED = {0x20: "heat (software)", 0x40: "heat (hardware)", 0x80: "power brake"}
_SHOWN = {0x4: "power cap", 0x8: "hardware slowdown", **_THROTTLED}
_BAD = tuple(_THROTTLED.values())
_UNITS = {"tflops": "TFLOP/s", "gb_s": "GB/s of memory", "all_reduce": "GB/s of all_reduce on the node"}
_UNITS |= {"from_host": "GB/s from the host", "to_host": "GB/s to the host", "to_gpus": "GB/s to other GPUs"}
# Unidirectional copies by the copy engines, one GPU or pair after the other (NVIDIA/nvbandwidth v0.8, README.md).
_COPIES = {"from_host": "host_to_device_memcpy_ce", "to_host": "device_to_host_memcpy_ce"}
_COPIES |= {"to_gpus": "device_to_device_memcpy_read_ce"}
# Level 2 is what ParallelCluster runs before jobs (aws-parallelcluster-cookbook 3.12, gpu_health_check.sh). NVIDIA says
# two minutes (DCGM 4.6, "dcgmi diag"); eight GPUs can take longer (aws-parallelcluster#6777), so a timeout is not
# a failure. Without nv-hostengine, dcgmi starts its own (DCGM 4.6.0, dcgmi/Diag.cpp, DoExecuteConnectionFailure).
_TOOLS = {
    "nvbandwidth": (("nvbandwidth", "-j", "-t", *_COPIES.values()), 90),
    "dcgmi": (("dcgmi", "diag", "-r", "2", "-j"), 240),
}
_ALL_REDUCE = re.compile(r"# Out of bounds values +: 0 OK\n# Avg bus bandwidth +: ([\d.]+)")  # of one size
_SILENT = "did not answer"
_XID_EVENT = 8  # nvmlEventTypeXidCriticalError, nvml.h
_XID_WAIT_MS = 1


class Unmeasured(Exception):
    """Why this node cannot be measured."""


def smi(query: str, fields: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """What nvidia-smi shows of each GPU, by UUID."""
    command = ("nvidia-smi", f"--query-{query}={','.join(fields.values())}", "--format=csv,noheader,nounits")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SMI_S)
    except FileNotFoundError as problem:
        raise Unmeasured("nvidia-smi is missing: no GPU, or no driver") from problem
    except subprocess.TimeoutExpired as problem:
        raise Unmeasured(f"nvidia-smi did not answer in {_SMI_S} s") from problem
    if done.returncode:
        raise Unmeasured(f"nvidia-smi: {(done.stdout + done.stderr).strip()[-200:]}")
    lines = (line.split(", ") for line in done.stdout.strip().splitlines())
    rows = (dict(zip(fields, words)) for words in lines if len(words) == len(fields))  # noqa: B905 - Python 3.9
    return {row["uuid"]: row for row in rows}


def state() -> dict[str, dict[str, str]]:
    """A reading with the counters of errors."""
    found = smi("gpu", _FIELDS)
    with suppress(Unmeasured):  # GPUs before Ampere do not remap rows
        for uuid, row in smi("remapped-rows", _REMAPPED).items():
            found.get(uuid, {}).update(row)
    return found


def number(row: Mapping[str, str], name: str) -> float | None:
    """A figure of nvidia-smi; None if the GPU does not have it."""
    text = row.get(name, "")
    with suppress(ValueError):
        return float(int(text, 16) if text.startswith("0x") else text)
    return {"Yes": 1.0, "No": 0.0}.get(text)


def summary(
    samples: Sequence[Mapping[str, str]], before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, Any]:
    """The readings of a GPU under load, and its counters of errors before and after."""
    reasons = [int(number(one, "reasons") or 0) for one in samples]
    read = {
        key: [one for row in samples if (one := number(row, key)) is not None] for key in ("celsius", "watts", "mhz")
    }
    return {
        **{key: median(figures) if figures else None for key, figures in read.items()},
        "celsius": max(read["celsius"], default=None),
        # Per cent of the readings.
        "reasons": {
            name: round(100 * sum(bool(one & bit) for one in reasons) / len(reasons))
            for bit, name in _SHOWN.items()
            if any(one & bit for one in reasons)
        },
        **{key: [number(row, key) for row in (before, after)] for key in ("uncorrected", "remapped", "remap_failed")},
    }


class _Event(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Xids:
    """Xid errors from now on, by NVML's events: the kernel log, which has them too, often needs root."""

    def __init__(self, uuids: Sequence[str]) -> None:
        self._of: dict[int | None, str] = {}
        try:
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        self._set = ctypes.c_void_p()
        if self._nvml.nvmlInit_v2() or self._nvml.nvmlEventSetCreate(ctypes.byref(self._set)):
            return
        for uuid in uuids:
            device = ctypes.c_void_p()
            if self._nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)):
                continue
            if not self._nvml.nvmlDeviceRegisterEvents(device, ctypes.c_ulonglong(_XID_EVENT), self._set):
                self._of[device.value] = uuid

    def read(self) -> dict[str, list[int]]:
        """The Xids by GPU, of those GPUs of which they can be read."""
        found: dict[str, list[int]] = {uuid: [] for uuid in self._of.values()}
        event = _Event()
        while found and not self._nvml.nvmlEventSetWait_v2(self._set, ctypes.byref(event), _XID_WAIT_MS):
            found.setdefault(self._of.get(event.device, ""), []).append(int(event.data))
        return found


def per_second(call: Callable[[], object], seconds: float, wait: Callable[[], object]) -> Iterator[float]:
    """Calls per second, about every second; `wait` waits for the calls."""
    for _ in range(2):  # the first one prepares
        begun = time.perf_counter()
        call()
        wait()
        batch = max(1, int(0.1 / (time.perf_counter() - begun)))
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        calls = 0
        while time.perf_counter() < begun + min(1, seconds):
            for _ in range(batch):
                call()
            wait()
            calls += batch
        yield calls / (time.perf_counter() - begun)


def work(seconds: float) -> dict[str, Any]:
    """Measure the first GPU that CUDA shows, when a line arrives on stdin."""
    try:
        import torch
    except ImportError as problem:
        raise Unmeasured(f"{sys.executable} has no torch ({problem}): give --image NAME or --python PATH") from problem
    if not torch.cuda.is_available():
        raise Unmeasured(f"torch {torch.__version__} of {sys.executable} cannot use the GPU")
    wait = torch.cuda.synchronize
    torch.manual_seed(0)  # power depends on the values: all GPUs have the same
    # Before Ampere there is no bf16.
    kind = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16
    one, other = (torch.randn(_ORDER, _ORDER, device="cuda", dtype=kind) for _ in range(2))
    wanted = torch.mm(one, other)
    result = torch.empty_like(wanted)
    size = min(_COPIED, torch.cuda.mem_get_info()[0] // 8)
    source, target = (torch.ones(size // 4, device="cuda") for _ in range(2))
    wait()
    print("ready", flush=True)
    sys.stdin.readline()

    def product() -> None:
        torch.mm(one, other, out=result)

    for _ in per_second(product, seconds * _WARM_PART, wait):
        pass
    products, wrong = [], 0
    for rate in per_second(product, seconds * (1 - _WARM_PART - _COPY_PART), wait):
        products.append(rate * 2 * _ORDER**3 / 1e12)
        # The same GPU computes the same bits (cuBLAS's documentation, "Results Reproducibility").
        wrong += not torch.equal(result, wanted)
    copies = [rate * 2 * size / 1e9 for rate in per_second(lambda: target.copy_(source), seconds * _COPY_PART, wait)]
    return {
        "tflops": round(mean(products), 1),
        "lowest_tflops": round(min(products), 1),
        "gb_s": round(mean(copies), 1),
        "lowest_gb_s": round(min(copies), 1),
        "wrong": wrong,
        "type": str(kind).replace("torch.", ""),
        "torch": torch.__version__,
    }


def _run_worker(uuid: str, seconds: float, barrier: threading.Barrier, found: dict[str, Any]) -> None:
    """Start the process of a GPU and wait for its answer."""
    environment = dict(os.environ)
    environment["CUDA_VISIBLE_DEVICES"] = uuid  # nccl-lint: allow CUDA_VISIBLE_DEVICES -- a process per GPU
    command = (sys.executable, __file__, "worker", "--seconds", str(seconds))
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    said = ""
    for line in process.stdout or ():
        if line.strip() == "ready":
            break
        said = line.strip() or said
    # Also with a process that ended: the others wait for all.
    with suppress(threading.BrokenBarrierError):
        barrier.wait(_START_S)
    try:
        rest, _ = process.communicate("go\n", timeout=seconds + _GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return
    last = (rest.strip().splitlines() or [said])[-1]
    with suppress(ValueError):
        found[uuid] = json.loads(last)
        return
    found[uuid] = {"error": last[-300:] or f"ended with status {process.returncode}"}


def measure(seconds: float) -> dict[str, Any]:
    """The figures of this node's GPUs, or its `error`."""
    before = state()
    if not before:
        raise Unmeasured("nvidia-smi shows no GPU")
    xids = Xids(tuple(before))
    found: dict[str, Any] = {}
    barrier = threading.Barrier(len(before) + 1)
    # Threads and processes that hang are left behind: a process that waits for a broken GPU cannot be killed.
    threads = [threading.Thread(target=_run_worker, args=(one, seconds, barrier, found), daemon=True) for one in before]
    for thread in threads:
        thread.start()
    with suppress(threading.BrokenBarrierError):
        barrier.wait(_START_S)
    end = time.monotonic() + seconds
    samples, after, error = [], before, {}
    try:
        while time.monotonic() < end and any(thread.is_alive() for thread in threads):
            samples.append(smi("gpu", _FIELDS))
            time.sleep(min(1, seconds / 4))
    except Unmeasured as problem:
        error = {"error": str(problem)}
    for thread in threads:
        thread.join(max(0.0, end + _GRACE_S - time.monotonic()))
    try:
        after = state()
    except Unmeasured as problem:
        error = {"error": str(problem)}
    seen = xids.read()
    gpus = [
        {
            **{key: row[key] for key in ("index", "uuid", "name")},
            **found.get(uuid, {"error": _SILENT}),
            **summary([one[uuid] for one in samples if uuid in one], row, after.get(uuid, {})),
            "xids": seen.get(uuid),
        }
        for uuid, row in before.items()
    ]
    return {"gpus": gpus, **error}


def tools(known: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of each program of _TOOLS that is here and not in `known`, or its `error`."""
    found: dict[str, Any] = {}
    for name, (line, limit) in _TOOLS.items():
        if name in known or not shutil.which(name):
            continue
        try:
            # In the order of nvidia-smi.
            environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
            done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=limit, env=environment)
            found[name] = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])[0]
        except subprocess.TimeoutExpired:
            found[name] = {"error": f"did not end in {limit} s"}
        except ValueError:
            said = (done.stdout + done.stderr).strip().splitlines() or [f"status {done.returncode}"]
            found[name] = {"error": said[-1][-200:]}
    return found


def _copied(report: Mapping[str, Any]) -> Iterator[tuple[str, int, float]]:
    """The figures of nvbandwidth (v0.8, json_output.cpp): their key, the GPU, and GB/s."""
    for case in report.get("testcases", ()):
        key = next((key for key, name in _COPIES.items() if name == case["name"]), "")
        rows = [[None if text == "N/A" else float(text) for text in row] for row in case.get("bandwidth_matrix", ())]
        for gpu in range(len(rows[0]) if key and rows else 0):
            # Between GPUs: the median of all its pairs in both directions. One slow pair does not fail its GPU.
            pairs = [row[gpu] for row in rows] + (rows[gpu] if key == "to_gpus" else [])
            if rates := [rate for rate in pairs if rate]:
                yield key, gpu, median_high(rates)


def _diagnosed(report: Mapping[str, Any]) -> Iterator[tuple[int | None, str]]:
    """The failed tests of dcgmi diag, with their GPU, or None.

    DCGM 4: testing/python3/dcgm_diag_schema.json of NVIDIA/DCGM 4.6.0. DCGM 3 has another name and gpu_id.
    """
    root = report.get("DCGM Diagnostic") or report.get("DCGM GPU Diagnostic") or {}
    tests = [test for category in root.get("test_categories", ()) for test in category["tests"]]
    for name, result in [(test["name"], result) for test in tests for result in test.get("results", ())]:
        if result["status"].lower() == "fail":
            gpu = result.get("gpu_id", result.get("entity_id") if result.get("entity_group") == "GPU" else None)
            said = [one["warning"] if isinstance(one, dict) else one for one in result.get("warnings", ())]
            yield (None if gpu is None else int(gpu)), f"dcgmi diag: {name} failed. {' '.join(said)}"[:300]


def add_tools(report: dict[str, Any], host: Mapping[str, Any], container: Mapping[str, Any]) -> None:
    """Add what `tools` found on the host, and for the rest in the container, to a node's report."""
    found = {name: one[name] for one in (container, host) for name in _TOOLS if name in one}
    gpus = {int(gpu["index"]): gpu for gpu in report.get("gpus", ())}
    for key, index, rate in _copied(found.get("nvbandwidth", {}).get("nvbandwidth", {})):
        gpus.get(index, {})[key] = rate
    report["diagnosed"] = []
    for gpu, text in _diagnosed(found.get("dcgmi", {})):
        (gpus[gpu].setdefault("diagnosed", []) if gpu in gpus else report["diagnosed"]).append(text)
    report["unasked"] = []
    for name, key in (("nvbandwidth", "nvbandwidth"), ("dcgmi", "DCGM Diagnostic")):
        # Without an answer of the host it is unknown what is there.
        answer = found.get(name, {"error": host.get("error", "not there")})
        why = answer.get("error") or answer.get(key, {}).get("error") or answer.get(key, {}).get("runtime_error")
        if why:
            report["unasked"].append(f"{name}: {why}"[:200])


def report_of(text: str) -> dict[str, Any]:
    """The report in the output of `measure`, or why there is none."""
    lines = text.strip().splitlines()
    for line in reversed(lines):
        with suppress(ValueError):
            if isinstance(report := json.loads(line), dict):
                return report
    return {"error": _SILENT + (f": {lines[-1][-200:]}" if lines else "")}


def _errors(gpu: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a GPU, without its speed."""
    if "error" in gpu:
        yield f"no figure: {gpu['error']}"
    if gpu.get("wrong"):
        yield f"wrong results in {gpu['wrong']} s"
    if hot := [f"{name} in {share} % of the readings" for name, share in gpu["reasons"].items() if name in _BAD]:
        yield f"throttled by {', '.join(hot)}, at most {gpu['celsius']} °C"
    new = {key: (gpu[key][1] or 0) - (gpu[key][0] or 0) for key in ("uncorrected", "remapped")}
    if new["uncorrected"] > 0:
        yield f"{new['uncorrected']:g} new uncorrectable ECC errors"
    if new["remapped"] > 0:
        yield f"{new['remapped']:g} rows of memory newly remapped after uncorrectable errors"
    if any(gpu["remap_failed"]):
        yield "a row of memory could not be remapped: the GPU must be replaced"
    yield from gpu.get("diagnosed", ())
    if gpu["xids"]:
        yield f"Xid {', '.join(map(str, sorted(set(gpu['xids']))))}"


def _slow(figures: Mapping[str, Any], peers: Mapping[str, float]) -> Iterator[str]:
    for key, usual in peers.items():
        if figures.get(key) is not None and figures[key] < usual * (1 - MARGIN):
            below = 100 * (1 - figures[key] / usual)
            yield f"{figures[key]:g} {_UNITS[key]}, {below:.0f} % below {usual:g} of its peers"


def judge(nodes: Mapping[str, Mapping[str, Any]], gpus: int) -> dict[str, Any]:
    """The verdict on the reports of nodes with that many GPUs each; `all_reduce` is a node's bus bandwidth in GB/s."""
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for report in nodes.values():
        for gpu in report.get("gpus", ()):
            for key in _UNITS.keys() & gpu.keys():
                rates[gpu["name"]][key].append(gpu[key])
        if report.get("gpus") and report.get("all_reduce"):
            rates[report["gpus"][0]["name"]]["all_reduce"].append(report["all_reduce"])
    # Of two, the faster one: the slower one must not lower what it is compared with.
    peers = {name: {key: median_high(found) for key, found in sorted(one.items())} for name, one in rates.items()}
    measured = sum(len(one["tflops"]) for one in rates.values())
    faults: list[dict[str, Any]] = []
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node, report in nodes.items():
        shown = report.get("gpus", ())
        for gpu in shown:
            if what := [*_slow(gpu, peers.get(gpu["name"], {})), *_errors(gpu)]:
                text = f"GPU {gpu['index']} ({gpu['uuid']}): {'; '.join(what)}"
                faults.append({"kind": "gpu", "nodes": [node], "text": text})
        if "error" in report:
            kind = "silent" if report["error"].startswith(_SILENT) else "error"
            alike[kind, report["error"]].append(node)
        elif len(shown) != gpus:
            alike["node", f"{len(shown)} of {gpus} GPUs"].append(node)
        if gpus > 1 and shown and not report.get("all_reduce"):
            alike["node", "no figure of all_reduce among its GPUs, or wrong values"].append(node)
        for text in report.get("diagnosed", ()):
            alike["node", text].append(node)
        for text in _slow(report, peers.get(shown[0]["name"], {}) if shown else {}):
            alike["node", text].append(node)
    faults = [{"kind": kind, "nodes": names, "text": text} for (kind, text), names in alike.items()] + faults
    unread = sum(gpu["xids"] is None for report in nodes.values() for gpu in report.get("gpus", ()))
    return {
        "passed": not faults and measured > 0, "nodes": len(nodes), "gpus": measured, "peers": peers,
        "margin_percent": 100 * MARGIN, "xids_unread": unread, "faults": faults,
        "unasked": Counter(text for report in nodes.values() for text in report.get("unasked", ())),
    }  # fmt: skip


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def verdict(results: Path, gpus: int) -> bool:
    """Judge the outputs of a folder, print the verdict and write it; whether it passed."""
    nodes = {}
    for node in (results / "nodes").read_text().split():
        nodes[node] = report_of(_text(results / f"{node}.txt"))
        busbw = _ALL_REDUCE.search(_text(results / f"{node}-all_reduce.txt"))
        nodes[node]["all_reduce"] = float(busbw.group(1)) if busbw else None
        add_tools(nodes[node], *(report_of(_text(results / f"{node}-{where}.txt")) for where in ("host", "container")))
    found = judge(nodes, gpus)
    for node, report in nodes.items():
        for gpu in report.get("gpus", ()):
            figures = [f"{gpu[key]:g} {_UNITS[key]}" for key in _UNITS if key in gpu]
            figures += [f"lowest {gpu[key]:g} {_UNITS[key[7:]]}" for key in gpu if key.startswith("lowest_")]
            figures += [f"{gpu['celsius']} °C, {gpu['watts']} W, {gpu['mhz']} MHz"]
            figures += [f"{name} in {share} %" for name, share in gpu["reasons"].items()]
            print(f"{node} GPU {gpu['index']}: {', '.join(figures)}")
        if report["all_reduce"]:
            print(f"{node}: {report['all_reduce']:g} {_UNITS['all_reduce']}")
    for name, usual in found["peers"].items():
        print(f"usual for {name}: " + ", ".join(f"{rate:g} {_UNITS[key]}" for key, rate in usual.items()))
    if found["xids_unread"]:
        print(f"Xid errors of {found['xids_unread']} GPUs could not be read: NVML (libnvidia-ml.so.1) gives no events")
    for text, number_of in found["unasked"].items():
        print(f"no result on {number_of} nodes: {text}")
    for fault in found["faults"]:
        print(f"FAILED {' '.join(fault['nodes'])}: {fault['text']}")
    (results / "verdict.json").write_text(json.dumps({**found, "figures": nodes}, indent=1) + "\n")
    return bool(found["passed"])


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="gpu_burn.py", description="Find slow and faulty GPUs under load.")
    parser.add_argument("step", choices=("measure", "worker", "tools", "verdict"))
    parser.add_argument(
        "results", type=Path, nargs="?", help="of verdict: the folder of the outputs; of tools: an earlier output"
    )
    parser.add_argument("--seconds", type=float, default=60, help="of the measurement (default 60)")
    parser.add_argument("--gpus", type=int, default=1, help="of verdict: GPUs per node")
    options = parser.parse_args(arguments)
    if options.step == "verdict":
        if not options.results:
            parser.error("verdict needs the folder of the outputs")
        try:
            return int(not verdict(options.results, options.gpus))
        except (OSError, ValueError, KeyError) as problem:
            parser.error(f"cannot be read: {problem}")
    if options.step == "tools":
        print(json.dumps(tools(report_of(_text(options.results)) if options.results else {})), flush=True)
        return 0
    try:
        found = measure(options.seconds) if options.step == "measure" else work(options.seconds)
    except Unmeasured as problem:
        found = {"error": str(problem)}
    print(json.dumps(found), flush=True)
    return int("error" in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
