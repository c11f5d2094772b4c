"""The laboratory's dcgm-exporter serves the lines of the genuine one (dcgm.json), for the counters of our nodes."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from local.slurm import make
from local.slurm.files import write_node
from settings import load

ROOT = Path(__file__).resolve().parents[2]
FACTS = json.loads((Path(__file__).parent / "dcgm.json").read_text())
COUNTERS = ROOT / "cluster_assets" / "monitoring" / "dcgm-counters.csv"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What it serves on a P5 whose GPU 1 has job 7 and whose GPU 2 has the jobs 8 and 9."""
    plan = make(load(ROOT / "environments" / "local.yaml"), nodes=1)
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "group", "shadow"):
        (tmp_path / "etc" / name).touch()
    write_node(plan, plan.compute[0], tmp_path / "node", base=tmp_path, group="", controllers=())
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/1").write_text("7\n")
    (tmp_path / "jobs/2").write_text("8\n9\n")
    loader = SourceFileLoader("dcgm_exporter", str(ROOT / "local/slurm/figures/dcgm-exporter"))
    spec = importlib.util.spec_from_loader("dcgm_exporter", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader.exec_module(module)
    monkeypatch.setattr(module, "GPUS", tmp_path / "node/files/etc/lab/gpus.json")
    monkeypatch.setenv("DCGM_HPC_JOB_MAPPING_DIR", str(tmp_path / "jobs"))
    text: str = module.page(module.counters(COUNTERS))
    return text


def test_lines_are_those_of_the_genuine_one(page: str) -> None:
    names = [line[0] for line in csv.reader(COUNTERS.read_text().splitlines()) if not line[0].startswith("#")]
    samples = re.findall(r"^(\w+)\{(.*)\} [-\d.e+]+$", page, re.MULTILINE)
    assert [name for name, _ in samples] == [name for name in names for _ in range(9)]
    assert {tuple(re.findall(r'(\w+)="', labels)) for _, labels in samples} == {
        tuple(FACTS["labels"]),
        (*FACTS["labels"], FACTS["job_label"]),
    }
    assert re.findall(r"^# (?:HELP|TYPE) (\w+)", page, re.MULTILINE) == [name for name in names for _ in range(2)]
    assert len(page.splitlines()) == len(names) * 11


def test_gpus_of_jobs_are_used(page: str) -> None:
    found = re.findall(r'^DCGM_FI_DEV_GPU_UTIL\{gpu="(\d)".*?(?:hpc_job="(\d)")?\} (\d+)$', page, re.MULTILINE)
    busy = [("1", "7", "95"), ("2", "8", "95"), ("2", "9", "95")]
    assert found == [("0", "", "0"), *busy, *((str(gpu), "", "0") for gpu in range(3, 8))]
    assert "(simulated)" in page
