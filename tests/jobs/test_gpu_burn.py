"""GPU burn-in: its measurement with a stand-in of torch and nvidia-smi, and the verdicts on planted faults."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import JOBS, load_module
from tests.stubs import fake_command

FILE = JOBS / "lib" / "gpu_burn.py"
TORCH = """
import os, time, types
__version__, bfloat16, float16 = "2.0", "torch.bfloat16", "torch.float16"
uuid = os.environ["CUDA_VISIBLE_DEVICES"]
class Tensor:
    def copy_(self, other): time.sleep(0.002)
def mm(one, other, out=None):
    time.sleep(3600 if "hangs" in uuid and out else 0.02 if "slow" in uuid and out else 0.002)
    return Tensor()
def randn(*size, **more): return Tensor()
ones, empty_like = randn, randn
def manual_seed(seed): pass
def equal(one, other): return "wrong" not in uuid
cuda = types.SimpleNamespace(
    is_available=lambda: "absent" not in uuid, synchronize=lambda: None, get_device_capability=lambda: (9, 0),
    mem_get_info=lambda: (8 << 30, 8 << 30),
)
"""
# Answers in the order of the fields. Its counters of the GPU "ecc" rise with each call.
SMI = """
import pathlib, sys
calls = pathlib.Path(__file__ + ".calls")
calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
rising = str(len(calls.read_text()))
if "lost" in str(UUIDS) and int(rising) > 3:
    sys.exit("GPU 1 is lost")
for index, uuid in enumerate(UUIDS):
    figures = {
        "index": index, "uuid": uuid, "gpu_uuid": uuid, "name": "NVIDIA H200", "temperature.gpu": 60,
        "power.draw": "690.12", "clocks.sm": 1500, "remapped_rows.uncorrectable": rising if "remapped" in uuid else 0,
        "remapped_rows.failure": "Yes" if "replace" in uuid else "No",
        "ecc.errors.uncorrected.volatile.total": rising if "ecc" in uuid else "[N/A]" if "off" in uuid else 3,
    }
    reasons = "0x0000000000000040" if "hot" in uuid else "0x000000000000000C"
    print(", ".join(str(figures.get(field, reasons)) for field in sys.argv[1].split("=")[1].split(",")))
"""


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Measure GPUs whose UUID says what is wrong with them."""
    module = load_module(FILE)
    monkeypatch.setattr(module, "_START_S", 30)
    monkeypatch.setattr(module, "_GRACE_S", 2)
    (tmp_path / "torch.py").write_text(TORCH)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def measured(*uuids: str) -> dict[str, Any]:
        fake_command(tmp_path / "bin" / "nvidia-smi", f"#!{sys.executable}\nUUIDS = {uuids!r}\n{SMI}")
        report: dict[str, Any] = module.measure(0.6)
        return report

    return measured


ALL_REDUCE = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 327.63\n"


def judged(
    folder: Path, nodes: dict[str, str], gpus: int, capsys: pytest.CaptureFixture[str], all_reduce: str = ALL_REDUCE
) -> tuple[bool, str]:
    """The verdict on the outputs of nodes, and what it prints."""
    folder.mkdir(exist_ok=True)
    (folder / "nodes").write_text("\n".join(nodes))
    for node, text in nodes.items():
        (folder / f"{node}.txt").write_text(text)
        (folder / f"{node}-all_reduce.txt").write_text(all_reduce)
    status = load_module(FILE).main(["verdict", str(folder), "--gpus", str(gpus)])
    return status == 0, capsys.readouterr().out


