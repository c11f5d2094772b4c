"""The Slurm exporter, against what Slurm 22.05.8 and 24.11.5 printed in the laboratory, and against bad answers.

The recorded jobs: ada's with a line break in its name that imitates another job, grace's with letters outside ASCII,
and an array that waits. One node is drained, two are powered down.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.jobs.conftest import ROOT, load_module
from tests.stubs import fake_command

MONITORING = ROOT / "cluster_assets" / "monitoring"
sys.path.insert(0, str(MONITORING))
import slurm_output  # noqa: E402 -- a program of the nodes

exporter: Any = load_module(MONITORING / "slurm-exporter.py")
RECORDED = sorted(Path(__file__).parent.glob("slurm-*"))
Samples = dict[str, dict[tuple[str, ...], float]]


@pytest.fixture(params=RECORDED, ids=lambda folder: folder.name)
def recorded(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands that print the files of the same folder."""
    return commands(request.param, tmp_path, monkeypatch)


@pytest.fixture
def newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As `recorded`, for what does not depend on Slurm's version."""
    return commands(RECORDED[-1], tmp_path, monkeypatch)


def commands(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("sinfo", "squeue", "sshare"):
        (folder / f"{name}.out").write_bytes((source / name).read_bytes())
        fake_command(folder / name, f"cat {folder}/{name}.out")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def record(fields: dict[str, int], **values: str) -> bytes:
    """One of sinfo's or squeue's records."""
    cells = [values.get(name, "").encode()[:width].ljust(width) for name, width in fields.items()]
    return b"".join(cells) + b"\n"


def samples(text: str) -> Samples:
    """The samples by series and label values, as the Prometheus project's own parser reads them."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            found.setdefault(one.name, {})[tuple(one.labels.values())] = one.value
    return found


@pytest.mark.usefixtures("recorded")
def test_nodes_and_jobs_of_a_real_slurm() -> None:
    slurm = exporter.Slurm()
    text = slurm.read()
    found = samples(text)
    states = {node: state for node, _, state in found["slurm_node_state"]}
    assert states == {
        **{f"cpu-dy-c7i-{n}": "powered_down" for n in (1, 2)},
        **{f"gpu-dy-p5-{n}": "allocated" for n in (1, 2, 3)},
        "gpu-dy-p5-4": "drained",
    }
    assert list(found["slurm_node_reason"]) == [("gpu-dy-p5-4", "gpu", 'GPU 3: Xid 79 | "fallen off')]
    assert found["slurm_node_gpus"]["gpu-dy-p5-1", "gpu"] == 8 and found["slurm_node_gpus"]["cpu-dy-c7i-1", "cpu"] == 0
    assert found["slurm_node_gpus_allocated"]["gpu-dy-p5-3", "gpu"] == 8
    assert found["slurm_jobs"] == {
        ("gpu", "running", "", "ada"): 1,
        ("gpu", "running", "", "grace"): 1,
        ("gpu", "pending", "", "ada"): 3,
    }
    # The name of job 1 is "evil\n999999|root|x".
    assert list(found["slurm_job_info"]) == [
        ("1", "evil 999999|root|x", "ada", "", "gpu", "llama-8b"),
        ("2", "naïve|pipe äöü", "grace", "", "gpu", ""),
    ]
    assert list(found["slurm_job_node"]) == [("1", "gpu-dy-p5-1"), ("1", "gpu-dy-p5-2"), ("2", "gpu-dy-p5-3")]
    assert found["slurm_job_gpus"] == {("1",): 16, ("2",): 8}
    assert found["slurm_job_time_limit_seconds"] == {("1",): 7200, ("2",): 3 * 86400}
    assert all(value > 1.7e9 for value in found["slurm_job_start_time_seconds"].values())
    assert found["slurm_job_wait_seconds"].keys() == {("4", "gpu", "ada", "")}
    assert found["slurm_fair_share"].keys() == {("root", "root")}
    assert found["slurm_exporter_jobs_omitted"] == {(): 0}


def test_series_are_those_of_the_documentation_and_of_the_table(newest: Path) -> None:
    """The table is what dashboards and alerts may use."""
    page = (ROOT / "docs" / "observability.md").read_text("utf-8")
    table = json.loads((Path(__file__).parent / "series.json").read_text())["series"]
    (newest / "7.0.json").write_text(json.dumps(dict.fromkeys(exporter.FIGURES, 1) | {"ranks": {"0": [1, ""]}}))
    text = exporter.Slurm().read() + exporter.training(newest, [JOB]) + "slurm_up 1\n"  # the server's
    found = {one.name: {*one.labels} for family in text_string_to_metric_families(text) for one in family.samples}
    assert found == {name: {*one["labels"]} for name, one in table.items() if one["source"] == "slurm-exporter"}
    for name, labels in found.items():
        [written] = re.findall(rf"^\| `{name}(?:{{(.*)}})?` \|", page, re.MULTILINE)
        assert labels == {*filter(None, written.split(","))}, name


@pytest.mark.usefixtures("recorded")
def test_targets_are_the_nodes_that_are_up() -> None:
    slurm = exporter.Slurm()
    slurm.read()
    found = {(one["labels"]["node"], one["labels"]["job"]): one for one in slurm.targets("10.0.16.10")}
    up = ("gpu-dy-p5-1", "gpu-dy-p5-2", "gpu-dy-p5-3", "gpu-dy-p5-4")
    assert found.keys() == {("head", "node"), ("head", "slurm"), *((n, j) for n in up for j in ("node", "dcgm"))}
    assert found["gpu-dy-p5-2", "dcgm"] == {
        "targets": ["10.0.17.3:9400"],
        "labels": {"node": "gpu-dy-p5-2", "queue": "gpu", "job": "dcgm"},
    }
    assert found["head", "slurm"]["targets"] == ["10.0.16.10:9101"]


def test_without_gpus_in_tres_the_nodes_count(newest: Path) -> None:
    """ParallelCluster does not set AccountingStorageTRES. Two jobs on one node: unknown."""
    squeue = (newest / "squeue.out").read_bytes().replace(b",gres/gpu=16", b" " * 12).replace(b",gres/gpu=8", b" " * 11)
    (newest / "squeue.out").write_bytes(squeue)
    assert samples(exporter.Slurm().read())["slurm_job_gpus"] == {("1",): 16, ("2",): 8}
    also = record(slurm_output.JOB, JobID="9", State="RUNNING", NodeList="gpu-dy-p5-3", UserID="1", PendingTime="0")
    (newest / "squeue.out").write_bytes(squeue + also)
    assert samples(exporter.Slurm().read())["slurm_job_gpus"] == {("1",): 16}


@pytest.mark.parametrize("output", ["echo garbage", "printf 'a%.0s' $(seq 900)", "exit 1", "echo; echo; exit 0"])
def test_a_broken_answer_is_refused(newest: Path, output: str) -> None:
    for name in ("sinfo", "squeue"):
        fake_command(newest / name, output)
        with pytest.raises((ValueError, subprocess.SubprocessError)):
            exporter.Slurm().read()


@pytest.mark.parametrize("output", ["exit 1", "echo '|||'; echo x; printf '\\377|a|b\\n'", "echo 'a|b|nan'"])
def test_without_shares_the_rest_is_there(newest: Path, output: str) -> None:
    fake_command(newest / "sshare", output)
    found = samples(exporter.Slurm().read())
    assert "slurm_fair_share" not in found and found["slurm_node_state"]


def big(folder: Path, nodes: int, jobs: int) -> None:
    """Write the records of a large cluster."""
    names = [f"gpu-st-p5e-{n}" for n in range(1, nodes + 1)]
    node = {"StateComplete": "mixed+cloud", "Gres": "gpu:h200:8", "GresUsed": "gpu:h200:4(IDX:0-3)", "Reason": "none"}
    rows = [
        record(slurm_output.NODE, NodeList=name, PartitionName=queue, NodeAddr=f"10.0.0.{n}", **node)
        for n, name in enumerate(names)
        for queue in ("all", "gpu")
    ]
    (folder / "sinfo.out").write_bytes(b"".join(rows))
    job = {"UserName": "ada", "UserID": "1", "Account": "a", "Partition": "gpu", "TimeLimit": "1:00:00", "Name": "n"}
    rows = [
        record(
            slurm_output.JOB,
            JobID=str(n),
            State="RUNNING" if n % 2 else "PENDING",
            PendingTime=str(n),
            StartTime="5",
            NodeList=names[n % nodes] if n % 2 else "",
            **job,
        )
        for n in range(jobs)
    ]
    (folder / "squeue.out").write_bytes(b"".join(rows))


def test_a_large_cluster(newest: Path) -> None:
    big(newest, 80, 500)
    found = samples(exporter.Slurm().read())
    # In two partitions, and counted once, for the queue that ParallelCluster named it after.
    assert len(found["slurm_node_state"]) == 80 and {queue for _, queue, _ in found["slurm_node_state"]} == {"gpu"}
    assert len(found["slurm_job_info"]) == 250 == len(found["slurm_job_wait_seconds"])


def test_no_more_jobs_than_prometheus_takes(newest: Path) -> None:
    big(newest, 4, 2 * exporter.MOST_JOBS + 100)
    found = samples(exporter.Slurm().read())
    assert len(found["slurm_job_info"]) == exporter.MOST_JOBS == len(found["slurm_job_wait_seconds"])
    assert found["slurm_exporter_jobs_omitted"] == {(): 100}
    assert min(found["slurm_job_wait_seconds"].values()) == 100  # those that waited longest
    assert sum(found["slurm_jobs"].values()) == 2 * exporter.MOST_JOBS + 100


def test_100_000_waiting_tasks_are_100_records(newest: Path) -> None:
    """With `squeue --array` they were 100,000 records, and the service was killed for its memory."""
    pending = {"State": "PENDING", "PendingTime": "5", "UserID": "1", "Partition": "cpu"}
    rows = [record(slurm_output.JOB, JobID=str(n), ArrayTaskID="0-999%4", **pending) for n in range(100)]
    (newest / "squeue.out").write_bytes(b"".join(rows))
    fake_command(newest / "squeue", f'echo "$*" >{newest}/words; cat {newest}/squeue.out')
    found = samples(exporter.Slurm().read())
    assert found["slurm_jobs"] == {("cpu", "pending", "", ""): 100_000} and len(found["slurm_job_wait_seconds"]) == 100
    assert "--array" not in (newest / "words").read_text()
    counts = {"N/A": 1, "": 1, "7": 1, "0-8:2": 5, "0-2,7,9-10%1": 6, "[0-3]": 4}
    assert {text: slurm_output.tasks(text) for text in counts} == counts


def test_the_largest_jobs_have_series(newest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MOST_JOBS", 2)
    running = {"State": "RUNNING", "UserID": "1", "StartTime": "5"}
    places = {"1": "cpu-dy-c7i-1", "2": "cpu-dy-c7i-1", "3": "cpu-dy-c7i-1", "8": "gpu-dy-p5-1", "9": "gpu-dy-p5-[2-3]"}
    rows = [record(slurm_output.JOB, JobID=job, NodeList=nodes, **running) for job, nodes in places.items()]
    (newest / "squeue.out").write_bytes(b"".join(rows))
    found = samples(exporter.Slurm().read())
    assert [job for job, *_ in found["slurm_job_info"]] == ["9", "8"]
    assert found["slurm_exporter_jobs_omitted"] == {(): 3}


# --- the text of users


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("idle", "idle"),
        ("IDLE+CLOUD+POWERED_DOWN", "powered_down"),
        ("allocated+powering_up+not_responding", "powering_up"),
        ("idle+cloud+power_down", "powering_down"),
        ("down*+cloud+drain", "down"),
        ("mixed+drain", "draining"),
        ("idle+completing+drain", "draining"),
        ("idle+completing", "completing"),
        ("idle+drain+maint", "drained"),
        ("idle+maint+reserved", "maint"),
        ("allocated+cloud+not_responding", "not_responding"),
        ("idle+cloud+drain+not_responding", "drained"),
        ("down+cloud+not_responding", "down"),
        ("idle+fail", "fail"),
        ("mixed-", "mixed"),
    ],
)
def test_states(output: str, expected: str) -> None:
    assert slurm_output.state_of(output) == expected


def test_host_lists_limits_and_gpus() -> None:
    assert list(slurm_output.hosts("a-[1-2,09-10],b,c-[1-2]-[3,4]")) == [
        *("a-1", "a-2", "a-09", "a-10", "b", "c-1-3", "c-1-4", "c-2-3", "c-2-4"),
    ]
    assert list(slurm_output.hosts("")) == [] == list(slurm_output.hosts("a-[x-y]")) and not slurm_output.gpus("")
    limits = {"30:00": 1800, "2:00:00": 7200, "1-02:03:04": 93784, "UNLIMITED": None, "": None}
    assert {text: slurm_output.seconds(text) for text in limits} == limits
    gres = {"gpu:8": 8, "gpu:h100:2(S:0-1),gpu:a100:1": 3, "gpu:h100:0(IDX:N/A)": 0, "(null)": 0, "craynetwork:4": 0}
    assert {text: slurm_output.gpus(text) for text in gres} == gres


def test_labels_stay_labels() -> None:
    page = exporter.Page()
    hostile = 'a"} 1\nslurm_up{x="\\ \x00\x1b\u2028' + "z" * 300
    page.add("slurm_job_info", 1, name=hostile)
    [(shown,)] = samples(page.text())["slurm_job_info"]
    assert shown.startswith('a"} 1 slurm_up{x="\\ ') and len(shown) == exporter.MOST_TEXT and shown.isprintable()


JOB = {"JobID": "7", "UserID": str(os.getuid()), "NodeList": "gpu-dy-p5-[1-2]", "StartTime": "1000"}


def test_training_figures(tmp_path: Path) -> None:
    (tmp_path / "7.0.json").write_text(
        json.dumps(
            {
                "step": 12, "steps_per_second": 0.5, "loss": 2.25, "tokens_per_second": 1e6, "mfu": 0.41,
                "last_step_time": 1.8e9, "other": 1, "ranks": {"0": [12, "gpu-dy-p5-1"], "9": [11, "gpu-dy-p5-2"]},
            }
        )
    )  # fmt: skip
    found = samples(exporter.training(tmp_path, [JOB]))
    assert found == {
        "training_step": {("7",): 12}, "training_steps_per_second": {("7",): 0.5}, "training_loss": {("7",): 2.25},
        "training_tokens_per_second": {("7",): 1e6}, "training_mfu_ratio": {("7",): 0.41},
        "training_last_step_time_seconds": {("7",): 1.8e9},
        "training_rank_step": {("7", "0", "gpu-dy-p5-1"): 12, ("7", "9", "gpu-dy-p5-2"): 11},
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "{", "\xff", '{"step": 1e999, "loss": NaN, "mfu": true, "tokens_per_second": "5"}',
        '{"step": [1], "ranks": []}', '{"ranks": {"0": 1, "1": [1], "x\\n": [1, ""], "-1": [2, ""], "2": [null, ""]}}',
        "[" * 100_000, '{"step": ' + "1" * 400 + "}", '{"step": 1, "x": "' + "y" * exporter.MOST_BYTES + '"}',
    ],
    ids=range(11),
)  # fmt: skip
def test_a_bad_file_adds_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "7.0.json").write_text(text, "latin-1")
    assert exporter.training(tmp_path, [JOB]) == ""


def test_a_file_speaks_for_its_owner_and_its_nodes_only(tmp_path: Path) -> None:
    good = '{"step": 1, "ranks": {"0": [1, "cpu-dy-c7i-1"], "1": [1, 5]}}'
    (tmp_path / "7.0.json").write_text(good)
    found = samples(exporter.training(tmp_path, [JOB]))
    assert found["training_rank_step"] == {("7", "0", ""): 1, ("7", "1", ""): 1}  # not a node of the job
    assert exporter.training(tmp_path, [{**JOB, "UserID": str(os.getuid() + 1)}]) == ""
    (tmp_path / "target").write_text(good)
    (tmp_path / "8.0.json").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "9.0.json")
    (tmp_path / "10.0.json").mkdir()
    assert exporter.training(tmp_path, [{**JOB, "JobID": n} for n in ("8", "9", "10", "11")]) == ""
    assert exporter.training(tmp_path / "absent", [JOB]) == ""


def test_ranks_are_limited_for_all_jobs_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus would refuse the whole answer."""
    monkeypatch.setattr(exporter, "MOST_RANKS", 5)
    for job in ("7", "8", "9"):
        (tmp_path / f"{job}.0.json").write_text(json.dumps({"ranks": {str(rank): [1, ""] for rank in range(3)}}))
    found = samples(exporter.training(tmp_path, [{**JOB, "JobID": job} for job in ("7", "8", "9")]))
    assert [key[:2] for key in found["training_rank_step"]] == [
        ("7", "0"),
        ("7", "1"),
        ("7", "2"),
        ("8", "0"),
        ("8", "1"),
    ]


def test_a_job_has_no_more_ranks_than_its_nodes_can_run(tmp_path: Path) -> None:
    (tmp_path / "7.0.json").write_text(json.dumps({"ranks": {str(rank): [1, ""] for rank in range(9999)}}))
    found = samples(exporter.training(tmp_path, [{**JOB, "NodeList": "cpu-1"}]))
    assert len(found["training_rank_step"]) == exporter.MOST_OF_NODE


def test_the_newest_file_since_the_start_counts(tmp_path: Path) -> None:
    """An attempt that was killed leaves its file, under the same number of the job."""
    for name, step, at in (("7.a", 1, 900), ("7.b", 2, 2000), ("7.c", 3, 1500), ("7", 4, 3000)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"step": step}))
        os.utime(tmp_path / f"{name}.json", (at, at))
    (tmp_path / "7.json").rename(tmp_path / "70.x.json")
    assert samples(exporter.training(tmp_path, [JOB])) == {"training_step": {("7",): 2}}
    assert exporter.training(tmp_path, [{**JOB, "StartTime": "2500"}]) == ""


