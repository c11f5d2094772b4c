"""The checks that an environment gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ops.validation.command import selection_of
from ops.validation.plan import (
    BURN,
    GPUS,
    HELLO,
    NCCL,
    NODE_MINUTES,
    NODE_SCAN,
    PAIRS,
    S3,
    STORAGE,
    Job,
    Planner,
    Selection,
    at_most,
)
from ops.validation.report import HEAD_SCAN, Line, Outcome
from settings import Environment, environment_file, load
from settings.model.cluster import Queue
from tests.ops.validation.fakes import request_handler

LOCAL, JAKARTA = load(environment_file("local")), load(environment_file("jakarta-80xp5e"))


def planned(
    environment: Environment,
    programs: tuple[str, ...] = ("fio", "nccl-tests"),
    **selection: Any,  # noqa: ANN401 - its fields
) -> tuple[list[Job], list[Line]]:
    return Planner(environment, Selection(**selection), programs, ("pytorch",)).plan()


def with_queues(*queues: Queue) -> Environment:
    return LOCAL.model_copy(update={"cluster": LOCAL.cluster.model_copy(update={"queues": queues})})


def test_local_gets_every_check() -> None:
    jobs, left_out = planned(LOCAL)
    assert not left_out
    assert [(job.check, job.place.name, job.place.nodes) for job in jobs] == [
        (HEAD_SCAN, "head node", 1),
        *((check, "gpu/p5", 2) for check in (NODE_SCAN, HELLO, GPUS, NCCL, STORAGE, S3)),
        (NODE_SCAN, "cpu/c7i", 2),
        (S3, "cpu/c7i", 2),
    ]
    # The head node knows every job and option.
    jobs += planned(JAKARTA, image="x", nodes=1024)[0]
    jobs += Planner(LOCAL, Selection((S3,)), (), emulated=True).plan()[0]
    assert {job.kind.job for job in jobs if job.kind.job} == set(request_handler.CHECKS)
    assert {word for job in jobs for word in job.options[::2]} <= set(request_handler.OPTIONS)


def test_storage_test_has_the_provisioned_throughput() -> None:
    jobs, _ = planned(JAKARTA, checks=(STORAGE,))
    assert {job.mount: job.mb_s for job in jobs} == {
        one.mount: one.capacity_gib * one.throughput // 1000 for one in JAKARTA.storage.lustre
    }
    # The faster the file system, the more is written.
    jobs.sort(key=lambda job: job.mb_s)
    segments = [int(job.options[job.options.index("--segments") + 1]) for job in jobs]
    assert segments == sorted(segments) and all(4 <= number <= 100 for number in segments)


@pytest.mark.parametrize(
    ("nodes", "clients"), [(1, None), (2, None), (3, "1,3"), (4, "1,2,4"), (9, "1,4,9"), (1024, "1,40,80")]
)
def test_storage_test_of_many_nodes_shows_where_the_scaling_stops(nodes: int, clients: str | None) -> None:
    jobs, _ = planned(JAKARTA, checks=(STORAGE,), nodes=nodes)
    options = [dict(zip(job.options[::2], job.options[1::2], strict=True)) for job in jobs]
    assert {one.get("--clients") for one in options} == {clients}


@pytest.mark.parametrize(
    ("environment", "most", "nodes"), [(JAKARTA, 2, 2), (JAKARTA, 10, 10), (LOCAL, 10, 2)], ids=["2", "10", "all"]
)
def test_number_of_nodes(environment: Environment, most: int, nodes: int) -> None:
    jobs, _ = planned(environment, nodes=most)
    assert {job.place.nodes for job in jobs if job.place.name.startswith("gpu")} == {nodes}


def test_without_gpus_the_report_names_what_was_skipped() -> None:
    jobs, left_out = planned(with_queues(LOCAL.cluster.queues[1]))
    assert [(job.check, job.place.name) for job in jobs[1:]] == [
        (check, "cpu/c7i") for check in (NODE_SCAN, STORAGE, S3)
    ]
    assert [(line.check, line.outcome, line.found) for line in left_out] == [
        (check, Outcome.SKIPPED, "no queue has GPUs") for check in (HELLO, GPUS, NCCL)
    ]


@pytest.mark.parametrize("name", ["staging", "prod", "jakarta-80xp5e"])
def test_the_gates_of_gpus_that_cost_most_measure(name: str) -> None:
    """Their files require NCCL and storage, from an image that the environment's repository holds."""
    environment = load(environment_file(name))
    file = environment.validation
    assert file.image and set(file.required) == {NCCL, STORAGE} and environment.images.repositories
    wanted = selection_of(file, only=None, skip=(), nodes=2, image="", storage_percent=80, drain=False)
    jobs, left_out = Planner(environment, wanted, (), (file.image,)).plan()
    assert not left_out
    measuring = [job for job in jobs if job.check in (NCCL, STORAGE)]
    assert {job.options[:2] for job in measuring} == {("--image", file.image)}
    assert all(job.required for job in measuring)
    # Without the image, where nothing is installed, the gate fails.
    lines = Planner(environment, replace(wanted, image=""), ()).plan()[1]
    assert {(line.check, line.outcome) for line in lines} == {(NCCL, Outcome.FAILED), (STORAGE, Outcome.FAILED)}


