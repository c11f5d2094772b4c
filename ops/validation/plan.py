"""Plans the checks: on which queue, with how many nodes and for how long. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

from ops.validation.report import HEAD_SCAN, Line, NodeTime, Outcome
from settings import Environment
from settings.instances import instance_types
from settings.model.cluster import Compute, Queue
from settings.model.environment import Check

FAILED = Outcome.FAILED
NODE_SCAN, HELLO, GPUS, BURN = "scan", "hello-gpu", "gpu-check", "gpu-burn"
PAIRS, NCCL, STORAGE, S3 = "pairs", "nccl", "storage", "s3"
CHECKS: tuple[str, ...] = get_args(Check)
"""The names of the checks, in the order in which they run."""


class Kind(NamedTuple):
    """A check: its question, what to do if it fails, its job file without .sbatch, and the job's time limit."""

    asked: str
    advice: str
    job: str = ""
    minutes: int = 0


KINDS = {
    HEAD_SCAN: Kind("scan of the head node", "run it there by hand: scan-host-environment.sh head"),
    NODE_SCAN: Kind("scan of the node", "read the end of its output; sinfo -R", "host-scan", 5),
    HELLO: Kind(
        "does every GPU answer?", "sinfo -R; dmesg of the node ('Xid'); have the node replaced", "hello-gpu", 5
    ),
    GPUS: Kind(
        "GPUs, NVLinks and EFA interfaces",
        "take the node out: scontrol update nodename=NAME state=drain reason=gpu-check",
        "gpu-check",
        5,
    ),
    BURN: Kind(
        "which GPU is slow or faulty?",
        "take the node out and have it replaced: scontrol update nodename=NAME state=drain reason=gpu-burn",
        "gpu-burn",
        14,
    ),
    PAIRS: Kind(
        "which node or link is slow?",
        "read the end of its output; the figures of all pairs are in the folder of results",
        "pair-test",
    ),
    NCCL: Kind(
        "do GPUs talk, how fast?",
        "docs/jobs.md, 'When something is wrong'; the outputs are in the folder of results",
        "nccl-tests",
        60,
    ),
    STORAGE: Kind(
        "throughput of Lustre",
        "is the file system busy? run it again; --storage-percent says what fewer clients can reach",
        "storage-test",
        20,
    ),
    S3: Kind(
        "write to S3 and read",
        "AccessDenied: the nodes' role, the bucket's and the endpoint's policy; no connection: has the subnet's route "
        "table the endpoint of S3 (aws ec2 describe-vpc-endpoints)?",
        "s3-test",
        5,
    ),
}
"""The checks by name, with the time limits of their jobs in minutes; that of PAIRS depends on the nodes."""
OF_NODES = (NODE_SCAN, HELLO, GPUS, BURN, PAIRS)
"""The checks that name bad nodes."""
NODE_MINUTES = 30
"""Minutes that each node works at most for all checks but storage: 40 node hours for 80 nodes."""
LEAST_TO_COMPARE = 3
"""Nodes of a pair-test: with two, a slow pair has no peers. The checks of every node begin with this many."""
_PAIR_SECONDS = {"nccl": 120, "tcp": 20}  # --limit of pair-test
_PAIR_EXTRA_MINUTES = 5  # for the GPUs of slow nodes, one by one

# storage-test writes this many MB per segment and process, with this many processes per node. Data for this many s
# at the provisioned rate exceeds the clients' buffers and is still fast to write.
_SEGMENT_MB, _PROCESSES, _STORAGE_SECONDS = 16.8, 8, 20
_LEAST_SEGMENTS, _MOST_SEGMENTS = 4, 100


