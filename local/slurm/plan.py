"""The plan of a laboratory: nodes, shared file systems and names, from an environment file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import TypeAdapter

from ops.problem import Problem
from settings import Environment
from settings.instances import InstanceFacts, instance_types
from settings.model.cluster import Compute, Queue
from settings.model.observability import Observability
from trainyard.cluster_people import cluster_people
from trainyard.cluster_settings import cluster_settings

Base = Literal["bookworm", "trixie"]
Role = Literal["aws", "head", "login", "compute"]

GIB = 1024
# Limits of tmpfs file systems; memory is only used for content.
ROOT_MIB, SHARED_MIB, SCRATCH_MIB = 4 * GIB, 16 * GIB, 16 * GIB
# Every laboratory has its own network, so all use the same addresses.
AWS_ADDRESS = "10.0.16.2"
HEAD_ADDRESS = "10.0.16.10"
HEAD_NAME = "ip-10-0-16-10"
FIRST_LOGIN = 20
AWS_NAME = "aws"
MOST_NODES = 250
# For an instance type that settings/data lacks.
UNKNOWN_INSTANCE = InstanceFacts(vcpus=4, memory_mib=16384, architecture="x86_64")
# A P5's NVMe disk has 3.84 TB.
NVME_DISK_GB = 3800


@dataclass(frozen=True)
class Node:
    """One machine of the laboratory. `name` is its host name; `memory_mib` is configured in Slurm, not enforced."""

    name: str
    role: Role
    address: str
    index: int
    queue: str = ""
    compute: str = ""
    instance_type: str = ""
    cpus: int = 1
    memory_mib: int = GIB
    gpus: int = 0
    gpu: str = ""
    gpu_memory_mib: int = 0
    efa_interfaces: int = 0
    nvme_disks: int = 0
    scratch: str = ""


@dataclass(frozen=True)
class Shared:
    """A shared file system: a tmpfs of a limited size in place of Lustre, OpenZFS or the head node's NFS export."""

    name: str
    mount: str
    size_mib: int = SHARED_MIB


@dataclass(frozen=True)
class Timeouts:
    """Slurm's timeouts in seconds, shorter than ParallelCluster's 180 s for slurmd and 60 s for messages."""

    slurmd_s: int = 10
    message_s: int = 10
    kill_wait_s: int = 5


@dataclass(frozen=True)
class Plan:
    """Everything that a laboratory is created from."""

    environment: Environment
    base: Base
    nodes: tuple[Node, ...]
    shared: tuple[Shared, ...]
    scratch_mib: int = SCRATCH_MIB
    timeouts: Timeouts = Timeouts()
    binds: Mapping[str, str] = field(default_factory=dict)
    slurm: Mapping[str, str] = field(default_factory=dict)
    powered_down: tuple[Node, ...] = ()
    metrics_s: int = 0
    people: dict[str, object] | None = None
    """Content of cluster/people.json; JSON of `environment` lacks the people file's content."""

    @property
    def head(self) -> Node:
        return next(node for node in self.nodes if node.role == "head")

    @property
    def aws(self) -> Node:
        return next(node for node in self.nodes if node.role == "aws")

    @property
    def compute(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.role == "compute")

    @property
    def logins(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.role == "login")

    @property
    def user(self) -> str:
        """The cluster's user, uid 1000."""
        cluster = self.settings()["cluster"]
        return str(cluster["user"])  # type: ignore[index]

    @property
    def buckets(self) -> dict[str, str]:
        """Names of the buckets by purpose."""
        return {name: f"{self.environment.name}-{name}" for name in ("data", "checkpoints", "assets")}

    @property
    def registry(self) -> str:
        """Host name of the registry, as ECR has it."""
        return f"{self.environment.account}.dkr.ecr.{self.environment.region}.amazonaws.com"

    def repository_uri(self, name: str) -> str:
        """URI of a repository as ECR writes it, without a tag."""
        return f"{self.registry}/{self.environment.repository_name(name)}"

    def settings(self) -> dict[str, object]:
        """The cluster/settings.json of this environment, as the product writes it."""
        return cluster_settings(
            self.environment,
            repository_uris={one.name: self.repository_uri(one.name) for one in self.environment.images.repositories},
            data_bucket=self.buckets["data"],
            checkpoints_bucket=self.buckets["checkpoints"],
            assets_bucket=self.buckets["assets"],
        )