def test_all_nodes_of_jakarta_work_for_thirty_minutes_at_most_apart_from_storage() -> None:
    wanted = selection_of(
        JAKARTA.validation, only=None, skip=(STORAGE,), nodes=1024, image="", storage_percent=80, drain=False
    )
    prices = {"p5e.48xlarge": 100.0}
    jobs, _ = Planner(JAKARTA, wanted, (), ("pytorch",), prices.get).plan()
    assert {job.check for job in jobs} == {HEAD_SCAN, NODE_SCAN, HELLO, GPUS, BURN, PAIRS, NCCL, S3}
    gpus, cpus = at_most(jobs)
    assert str(gpus) == "gpu-queue/p5e: 40.00 node hours of p5e.48xlarge, $4,000.00"
    assert round(gpus.node_hours, 6) <= 80 * 30 / 60 and NODE_MINUTES == 30
    assert str(cpus) == "cpu/m7i: 0.33 node hours of m7i.2xlarge, price unknown"
    # Even if the checks before it take their whole time, the measurement of pairs can begin.
    before = [job.minutes for job in jobs if job.place.gpus and job.check not in (PAIRS, NCCL, S3)]
    assert sum(before) < NODE_MINUTES
    # Storage comes in addition, on its own nodes.
    storage, _ = Planner(JAKARTA, replace(wanted, checks=(STORAGE,)), (), ("pytorch",), prices.get).plan()
    of_storage = sum(job.place.nodes * job.minutes / 60 for job in storage)
    assert at_most([*jobs, *storage])[0].node_hours == pytest.approx(40 + of_storage)


@pytest.mark.parametrize(
    ("capacity", "types", "hourly"),
    [
        ("on-demand", ("a.1", "a.2"), 2.0),
        ("odcr", ("a.1",), 1.0),
        ("on-demand", ("a.1", "a.3"), None),
        ("spot", ("a.1",), None),
        ("capacity-block", ("a.1",), None),
    ],
)
def test_price_of_a_node(capacity: str, types: tuple[str, ...], hourly: float | None) -> None:
    """The dearest type; unknown if one is, or if the price is not the one on demand."""
    queue = LOCAL.cluster.queues[1]
    queue = queue.model_copy(
        update={
            "capacity": queue.capacity.model_copy(update={"type": capacity}),
            "compute": (queue.compute[0].model_copy(update={"instance_types": types}),),
        }
    )
    environment = with_queues(queue)
    jobs, _ = Planner(environment, Selection((NODE_SCAN,)), (), price={"a.1": 1.0, "a.2": 2.0}.get).plan()
    assert jobs[0].place.hourly == hourly


@pytest.mark.parametrize("check", [NCCL, STORAGE])
def test_programs_are_missing(check: str) -> None:
    _, [line] = planned(LOCAL, (), checks=(check,))
    assert line.outcome is Outcome.SKIPPED
    assert "--image NAME" in line.action and "imported are pytorch" in line.action
    _, [line] = planned(LOCAL, (), checks=(check,), required=(check,))
    assert line.outcome is Outcome.FAILED
    [job], left_out = planned(LOCAL, (), checks=(check,), image="pytorch")
    assert not left_out and job.options[:2] == ("--image", "pytorch")