@dataclass(frozen=True)
class Place:
    """A compute resource: its partition, and the node feature that selects it if the partition has several.

    Attributes:
        nodes, most: those that are asked, and those that it can have.
        instance: its instance types.
        hourly: USD on demand for an hour of a node; None if the price is unknown.
    """

    queue: str
    name: str
    nodes: int
    gpus: int | None
    feature: str = "-"
    most: int = 0
    instance: str = ""
    hourly: float | None = None

    def node_time(self, node_hours: float) -> NodeTime:
        return NodeTime(self.name, self.instance, node_hours, self.hourly)


@dataclass(frozen=True)
class Job:
    """One check on one place, as a Slurm job (the scan of the head node is none).

    Attributes:
        options: words for the job file.
        required: the check fails if it cannot run.
        mount, mb_s, percent: the storage test's file system, its provisioned MB/s, and how much of it is wanted.
        most_minutes: what other jobs on its nodes left.
    """

    check: str
    place: Place
    options: tuple[str, ...] = ()
    required: bool = False
    mount: str = ""
    mb_s: int = 0
    percent: int = 0
    most_minutes: int = 7 * 24 * 60

    @property
    def kind(self) -> Kind:
        return KINDS[self.check]

    @property
    def rounds(self) -> int:
        """The most rounds of a pair-test (tournament.py)."""
        return int(2 * math.log2(self.place.nodes))

    @property
    def minutes(self) -> int:
        """Its time limit."""
        own = self.kind.minutes
        if self.check == PAIRS:
            own = _PAIR_EXTRA_MINUTES + math.ceil(self.rounds * _PAIR_SECONDS[self.options[-1]] / 60)
        return min(own, self.most_minutes)

    @property
    def time(self) -> str:
        """How long it may take, in words."""
        rounds = f"{self.rounds} rounds of {_PAIR_SECONDS[self.options[-1]]} s, " if self.check == PAIRS else ""
        return f"{rounds}{self.minutes} min at most"

    @property
    def nodes(self) -> str:
        """The number of nodes, in words."""
        return f"{self.place.nodes} node{'' if self.place.nodes == 1 else 's'}"

    @property
    def where(self) -> str:
        return f"{self.mount} from {self.place.name}" if self.mount else self.place.name

    def line(
        self, found: str, wanted: str, outcome: Outcome = FAILED, action: str = "", *, where: str = "", asked: str = ""
    ) -> Line:
        """A line of the report. A failure has an action, by default the advice of the kind."""
        if outcome is FAILED:
            action = action or self.kind.advice
        return Line(self.check, where or self.where, asked or self.kind.asked, found, wanted, outcome, action)


@dataclass(frozen=True)
class Selection:
    """What the user asked for.

    Attributes:
        checks: those to run.
        required: those of `--only`, else of `validation.required`: they fail if they cannot run.
        nodes: most nodes of a job.
        image: name of an imported image for gpu-burn, pairs, NCCL and storage; empty: on the host.
        storage_percent: of the provisioned throughput that must be reached.
        drain: drain the nodes that checks of nodes find bad.
    """

    checks: Collection[str] = CHECKS
    required: Collection[str] = ()
    nodes: int = 2
    image: str = ""
    storage_percent: int = 80
    drain: bool = False


def at_most(jobs: Collection[Job], node_minutes: int = NODE_MINUTES) -> list[NodeTime]:
    """The node time that jobs on each compute resource can take, with this limit for all but storage."""
    hours: dict[Place, float] = {}
    left: dict[str, int] = {}
    # Those on most nodes first: the others may take less time than they can.
    for job in sorted(jobs, key=lambda job: -job.place.nodes):
        if job.check == HEAD_SCAN:
            continue
        place, minutes = job.place, job.minutes
        if job.check != STORAGE:
            minutes = min(minutes, left.get(place.name, node_minutes))
            left[place.name] = left.get(place.name, node_minutes) - minutes
        hours[place] = hours.get(place, 0) + place.nodes * minutes / 60
    return together(hours)