def test_measured_faults_are_named(
    tmp_path: Path, measure: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    faulty = ("good-off", "slow-hot-ecc-remapped-wrong", "absent-replace", "hangs")
    report = measure(*faulty)
    assert [gpu["uuid"] for gpu in report["gpus"]] == list(faulty)
    assert report["gpus"][0]["reasons"] == {"power cap": 100, "hardware slowdown": 100}
    passed, text = judged(tmp_path / "results", {"n1": f"a warning\n{json.dumps(report)}"}, len(faulty), capsys)
    failed = {line.split(" (")[0].removeprefix("FAILED "): line for line in text.splitlines() if "FAILED" in line}
    assert not passed
    for number, what in {
        1: ("% below", "throttled by heat (hardware) in 100 % of the readings, at most 60.0 °C", "wrong results",
            "new uncorrectable ECC errors", "rows of memory newly remapped"),
        2: ("no figure: torch 2.0 of", "the GPU must be replaced"),
        3: ("no figure: did not answer",),
    }.items():  # fmt: skip
        for words in what:
            assert words in failed[f"n1: GPU {number}"]


def test_the_other_gpus_keep_their_figures_when_nvidia_smi_fails(measure: Callable[..., dict[str, Any]]) -> None:
    report = measure("good", "lost")
    assert "GPU 1 is lost" in report["error"]
    assert all("tflops" in gpu for gpu in report["gpus"])


def test_real_gpus_pass_and_one_with_another_process_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outputs of two H200; their first lines say when and where."""
    outputs = Path(__file__).parent / "gpu_burn"
    all_reduce = (outputs / "all_reduce.txt").read_text()
    for name, passes in (("as-they-are", True), ("loaded", False)):
        text = (outputs / f"{name}.txt").read_text()
        passed, said = judged(tmp_path / name, {"n1": text}, 2, capsys, all_reduce)
        assert passed is passes and "n1: 327.63 GB/s of all_reduce on the node" in said
    assert "FAILED n1: GPU 1 (GPU-4c30105b-829f-61c9-69f1-c87e8257b2c2): 1919.3 GB/s of memory, 55 % below" in said


# A DCGM 4 report, as testing/python3/dcgm_diag_schema.json of NVIDIA/DCGM 4.6.0 describes it, and one of DCGM 3.
FAILED_TEST = {"status": "Fail", "warnings": [{"warning": "PCIe replays", "error_id": 1}]}
DIAG_4 = {
    "DCGM Diagnostic": {
        "test_categories": [
            {"category": "Deployment", "tests": [
                {"name": "software", "results": [{"entity_group": "CPU", "entity_id": 0, **FAILED_TEST}]}]},
            {"category": "Hardware", "tests": [
                {"name": "memory", "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Pass"},
                                               {"entity_group": "GPU", "entity_id": 1, "status": "Skip"}]},
                {"name": "pcie", "results": [{"entity_group": "GPU", "entity_id": 1, **FAILED_TEST}]}]},
        ]
    }
}  # fmt: skip
DIAG_3 = {
    "DCGM GPU Diagnostic": {
        "test_categories": [{"category": "Integration", "tests": [
            {"name": "PCIe", "results": [{"gpu_id": "0", "status": "PASS"},
                                         {"gpu_id": "1", "status": "FAIL", "warnings": ["PCIe replays"]}]}]}]
    }
}  # fmt: skip


def with_tools(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **programs: str
) -> tuple[list[str], dict[str, Any]]:
    """The lines of failures and the verdict on two GPUs, with programs that print these texts."""
    module = load_module(FILE)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.setattr(
        module, "_TOOLS", {name: (line, 60 if programs.get(name) else 1) for name, (line, _) in module._TOOLS.items()}
    )
    for name, text in programs.items():
        fake_command(
            folder / "bin" / name, f"#!{sys.executable}\nimport time\nprint({text!r})\ntime.sleep({600 * (not text)})\n"
        )
    (folder / "results").mkdir()
    for where, earlier in (("host", ()), ("container", (str(folder / "results" / "n1-host.txt"),))):
        assert module.main(["tools", *earlier]) == 0
        (folder / "results" / f"n1-{where}.txt").write_text(capsys.readouterr().out)
    _, text = judged(folder / "results", {"n1": json.dumps(healthy("n1", 2))}, 2, capsys)
    verdict: dict[str, Any] = json.loads((folder / "results" / "verdict.json").read_text())
    return [line for line in text.splitlines() if "FAILED" in line], verdict


OUTPUTS = Path(__file__).parent / "gpu_burn"


@pytest.mark.parametrize(("name", "failures"), [("as-they-are", []), ("loaded", [
    "FAILED n1: GPU 1 (GPU-n1-1): 28.1158 GB/s from the host, 49 % below 55.3251 of its peers",
])])  # fmt: skip
def test_a_slow_path_to_the_host_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, failures: list[str]
) -> None:
    """Outputs of two H200; of the two directions only the loaded one was slow by more than 10 %."""
    text = (OUTPUTS / f"nvbandwidth-{name}.txt").read_text()
    found, verdict = with_tools(tmp_path, monkeypatch, capsys, nvbandwidth=text)
    assert found == failures
    assert verdict["peers"]["NVIDIA H200"]["to_gpus"] == pytest.approx(393, abs=2)
    assert verdict["unasked"] == {"dcgmi: not there": 1}


@pytest.mark.parametrize("diag", [DIAG_4, DIAG_3], ids=["DCGM 4", "DCGM 3"])
def test_failed_tests_of_dcgmi_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], diag: dict[str, Any]
) -> None:
    found, verdict = with_tools(tmp_path, monkeypatch, capsys, dcgmi=f"a warning\n{json.dumps(diag)}")
    of_node = ["FAILED n1: dcgmi diag: software failed. PCIe replays"] if diag is DIAG_4 else []
    test = "pcie" if diag is DIAG_4 else "PCIe"
    assert found == [*of_node, f"FAILED n1: GPU 1 (GPU-n1-1): dcgmi diag: {test} failed. PCIe replays"]
    assert verdict["unasked"] == {"nvbandwidth: not there": 1}


@pytest.mark.parametrize(
    ("programs", "unasked"),
    [
        ({}, {"nvbandwidth: not there", "dcgmi: not there"}),
        ({"nvbandwidth": "no JSON", "dcgmi": ""}, {"nvbandwidth: no JSON", "dcgmi: did not end in 1 s"}),
        ({"nvbandwidth": '{"nvbandwidth": {"error": "CUDA error"}}',
          "dcgmi": '{"DCGM Diagnostic": {"runtime_error": "no permission"}}'},
         {"nvbandwidth: CUDA error", "dcgmi: no permission"}),
    ],
    ids=["absent", "no answer", "errors"],
)  # fmt: skip
def test_programs_that_cannot_run_accuse_no_gpu(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    programs: dict[str, str],
    unasked: set[str],
) -> None:
    found, verdict = with_tools(tmp_path, monkeypatch, capsys, **programs)
    assert (found, set(verdict["unasked"])) == ([], unasked)


def test_a_node_whose_programs_hang_is_not_without_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n1-host.txt").write_text("# srun ended with status 124\n")
    judged(tmp_path, {"n1": json.dumps(healthy("n1", 2))}, 2, capsys)
    unasked = json.loads((tmp_path / "verdict.json").read_text())["unasked"]
    said = "did not answer: # srun ended with status 124"
    assert unasked == {f"nvbandwidth: {said}": 1, f"dcgmi: {said}": 1}


def test_no_gpu_and_no_torch_are_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = load_module(FILE)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert module.main(["measure"]) == 1
    assert json.loads(capsys.readouterr().out) == {"error": "nvidia-smi is missing: no GPU, or no driver"}
    monkeypatch.setitem(sys.modules, "torch", None)
    assert module.main(["worker"]) == 1
    assert "has no torch" in capsys.readouterr().out


class Nvml:
    """A stand-in of libnvidia-ml.so.1 with an Xid 79 of the second GPU."""

    def __init__(self) -> None:
        self.left = [(2, 79)]

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return 0

    def nvmlEventSetCreate(self, _set: object) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, device: Any) -> int:  # noqa: N802, ANN401
        device._obj.value = int(uuid[-1:])
        return 0

    def nvmlDeviceRegisterEvents(self, device: Any, kinds: Any, _set: object) -> int:  # noqa: N802, ANN401
        return 0 if kinds.value == 8 and device.value < 3 else 3

    def nvmlEventSetWait_v2(self, _set: object, event: Any, _ms: int) -> int:  # noqa: N802, ANN401
        if not self.left:
            return 10
        event._obj.device, event._obj.data = self.left.pop()
        return 0


def test_xid_errors_come_from_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load_module(FILE)
    monkeypatch.setattr(module.ctypes, "CDLL", lambda _: Nvml())
    assert module.Xids(("GPU-1", "GPU-2", "GPU-3")).read() == {"GPU-1": [], "GPU-2": [79]}
    monkeypatch.undo()
    assert module.Xids(("GPU-1",)).read() == {}


def healthy(node: str, number: int = 8, **more: object) -> dict[str, Any]:
    clean = {"celsius": 61.0, "watts": 698.0, "mhz": 1400.0, "reasons": {"power cap": 100}, "xids": [], "wrong": 0}
    clean |= {"uncorrected": [0, 0], "remapped": [0, 0], "remap_failed": [0, 0], "tflops": 700.0, "gb_s": 4000.0}
    clean |= {"lowest_tflops": 690.0, "lowest_gb_s": 3990.0, "name": "NVIDIA H200"}
    gpus = [{**clean, "index": str(index), "uuid": f"GPU-{node}-{index}"} for index in range(number)]
    gpus[0] |= more
    return {"gpus": gpus}


def test_nodes_without_an_answer_and_slow_ones_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = {f"n{number}": json.dumps(healthy(f"n{number}")) for number in range(4)}
    assert judged(tmp_path, nodes, 8, capsys)[0]
    nodes |= {
        "n1": json.dumps(healthy("n1", tflops=629.0, xids=[79, 79], celsius=None, reasons={"power brake": 5})),
        "n2": json.dumps(healthy("n2", 7)),
    }
    nodes |= {"n3": "", "n4": "srun: error: timeout\n# srun ended with status 124\n"}
    nodes |= dict.fromkeys(("n5", "n6"), json.dumps({"error": "python3 has no torch"}))
    passed, text = judged(tmp_path, nodes, 8, capsys)
    assert not passed
    assert [line for line in text.splitlines() if "FAILED" in line] == [
        "FAILED n2: 7 of 8 GPUs",
        "FAILED n3: did not answer",
        "FAILED n4: did not answer: # srun ended with status 124",
        "FAILED n5 n6: python3 has no torch",
        "FAILED n1: GPU 0 (GPU-n1-0): 629 TFLOP/s, 10 % below 700 of its peers; "
        "throttled by power brake in 5 % of the readings, at most None °C; Xid 79",
    ]


def test_a_node_with_a_slow_nvlink_is_named() -> None:
    module = load_module(FILE)
    nodes = {f"n{number}": {**healthy(f"n{number}"), "all_reduce": 470.0} for number in range(3)}
    nodes["n1"]["all_reduce"], nodes["n2"]["all_reduce"] = 400.0, None
    found = module.judge(nodes, 8)
    assert [(fault["nodes"], fault["text"]) for fault in found["faults"]] == [
        (["n1"], "400 GB/s of all_reduce on the node, 15 % below 470 of its peers"),
        (["n2"], "no figure of all_reduce among its GPUs, or wrong values"),
    ]
    assert not found["passed"]
