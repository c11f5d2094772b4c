"""The checks that an environment gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ops.validation.command import wishes
from ops.validation.plan import GPUS, HELLO, NCCL, NODE_SCAN, PAIRS, STORAGE, Job, Planner, Wishes
from ops.validation.report import HEAD_SCAN, Line, Outcome
from settings import Environment, environment_file, load
from settings.model.cluster import Queue
from tests.ops.validation.fakes import request_handler

LOCAL, JAKARTA = load(environment_file("local")), load(environment_file("jakarta-80xp5e"))


def planned(
    environment: Environment,
    programs: tuple[str, ...] = ("fio", "nccl-tests"),
    **wishes: Any,  # noqa: ANN401 - any wish
) -> tuple[list[Job], list[Line]]:
    return Planner(environment, Wishes(**wishes), programs, ("pytorch",)).plan()


def with_queues(*queues: Queue) -> Environment:
    return LOCAL.model_copy(update={"cluster": LOCAL.cluster.model_copy(update={"queues": queues})})


def test_local_gets_every_check() -> None:
    jobs, left_out = planned(LOCAL)
    assert not left_out
    assert [(job.check, job.place.name, job.place.nodes) for job in jobs] == [
        (HEAD_SCAN, "head node", 1),
        *((check, "gpu/p5", 2) for check in (NODE_SCAN, HELLO, GPUS, NCCL, STORAGE)),
        (NODE_SCAN, "cpu/c7i", 2),
    ]
    # The head node knows every job and option.
    jobs += planned(JAKARTA, image="x", nodes=1024)[0]
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
    ("environment", "most", "nodes"), [(JAKARTA, 2, 2), (JAKARTA, 10, 10), (LOCAL, 10, 2)], ids=["2", "10", "all"]
)
def test_number_of_nodes(environment: Environment, most: int, nodes: int) -> None:
    jobs, _ = planned(environment, nodes=most)
    assert {job.place.nodes for job in jobs if job.place.name.startswith("gpu")} == {nodes}


def test_without_gpus_the_report_names_what_was_not_asked() -> None:
    jobs, left_out = planned(with_queues(LOCAL.cluster.queues[1]))
    assert [(job.check, job.place.name) for job in jobs[1:]] == [(NODE_SCAN, "cpu/c7i"), (STORAGE, "cpu/c7i")]
    assert [(line.check, line.outcome, line.found) for line in left_out] == [
        (check, Outcome.NOT_ASKED, "no queue has GPUs") for check in (HELLO, GPUS, NCCL)
    ]


@pytest.mark.parametrize("name", ["staging", "prod", "jakarta-80xp5e"])
def test_the_gates_of_gpus_that_cost_most_measure(name: str) -> None:
    """Their files require NCCL and storage, from an image that the environment's repository holds."""
    environment = load(environment_file(name))
    file = environment.validation
    assert file.image and set(file.required) == {NCCL, STORAGE} and environment.images.repositories
    wanted = wishes(file, only=None, skip=(), nodes=2, image="", storage_percent=80, drain=False)
    jobs, left_out = Planner(environment, wanted, (), (file.image,)).plan()
    assert not left_out
    measuring = [job for job in jobs if job.check in (NCCL, STORAGE)]
    assert {job.options[:2] for job in measuring} == {("--image", file.image)}
    assert all(job.insisted for job in measuring)
    # Without the image, where nothing is installed, the gate fails.
    lines = Planner(environment, replace(wanted, image=""), ()).plan()[1]
    assert {(line.check, line.outcome) for line in lines} == {(NCCL, Outcome.FAILED), (STORAGE, Outcome.FAILED)}


@pytest.mark.parametrize("check", [NCCL, STORAGE])
def test_programs_are_missing(check: str) -> None:
    _, [line] = planned(LOCAL, (), checks=(check,))
    assert line.outcome is Outcome.NOT_ASKED
    assert "--image NAME" in line.action and "imported are pytorch" in line.action
    _, [line] = planned(LOCAL, (), checks=(check,), insisted=(check,))
    assert line.outcome is Outcome.FAILED
    [job], left_out = planned(LOCAL, (), checks=(check,), image="pytorch")
    assert not left_out and job.options[:2] == ("--image", "pytorch")


@pytest.mark.parametrize("program", ["nccl-tests", "torch"])
def test_nccl_is_asked_with_either_engine(program: str) -> None:
    [job], left_out = planned(LOCAL, (program,), checks=(NCCL,))
    assert (job.check, job.options, left_out) == (NCCL, (), [])


@pytest.mark.parametrize(
    ("programs", "wishes", "nodes", "options", "minutes"),
    [
        ((), {"nodes": 1024}, 80, ("--measure", "tcp"), 9),
        (("torch",), {"nodes": 5}, 5, ("--measure", "nccl"), 13),
        ((), {"nodes": 1024, "image": "pytorch"}, 80, ("--image", "pytorch", "--measure", "nccl"), 29),
        (("nccl-tests",), {"insisted": (PAIRS,)}, 80, ("--measure", "nccl"), 29),
    ],
    ids=["no programs", "some nodes", "image", "named: all nodes"],
)
def test_pairs(
    programs: tuple[str, ...], wishes: dict[str, Any], nodes: int, options: tuple[str, ...], minutes: int
) -> None:
    [job, *_], left_out = planned(JAKARTA, programs, checks=(PAIRS,), **wishes)
    assert (job.place.nodes, job.options, job.minutes, left_out) == (nodes, options, minutes, [])


@pytest.mark.parametrize(
    ("wishes", "outcomes"),
    [({}, []), ({"nodes": 1024}, [Outcome.NOT_ASKED]), ({"insisted": (PAIRS,)}, [Outcome.FAILED])],
    ids=["not asked for", "all", "named"],
)
def test_two_nodes_have_no_peers(wishes: dict[str, Any], outcomes: list[Outcome]) -> None:
    jobs, left_out = planned(LOCAL, checks=(PAIRS,), **wishes)
    assert not jobs and [line.outcome for line in left_out] == outcomes
    assert all(line.found == "2 nodes: a slow one has no peers to compare it with" for line in left_out)


def test_compute_resources_of_one_queue_are_selected_by_feature() -> None:
    gpu = LOCAL.cluster.queues[0]
    other = gpu.compute[0].model_copy(update={"name": "p5en", "instance_types": ("p5en.48xlarge",), "max": 1})
    jobs, _ = planned(with_queues(gpu.model_copy(update={"compute": (*gpu.compute, other)})), checks=(HELLO, NCCL))
    assert [(job.check, job.place.feature, job.place.nodes) for job in jobs] == [
        (HELLO, "p5", 2), (NCCL, "p5", 2), (HELLO, "p5en", 1), (NCCL, "p5en", 1),
    ]  # fmt: skip