def together(hours: Mapping[Place, float]) -> list[NodeTime]:
    """The node time of each compute resource, from that of its jobs."""
    sums: dict[str, float] = {}
    for place, amount in hours.items():
        sums[place.name] = sums.get(place.name, 0) + amount
    return list({place.name: place.node_time(sums[place.name]) for place in hours}.values())


@dataclass(frozen=True)
class Planner:
    """Plans the checks of an environment.

    Attributes:
        programs: what is installed on the nodes, of fio, ior, mdtest, nccl-tests and torch.
        images: names of the imported container images.
        price: USD on demand for an hour of an instance type, if known.
        emulated: the cluster is one of the emulated AWS.
    """

    environment: Environment
    selection: Selection
    programs: Collection[str]
    images: Collection[str] = ()
    price: Callable[[str], float | None] = lambda _instance: None
    emulated: bool = False

    def plan(self) -> tuple[list[Job], list[Line]]:
        """The jobs in the order in which they run, and the checks that are left out, with the reason."""
        places = [place for queue in self.environment.cluster.queues for place in self._places(queue)]
        made = [one for check in CHECKS if self._is_asked(check) for one in self._of_check(check, places)]
        jobs = [one for one in made if isinstance(one, Job)]
        # The head node first, then queue by queue, so that the nodes that one check started serve the next one.
        order = [place.name for place in places]
        jobs.sort(key=lambda job: -1 if job.check == HEAD_SCAN else order.index(job.place.name))
        return jobs, [one for one in made if isinstance(one, Line)]

    def _is_asked(self, check: str) -> bool:
        """Checks of every node: only if more than two nodes were asked for, or if they were named."""
        of_every_node = self.selection.nodes >= LEAST_TO_COMPARE or check in self.selection.required
        return check in self.selection.checks and (of_every_node or check not in (BURN, PAIRS))

    def _places(self, queue: Queue) -> Iterator[Place]:
        for compute in queue.compute:
            # An unknown instance type may have GPUs or not: it is only scanned.
            known = [instance_types()[name] for name in compute.instance_types if name in instance_types()]
            gpus = known[0].gpus if known else None
            feature = compute.name if len(queue.compute) > 1 else "-"
            nodes = min(self.selection.nodes, compute.max)
            name, instance = f"{queue.name}/{compute.name}", " or ".join(compute.instance_types)
            yield Place(queue.name, name, nodes, gpus, feature, compute.max, instance, self._hourly(queue, compute))

    def _hourly(self, queue: Queue, compute: Compute) -> float | None:
        """Of the dearest type. Prices of spot instances and of capacity blocks are known from `cost.prices` only."""
        prices = [self.price(name) for name in compute.instance_types]
        known = [price for price in prices if price is not None]
        on_demand = queue.capacity.type in ("on-demand", "odcr")
        own = set(compute.instance_types) <= self.environment.cost.prices.keys()
        return max(known) if (on_demand or own) and len(known) == len(prices) else None

    def _of_check(self, check: str, places: list[Place]) -> Iterator[Job | Line]:
        with_gpus = [place for place in places if place.gpus]
        if check == HEAD_SCAN:
            yield self._job(check, Place("", "head node", 1, None))
        elif check == NODE_SCAN:
            yield from (self._job(check, place) for place in places)
        elif check == S3:
            # The file systems of emulated nodes are memory.
            yield from (self._job(check, place, ("--mib", "1") if self.emulated else ()) for place in places)
        elif check == STORAGE:
            yield from self._storage((with_gpus or places)[0])
        elif check == PAIRS:
            yield from map(self._pairs, self._of_all(with_gpus or places))
        elif not with_gpus:
            yield self._skipped(check, "all queues", "no queue has GPUs")
        elif check == NCCL:
            yield from map(self._nccl, with_gpus)
        elif check == BURN:
            yield from map(self._burn, self._of_all(with_gpus))
        else:
            yield from (self._job(check, place) for place in with_gpus)

    def _of_all(self, places: list[Place]) -> list[Place]:
        """Places of a check of every node: with all nodes, unless a number of nodes was asked for."""
        if self.selection.nodes >= LEAST_TO_COMPARE:
            return places
        return [replace(place, nodes=place.most) for place in places]

    def _burn(self, place: Place) -> Job | Line:
        # On the emulated AWS nodes have a stand-in of torch, images have none.
        image = "" if self.emulated else self.selection.image
        if not image and "torch" not in self.programs:
            why = "no torch on the nodes, and no --image was given"
            return self._skipped(BURN, place.name, why, self._image_action)
        return self._job(BURN, place, ("--image", image) if image else ())

    def _pairs(self, place: Place) -> Job | Line:
        if place.nodes < LEAST_TO_COMPARE:
            why = f"{place.nodes} node{'s' * (place.nodes > 1)}: a slow one has no peers to compare it with"
            return self._skipped(PAIRS, place.name, why)
        programs = self.selection.image or {"nccl-tests", "torch"} & set(self.programs)
        # On the emulated AWS only TCP is measured.
        if self.emulated or not (place.gpus and programs):
            return self._job(PAIRS, place, ("--measure", "tcp"))
        image = ("--image", self.selection.image) if self.selection.image else ()
        return self._job(PAIRS, place, (*image, "--measure", "nccl"))

    def _nccl(self, place: Place) -> Job | Line:
        if place.nodes * (place.gpus or 0) < 2:
            return self._skipped(NCCL, place.name, "one GPU in all")
        if not self.selection.image and not {"nccl-tests", "torch"} & set(self.programs):
            why = "neither nccl-tests in /opt/nccl-tests/build nor torch on the nodes, and no --image was given"
            return self._skipped(NCCL, place.name, why, self._image_action)
        return self._job(NCCL, place, ("--image", self.selection.image) if self.selection.image else ())

    def _storage(self, place: Place) -> Iterator[Job | Line]:
        if not self.environment.storage.lustre:
            yield self._skipped(STORAGE, "all mounts", "the environment has no Lustre file system")
        percent, tool = self.selection.storage_percent, self._storage_tool()
        for lustre in self.environment.storage.lustre:
            if not tool:
                why = "neither IOR and mdtest nor fio on the nodes, and no --image was given"
                yield self._skipped(STORAGE, lustre.mount, why, self._image_action)
                continue
            rate = lustre.throughput_mb_s
            segments = math.ceil(rate * _STORAGE_SECONDS / (place.nodes * _PROCESSES * _SEGMENT_MB))
            segments = min(max(segments, _LEAST_SEGMENTS), _MOST_SEGMENTS)
            what = ["--mounts-to-test", lustre.mount, "--fraction", str(percent), "--segments", str(segments)]
            if place.nodes >= LEAST_TO_COMPARE:
                what += ["--clients", ",".join(map(str, sorted({1, place.nodes // 2, place.nodes})))]
            yield Job(STORAGE, place, (*tool, *what), STORAGE in self.selection.required, lustre.mount, rate, percent)

    def _storage_tool(self) -> tuple[str, ...]:
        if self.selection.image:
            return ("--image", self.selection.image)
        if {"ior", "mdtest"} <= set(self.programs):
            return ("--tool", "ior")
        return ("--tool", "fio") if "fio" in self.programs else ()

    @property
    def _image_action(self) -> str:
        known = ", ".join(self.images)
        known = f"imported are {known}" if known else "import one with images/import-container.sh"
        return f"give --image NAME, an image that has these programs ({known})"

    def _job(self, check: str, place: Place, options: tuple[str, ...] = ()) -> Job:
        return Job(check, place, options, check in self.selection.required)

    def _skipped(self, check: str, where: str, why: str, action: str = "") -> Line:
        """A check that cannot run; a failure if it is required."""
        outcome = FAILED if check in self.selection.required else Outcome.SKIPPED
        return Line(check, where, KINDS[check].asked, why, "the means to ask", outcome, action)