@pytest.mark.parametrize("program", ["nccl-tests", "torch"])
def test_nccl_is_asked_with_either_engine(program: str) -> None:
    [job], left_out = planned(LOCAL, (program,), checks=(NCCL,))
    assert (job.check, job.options, left_out) == (NCCL, (), [])


@pytest.mark.parametrize(
    ("programs", "selection", "nodes", "options"),
    [
        (("torch",), {"nodes": 1024}, 80, ()),
        ((), {"nodes": 5, "image": "pytorch"}, 5, ("--image", "pytorch")),
        (("torch",), {"required": (BURN,)}, 80, ()),
    ],
    ids=["all nodes", "some nodes, image", "named: all nodes"],
)
def test_gpu_burn(programs: tuple[str, ...], selection: dict[str, Any], nodes: int, options: tuple[str, ...]) -> None:
    [job, *_], left_out = planned(JAKARTA, programs, checks=(BURN,), **selection)
    assert not left_out
    assert (job.check, job.kind.job, job.place.nodes, job.options) == (BURN, "gpu-burn", nodes, options)


def test_gpu_burn_is_skipped() -> None:
    for required, outcome in (((), Outcome.SKIPPED), ((BURN,), Outcome.FAILED)):
        jobs, [line, *_] = Planner(JAKARTA, Selection((BURN,), required, nodes=3), ()).plan()
        found = "no torch on the nodes, and no --image was given"
        assert (jobs, line.outcome, line.found) == ([], outcome, found)
    assert planned(JAKARTA, ("torch",), checks=(BURN,)) == ([], [])


def test_emulated_aws_measures_tcp_and_has_torch_on_its_nodes_only() -> None:
    wanted = Selection((BURN, PAIRS), nodes=3, image="training")
    jobs, _ = Planner(JAKARTA, wanted, ("torch", "nccl-tests"), emulated=True).plan()
    assert {(job.check, job.options) for job in jobs} == {(BURN, ()), (PAIRS, ("--measure", "tcp"))}


@pytest.mark.parametrize(
    ("programs", "selection", "nodes", "options", "minutes"),
    [
        ((), {"nodes": 1024}, 80, ("--measure", "tcp"), 9),
        (("torch",), {"nodes": 5}, 5, ("--measure", "nccl"), 13),
        ((), {"nodes": 1024, "image": "pytorch"}, 80, ("--image", "pytorch", "--measure", "nccl"), 29),
        (("nccl-tests",), {"required": (PAIRS,)}, 80, ("--measure", "nccl"), 29),
    ],
    ids=["no programs", "some nodes", "image", "named: all nodes"],
)
def test_pairs(
    programs: tuple[str, ...], selection: dict[str, Any], nodes: int, options: tuple[str, ...], minutes: int
) -> None:
    [job, *_], left_out = planned(JAKARTA, programs, checks=(PAIRS,), **selection)
    assert (job.place.nodes, job.options, job.minutes, left_out) == (nodes, options, minutes, [])


@pytest.mark.parametrize(
    ("selection", "outcomes"),
    [({}, []), ({"nodes": 1024}, [Outcome.SKIPPED]), ({"required": (PAIRS,)}, [Outcome.FAILED])],
    ids=["not asked for", "all", "named"],
)
def test_two_nodes_have_no_peers(selection: dict[str, Any], outcomes: list[Outcome]) -> None:
    jobs, left_out = planned(LOCAL, checks=(PAIRS,), **selection)
    assert not jobs and [line.outcome for line in left_out] == outcomes
    assert all(line.found == "2 nodes: a slow one has no peers to compare it with" for line in left_out)


def test_compute_resources_of_one_queue_are_selected_by_feature() -> None:
    gpu = LOCAL.cluster.queues[0]
    other = gpu.compute[0].model_copy(update={"name": "p5en", "instance_types": ("p5en.48xlarge",), "max": 1})
    jobs, _ = planned(with_queues(gpu.model_copy(update={"compute": (*gpu.compute, other)})), checks=(HELLO, NCCL))
    assert [(job.check, job.place.feature, job.place.nodes) for job in jobs] == [
        (HELLO, "p5", 2), (NCCL, "p5", 2), (HELLO, "p5en", 1), (NCCL, "p5en", 1),
    ]  # fmt: skip
