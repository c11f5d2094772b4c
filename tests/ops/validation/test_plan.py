"""Which checks an environment asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.validation import plan
from ops.validation.plan import CHECKS, GPUS, HELLO, NCCL, NODE_SCAN, STORAGE, Means, Wishes
from ops.validation.report import Outcome
from settings import Environment, load

ENVIRONMENTS = Path(__file__).resolve().parents[3] / "environments"
ALL = Means(("fio", "nccl-tests"))


def environment(name: str) -> Environment:
    return load(ENVIRONMENTS / f"{name}.yaml")


def without_gpus(shipped: Environment) -> Environment:
    cpu = tuple(queue for queue in shipped.cluster.queues if queue.name == "cpu")
    return shipped.model_copy(update={"cluster": shipped.cluster.model_copy(update={"queues": cpu})})


def test_local_asks_everything() -> None:
    made = plan.make(environment("local"), Wishes(), ALL)
    assert made.head_scan
    assert not made.left_out
    assert [(job.check, job.place.name, job.place.nodes) for job in made.jobs] == [
        (NODE_SCAN, "gpu/p5", 2),
        (HELLO, "gpu/p5", 2),
        (GPUS, "gpu/p5", 2),
        (NCCL, "gpu/p5", 2),
        (STORAGE, "gpu/p5", 2),
        (NODE_SCAN, "cpu/c7i", 2),
    ]


def test_the_storage_test_knows_what_the_file_provisions() -> None:
    made = plan.make(environment("jakarta-80xp5e"), Wishes(checks=(STORAGE,)), ALL)
    found = {job.facts["mount"]: job.facts["mb_s"] for job in made.jobs}
    lustre = environment("jakarta-80xp5e").storage.lustre
    assert found == {one.mount: one.capacity_gib * one.throughput // 1000 for one in lustre}
    # The faster the file system, the more is written.
    segments = [int(job.options[job.options.index("--segments") + 1]) for job in made.jobs]
    assert sorted(segments) == [
        segments[index] for index in sorted(range(3), key=lambda index: list(found.values())[index])
    ]
    assert all(4 <= number <= 100 for number in segments)


def test_never_more_nodes_than_asked_or_there_are() -> None:
    jakarta = environment("jakarta-80xp5e")
    assert {job.place.nodes for job in plan.make(jakarta, Wishes(), ALL).jobs} == {2}
    assert {job.place.nodes for job in plan.make(jakarta, Wishes(nodes=10), ALL).jobs} == {10}
    local = plan.make(environment("local"), Wishes(nodes=10), ALL)
    assert {job.place.nodes for job in local.jobs} == {2}


def test_without_gpus_the_rest_is_asked_and_the_report_says_what_was_not() -> None:
    made = plan.make(without_gpus(environment("local")), Wishes(), ALL)
    assert [(job.check, job.place.name) for job in made.jobs] == [(NODE_SCAN, "cpu/c7i"), (STORAGE, "cpu/c7i")]
    assert [(line.check, line.outcome, line.found) for line in made.left_out] == [
        (check, Outcome.NOT_ASKED, "no queue has GPUs") for check in (HELLO, GPUS, NCCL)
    ]


@pytest.mark.parametrize("check", [NCCL, STORAGE])
def test_without_the_programs_it_is_not_asked_unless_it_was_insisted_on(check: str) -> None:
    [line] = plan.make(environment("local"), Wishes(checks=(check,)), Means((), ("pytorch",))).left_out
    assert line.outcome is Outcome.NOT_ASKED
    assert "--image NAME" in line.action and "imported are pytorch" in line.action
    [line] = plan.make(environment("local"), Wishes(checks=(check,), insisted=(check,)), Means(())).left_out
    assert line.outcome is Outcome.FAILED


def test_an_image_has_the_programs() -> None:
    made = plan.make(environment("local"), Wishes(checks=(NCCL, STORAGE), image="pytorch"), Means((), ("pytorch",)))
    assert not made.left_out
    assert all(job.options[:2] == ("--image", "pytorch") for job in made.jobs)


def test_several_compute_resources_of_a_queue_are_told_apart() -> None:
    local = environment("local")
    gpu = local.cluster.queues[0]
    other = gpu.compute[0].model_copy(update={"name": "p5en", "instance_types": ("p5en.48xlarge",), "max": 1})
    queues = (gpu.model_copy(update={"compute": (*gpu.compute, other)}),)
    changed = local.model_copy(update={"cluster": local.cluster.model_copy(update={"queues": queues})})
    made = plan.make(changed, Wishes(checks=(HELLO, NCCL)), ALL)
    assert [(job.check, job.place.feature, job.place.nodes) for job in made.jobs] == [
        (HELLO, "p5", 2), (NCCL, "p5", 2), (HELLO, "p5en", 1), (NCCL, "p5en", 1),
    ]  # fmt: skip


def test_every_check_is_known_to_the_head_node() -> None:
    from tests.ops.validation.helper import request_handler

    assert {job.job for job in plan.make(environment("local"), Wishes(), ALL).jobs} == set(request_handler.CHECKS)
    options = {
        word for job in plan.make(environment("local"), Wishes(image="x"), ALL).jobs for word in job.options[::2]
    }
    assert options <= set(request_handler.OPTIONS)
    assert len(CHECKS) == 6