def make(
    environment: Environment,
    *,
    nodes: int = 2,
    counts: Mapping[str, int] | None = None,
    base: Base = "bookworm",
    scratch_mib: int = SCRATCH_MIB,
    timeouts: Timeouts | None = None,
    binds: Mapping[str, str] | None = None,
    slurm: Mapping[str, str] | None = None,
    powered_down: bool = False,
    metrics_s: int = 0,
    logins: int = 0,
) -> Plan:
    """The plan for an environment.

    Args:
        nodes: compute nodes of the first compute resource with GPUs, or of the first one if none has GPUs.
        counts: instead of `nodes`, the nodes of each compute resource, by "queue/compute".
        base: the nodes' Debian release (bookworm: Slurm 22.05, trixie: Slurm 24.11).
        scratch_mib: limit of a node's scratch, MiB.
        timeouts: Slurm's, in seconds.
        binds: folders of this host to mount read-only, by their path on the nodes.
        slurm: slurm.conf parameters that override all others.
        powered_down: also configure the environment's other nodes, up to each compute resource's maximum, as powered
            down. `sbatch --test-only` then behaves as on the whole cluster; a job that needs such a node stays pending.
        metrics_s: seconds between two readings of its metrics, as in mode self-hosted (local/slurm/monitoring.py); 0 is
            mode off.
        logins: login nodes; the environment must have some.

    Raises:
        Problem: `counts` names an unknown compute resource, or there are too many nodes.
    """
    environment = environment.model_copy(
        update={"observability": Observability(mode="self-hosted" if metrics_s else "off")}
    )
    resources = {
        f"{queue.name}/{compute.name}": (queue, compute)
        for queue in environment.cluster.queues
        for compute in queue.compute
    }
    if counts is None:
        with_gpus = (name for name, (_, compute) in resources.items() if _facts(compute).gpus)
        counts = {next(with_gpus, next(iter(resources))): nodes}
    if unknown := [name for name in counts if name not in resources]:
        raise Problem(
            f"no compute resource '{unknown[0]}' in environment '{environment.name}'; allowed: {', '.join(resources)}"
        )
    if not 1 <= sum(counts.values()) <= MOST_NODES:
        raise Problem(f"a laboratory has 1 to {MOST_NODES} compute nodes, not {sum(counts.values())}")
    kind = environment.cluster.head_node.instance_type
    machines = [
        Node(name=AWS_NAME, role="aws", address=AWS_ADDRESS, index=0),
        Node(name=HEAD_NAME, role="head", address=HEAD_ADDRESS, index=1, instance_type=kind),
    ]
    for name, count in counts.items():
        for number in range(1, count + 1):
            machines.append(_compute_node(*resources[name], number, len(machines)))
    pool = environment.cluster.login_nodes
    if logins and pool is None:
        raise Problem(f"the environment '{environment.name}' has no cluster.login_nodes")
    for number in range(1, logins + 1):
        name, address = f"ip-10-0-16-{FIRST_LOGIN + number}", f"10.0.16.{FIRST_LOGIN + number}"
        kind = pool.instance_type if pool else ""
        machines.append(Node(name=name, role="login", address=address, index=len(machines), instance_type=kind))
    asleep = [
        _compute_node(queue, compute, number, 0)
        for name, (queue, compute) in resources.items()
        if powered_down
        for number in range(counts.get(name, 0) + 1, compute.max + 1)
    ]
    return Plan(
        environment=environment,
        base=base,
        nodes=tuple(machines),
        shared=_shared(environment),
        scratch_mib=scratch_mib,
        timeouts=timeouts or Timeouts(),
        binds=dict(binds or {}),
        slurm=dict(slurm or {}),
        powered_down=tuple(asleep),
        metrics_s=metrics_s,
        people=cluster_people(environment),
    )


PLAN_FILE = TypeAdapter(Plan)
"""A plan as JSON, for the laboratory's folder."""


def _facts(compute: Compute) -> InstanceFacts:
    return instance_types().get(compute.instance_types[0], UNKNOWN_INSTANCE)


def _compute_node(queue: Queue, compute: Compute, number: int, index: int) -> Node:
    facts = _facts(compute)
    return Node(
        name=f"{queue.name}-dy-{compute.name}-{number}",
        role="compute",
        address=f"10.0.17.{index}",
        index=index,
        queue=queue.name,
        compute=compute.name,
        instance_type=compute.instance_types[0],
        cpus=facts.vcpus,
        # ParallelCluster's default SchedulableMemory: 95 % of the instance's.
        memory_mib=facts.memory_mib * 95 // 100,
        gpus=facts.gpus,
        gpu=facts.gpu,
        gpu_memory_mib=facts.gpu_memory_mib,
        efa_interfaces=facts.efa_interfaces if compute.efa else 0,
        nvme_disks=round(facts.nvme_gb / NVME_DISK_GB) or int(facts.nvme_gb > 0),
        scratch=queue.scratch if queue.scratch and facts.nvme_gb else "",
    )


def _shared(environment: Environment) -> tuple[Shared, ...]:
    storage = environment.storage
    found = [Shared("lab", "/run/lab", GIB), Shared("slurm", "/opt/slurm", GIB)]
    found += [Shared(f"lustre-{one.name}", one.mount) for one in storage.lustre]
    found += [Shared(f"openzfs-{one.name}", one.mount) for one in (storage.openzfs.volumes if storage.openzfs else ())]
    found += [Shared(f"{one.type}-{one.name}", one.mount) for one in storage.existing]
    if "/home" not in {one.mount for one in found}:
        found.append(Shared("home", "/home"))
    return tuple(found)
