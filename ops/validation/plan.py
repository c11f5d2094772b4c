"""Plans the checks: on which queue, with how many nodes and for how long. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from ops.validation.report import HEAD_SCAN, Line, Outcome
from settings import Environment
from settings.instances import InstanceFacts, instance_types
from settings.model.cluster import Compute, Queue
from settings.model.environment import Check

NODE_SCAN, HELLO, GPUS, NCCL, STORAGE = "scan", "hello-gpu", "gpu-check", "nccl", "storage"
CHECKS: tuple[str, ...] = get_args(Check)
"""The names of the checks, in the order in which they run."""

MINUTES = {NODE_SCAN: 10, HELLO: 10, GPUS: 15, NCCL: 60, STORAGE: 60}
"""Time limits of the jobs, as in cluster_assets/jobs."""

ASKED = {
    HEAD_SCAN: "scan of the head node",
    NODE_SCAN: "scan of the node",
    HELLO: "does every GPU answer?",
    GPUS: "GPUs, NVLinks and EFA interfaces",
    NCCL: "do GPUs talk, how fast?",
    STORAGE: "throughput of Lustre",
}
"""What each check asks, in words."""

_JOBS = {NODE_SCAN: "host-scan", HELLO: "hello-gpu", GPUS: "gpu-check", NCCL: "nccl-tests", STORAGE: "storage-test"}
# storage-test writes this many MB per segment and process, with this many processes per node. Data for this many s
# at the provisioned rate exceeds the clients' buffers and is still fast to write.
_SEGMENT_MB, _PROCESSES, _STORAGE_SECONDS = 16.8, 8, 20
_LEAST_SEGMENTS, _MOST_SEGMENTS = 4, 100


@dataclass(frozen=True)
class Place:
    """A compute resource: its partition, and the node feature that selects it if the partition has several."""

    queue: str
    compute: str
    nodes: int
    gpus: int | None
    feature: str = "-"

    @property
    def name(self) -> str:
        return f"{self.queue}/{self.compute}"


@dataclass(frozen=True)
class Job:
    """One check as a Slurm job.

    Attributes:
        job: the job file, without .sbatch.
        options: words for it.
        facts: what the result is compared with: `mount` and `mb_s` of a file system.
    """

    check: str
    place: Place
    job: str
    minutes: int
    options: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wishes:
    """What the user asked for.

    Attributes:
        checks: those to run.
        insisted: those that were named, and must not be left out.
        nodes: most nodes of a job.
        image: name of an imported container image for NCCL and storage; empty: on the host.
        storage_percent: of the provisioned throughput that must be reached.
    """

    checks: Collection[str] = CHECKS
    insisted: Collection[str] = ()
    nodes: int = 2
    image: str = ""
    storage_percent: int = 80


@dataclass(frozen=True)
class Plan:
    """The jobs to run, and the checks left out, with the reason. A check of `insisted` fails if it is left out."""

    head_scan: bool
    jobs: tuple[Job, ...]
    left_out: tuple[Line, ...]
    insisted: Collection[str] = ()


@dataclass(frozen=True)
class Means:
    """What is available on the cluster.

    Attributes:
        programs: what is installed on the nodes, of fio, ior, mdtest and nccl-tests.
        images: names of the imported container images.
    """

    programs: Collection[str]
    images: Collection[str] = ()


def make(environment: Environment, wishes: Wishes, means: Means) -> Plan:
    """The plan for an environment."""
    places = [place for queue in environment.cluster.queues for place in _places(queue, wishes.nodes)]
    jobs: list[Job] = []
    left_out: list[Line] = []
    for check in CHECKS:
        if check == HEAD_SCAN or check not in wishes.checks:
            continue
        for made in _of_check(check, environment, places, wishes, means):
            if isinstance(made, Job):
                jobs.append(made)
            else:
                left_out.append(made)
    # Queue by queue, so that the nodes that one check started serve the next one.
    order = [place.name for place in places]
    jobs.sort(key=lambda job: order.index(job.place.name))
    return Plan(HEAD_SCAN in wishes.checks, tuple(jobs), tuple(left_out), wishes.insisted)


def _not_asked(check: str, where: str, why: str, action: str, wishes: Wishes) -> Line:
    """A check that cannot run; a failure if the user insisted on it."""
    outcome = Outcome.FAILED if check in wishes.insisted else Outcome.NOT_ASKED
    return Line(check, where, ASKED[check], why, "the means to ask", outcome, action)


def _of_check(
    check: str,
    environment: Environment,
    places: list[Place],
    wishes: Wishes,
    means: Means,
) -> Iterator[Job | Line]:
    with_gpus = [place for place in places if place.gpus]
    if check == NODE_SCAN:
        yield from (_job(check, place) for place in places)
    elif check in (HELLO, GPUS, NCCL) and not with_gpus:
        yield _not_asked(check, "all queues", "no queue has GPUs", "", wishes)
    elif check in (HELLO, GPUS):
        yield from (_job(check, place) for place in with_gpus)
    elif check == NCCL:
        yield from _nccl(with_gpus, wishes, means)
    else:
        yield from _storage(environment, (with_gpus or places)[0], wishes, means)


def _nccl(places: list[Place], wishes: Wishes, means: Means) -> Iterator[Job | Line]:
    for place in places:
        if place.nodes * (place.gpus or 0) < 2:
            yield _not_asked(NCCL, place.name, "one GPU in all", "", wishes)
        elif not wishes.image and "nccl-tests" not in means.programs:
            why = "no nccl-tests in /opt/nccl-tests/build of the nodes, and no --image was given"
            yield _not_asked(NCCL, place.name, why, _image_action(means.images), wishes)
        else:
            yield _job(NCCL, place, *(("--image", wishes.image) if wishes.image else ()))


def _storage(environment: Environment, place: Place, wishes: Wishes, means: Means) -> Iterator[Job | Line]:
    if not environment.storage.lustre:
        yield _not_asked(STORAGE, "all mounts", "the environment has no Lustre file system", "", wishes)
        return
    if wishes.image:
        tool: tuple[str, ...] = ("--image", wishes.image)
    elif {"ior", "mdtest"} <= set(means.programs):
        tool = ("--tool", "ior")
    elif "fio" in means.programs:
        tool = ("--tool", "fio")
    else:
        why = "neither IOR and mdtest nor fio on the nodes, and no --image was given"
        for lustre in environment.storage.lustre:
            yield _not_asked(STORAGE, lustre.mount, why, _image_action(means.images), wishes)
        return
    for lustre in environment.storage.lustre:
        rate = lustre.throughput_mb_s
        yield _job(
            STORAGE, place, *tool, "--mounts-to-test", lustre.mount, "--fraction", str(wishes.storage_percent),
            "--segments", str(_segments(rate, place.nodes)), facts={"mount": lustre.mount, "mb_s": rate},
        )  # fmt: skip


def _image_action(images: Collection[str]) -> str:
    known = f"imported are {', '.join(images)}" if images else "import one with images/import-container.sh"
    return f"give --image NAME, an image that has these programs ({known})"


def _segments(mb_s: int, nodes: int) -> int:
    wanted = math.ceil(mb_s * _STORAGE_SECONDS / (nodes * _PROCESSES * _SEGMENT_MB))
    return min(max(wanted, _LEAST_SEGMENTS), _MOST_SEGMENTS)


def _job(check: str, place: Place, *options: str, facts: Mapping[str, Any] | None = None) -> Job:
    return Job(check, place, _JOBS[check], MINUTES[check], options, dict(facts or {}))


def _places(queue: Queue, most: int) -> Iterator[Place]:
    for compute in queue.compute:
        facts = _facts(compute)
        feature = compute.name if len(queue.compute) > 1 else "-"
        # An unknown instance type may have GPUs or not: it is only scanned.
        gpus = facts.gpus if facts else None
        yield Place(queue.name, compute.name, min(most, compute.max), gpus, feature)


def _facts(compute: Compute) -> InstanceFacts | None:
    return next((facts for name in compute.instance_types if (facts := instance_types().get(name))), None)