# --- serving


@pytest.fixture
def address(newest: Path) -> Iterator[tuple[str, int]]:
    """The exporter as a process, on a free port, with readings in quick succession, while sinfo fails."""
    fake_command(newest / "sinfo", "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1")
    words = [sys.executable, "-u", str(MONITORING / "slurm-exporter.py"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*words, "--interval", "0.05", "--jobs", str(newest)], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout
        yield "127.0.0.1", int(run.stdout.readline().split(":")[2].split("/")[0])
        run.terminate()


def get(address: tuple[str, int], path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def until(address: tuple[str, int], path: str, wanted: str) -> str:
    """Ask until the answer contains a text."""
    limit = time.monotonic() + 120
    while wanted not in (answer := get(address, path)[1]):
        assert time.monotonic() < limit, answer
        time.sleep(0.02)
    return answer


def test_a_slurm_that_fails_hangs_and_returns(newest: Path, address: tuple[str, int]) -> None:
    """Each request is answered at once; targets and, for a time, the series stay those of the last reading."""
    good = f"cat {newest}/sinfo.out"
    assert get(address, "/metrics")[1] == "# TYPE slurm_up gauge\nslurm_up 0\n"
    assert get(address, "/targets")[0] == 503
    assert get(address, "/")[0] == 404
    fake_command(newest / "sinfo", good)
    assert samples(until(address, "/metrics", "slurm_up 1"))["slurm_node_state"]
    targets = json.loads(until(address, "/targets", "gpu-dy-p5-1"))
    fake_command(newest / "sinfo", "exec sleep 300")
    assert samples(until(address, "/metrics", "slurm_up 0"))["slurm_node_state"]
    assert json.loads(get(address, "/targets")[1]) == targets
    fake_command(newest / "sinfo", good)
    until(address, "/metrics", "slurm_up 1")


def test_an_old_reading_is_not_shown() -> None:
    """A command that does not even die leaves its thread waiting."""
    reading = exporter.Reading(lambda: "", 1)
    reading.answer = ("slurm_up 1\n", time.monotonic())
    assert reading.text()
    reading.answer = ("slurm_up 1\n", time.monotonic() - exporter.STALE_S - 1)
    assert not reading.text()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "--listen"),
        (["--listen", "9101"], "give ADDRESS:PORT"),
        (["--listen", "192.0.2.1:9101"], "cannot listen on 192.0.2.1:9101"),
        (["--listen", "127.0.0.1:99999"], "cannot listen on 127.0.0.1:99999"),
    ],
)
def test_bad_options(given: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        exporter.main(given)
    assert ended.value.code and reason in capsys.readouterr().err


def test_it_imports_the_standard_library_only() -> None:
    program = "import sys; sys.path.insert(0, sys.argv[1]); import slurm_output"
    subprocess.run([sys.executable, "-S", "-I", "-c", program, str(MONITORING)], check=True)
    subprocess.run([sys.executable, "-S", str(MONITORING / "slurm-exporter.py"), "--help"], check=True, stdout=-3)
