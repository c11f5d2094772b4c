"""Typical edits of the shipped environment files, with the verdict expected for each."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import settings
from ops.review.cluster import Need
from ops.review.verdict import Level
from settings import Environment

ENVIRONMENTS = Path(__file__).parents[3] / "environments"

Replacements = tuple[tuple[str, str], ...]

QUEUE = """    - name: more
      compute:
        - name: c7i
          instance_types: [c7i.2xlarge]
          max: 4
  slurm:"""
LOGIN = "  login_nodes:\n    count: {count}\n    instance_type: {kind}\n  queues:"


@dataclass(frozen=True)
class Edit:
    """Replacements (regular expression, text), each of one place.

    Attributes:
        needs: what changed keys need, by the end of their path; other keys must need nothing.
        before: edits that were deployed before.
        emulated: whether the emulated AWS has all that the edited file names.
    """

    level: Level
    replacements: Replacements
    needs: dict[str, Need] = field(default_factory=dict)
    file: str = "local"
    before: Replacements = ()
    emulated: bool = True

    def old(self, folder: Path) -> Environment:
        return load(self.file, self.before, folder)

    def new(self, folder: Path) -> Environment:
        return load(self.file, (*self.before, *self.replacements), folder)


def load(name: str, replacements: Replacements, folder: Path) -> Environment:
    """A shipped environment, edited."""
    text = (ENVIRONMENTS / f"{name}.yaml").read_text("utf-8")
    for pattern, replacement in replacements:
        text, count = re.subn(pattern, replacement, text)
        assert count == 1, f"{pattern} is in {count} places of {name}.yaml"
    file = folder / f"{name}.yaml"
    file.write_text(text, "utf-8")
    return settings.load(file)


GPU_MAX = r"max: 2(\s+efa)"
FLEET, NEW = Need.FLEET, Need.NEW_CLUSTER
SAFE, DISRUPTIVE, DESTRUCTIVE = Level.SAFE, Level.DISRUPTIVE, Level.DESTRUCTIVE


def after(place: str, text: str) -> tuple[str, str]:
    return f"({place})", rf"\1\n{text}"


def head(text: str) -> tuple[str, str]:
    return after(r"m7i\.2xlarge", f"    {text}")


def slurm(text: str) -> tuple[str, str]:
    return after("scaledown_minutes: 10", f"    {text}")


def gpu_queue(text: str) -> tuple[str, str]:
    return after("exclusive: true", f"      {text}")


def cpu_queue(text: str) -> tuple[str, str]:
    return after("- name: cpu", f"      {text}")


ACCOUNTING = (
    "accounting: {uri: 'db.example.com:3306', user: slurm, password_secret_arn: "
    "'arn:aws:secretsmanager:us-east-1:000000000000:secret:slurm-abcdef'}"
)
ONE_LOGIN_NODE = (r"  queues:", LOGIN.format(count=1, kind="m7i.xlarge"))
CLIENTS = after(r"cidr: 10\.0\.0\.0/16", "  clients: [203.0.113.0/24]")
OTHER_RESERVATION = ((r"cr-0123456789abcdef0", "cr-0fedcba9876543210"),)
OWN_KEYS = (
    r"\nnetwork:",
    "\nparallelcluster:\n  HeadNode: {Imds: {Secured: false}}\n  Monitoring: {DetailedMonitoring: true}\nnetwork:",
)

CLUSTER: dict[str, Edit] = {
    "more nodes": Edit(SAFE, ((GPU_MAX, r"max: 4\1"),)),
    "fewer nodes": Edit(DISRUPTIVE, ((GPU_MAX, r"max: 1\1"),), {"MaxCount": FLEET}),
    "static nodes out of dynamic ones": Edit(
        DISRUPTIVE, ((GPU_MAX, r"min: 1\n          max: 2\1"),), {"MinCount": FLEET}
    ),
    "static nodes on top": Edit(SAFE, ((GPU_MAX, r"min: 1\n          max: 3\1"),)),
    "a new queue": Edit(SAFE, ((r"  slurm:", QUEUE),)),
    "a queue removed": Edit(DISRUPTIVE, ((r"    - name: cpu\n(      .*\n)+", ""),), {"SlurmQueues[cpu]": FLEET}),
    "a queue renamed": Edit(DISRUPTIVE, ((r"- name: cpu", "- name: batch"),), {"SlurmQueues[cpu]": FLEET}),
    "another operating system": Edit(DESTRUCTIVE, ((r"ubuntu2204", "ubuntu2404"),), {"Image.Os": NEW}),
    "another head node": Edit(DESTRUCTIVE, ((r"m7i\.2xlarge", "m7i.4xlarge"),), {"HeadNode.InstanceType": NEW}),
    "a larger disk of the head node": Edit(
        DESTRUCTIVE, (head("root_volume:\n      size_gib: 200"),), {"HeadNode.LocalStorage.RootVolume.Size": NEW}
    ),
    "idle nodes kept longer": Edit(
        DISRUPTIVE, ((r"scaledown_minutes: 10", "scaledown_minutes: 20"),), {"ScaledownIdletime": FLEET}
    ),
    "scheduling by memory": Edit(
        DISRUPTIVE, (slurm("memory_scheduling: true"),), {"EnableMemoryBasedScheduling": FLEET}
    ),
    "best-effort scaling": Edit(SAFE, (slurm("scaling: best-effort"),)),
    "settings of slurm.conf": Edit(SAFE, (slurm("settings: {MessageTimeout: 60}"),)),
    "a tag": Edit(SAFE, (after("project: trainyard", "  team: research"),)),
    "logs kept longer": Edit(SAFE, ((r"  log_days: 7", "  log_days: 14"),)),
    "no dashboard": Edit(SAFE, (after("    log_days: 7", "    dashboard: false"),)),
    "detailed monitoring": Edit(
        DISRUPTIVE, (after("    log_days: 7", "    detailed: true"),), {"DetailedMonitoring": FLEET}
    ),
    "EFA off": Edit(
        DISRUPTIVE, ((r"efa: true", "efa: false"),), {"Efa.Enabled": FLEET, "PlacementGroup.Enabled": FLEET}
    ),
    "another strategy alone": Edit(SAFE, (slurm("queue_update: TERMINATE"),)),
    "fewer nodes, by a strategy that ends them": Edit(
        DISRUPTIVE, ((GPU_MAX, r"max: 1\1"), slurm("queue_update: TERMINATE")), {"MaxCount": FLEET}
    ),
    "other instances in a queue": Edit(DISRUPTIVE, ((r"c7i\.xlarge", "c7i.2xlarge"),), {"InstanceType": FLEET}),
    "scratch elsewhere": Edit(DISRUPTIVE, (gpu_queue("scratch: /nvme"),), {"EphemeralVolume.MountDir": FLEET}),
    "a larger disk of compute nodes": Edit(
        DISRUPTIVE, (gpu_queue("root_volume:\n        size_gib: 200"),), {"RootVolume.Size": FLEET}
    ),
    "spot instances": Edit(DISRUPTIVE, (cpu_queue("capacity: {type: spot}"),), {"CapacityType": FLEET}),
    "no placement group": Edit(DISRUPTIVE, (gpu_queue("placement_group: false"),), {"PlacementGroup.Enabled": FLEET}),
    "no health check of GPUs": Edit(SAFE, (gpu_queue("gpu_health_check: false"),)),
    "jobs share nodes": Edit(SAFE, ((r"exclusive: true", "exclusive: false"),)),
    "keys of ParallelCluster's own": Edit(
        DESTRUCTIVE, (OWN_KEYS,), {"HeadNode.Imds.Secured": NEW, "DetailedMonitoring": FLEET}
    ),
    "login nodes": Edit(SAFE, (ONE_LOGIN_NODE,), emulated=False),
    "other login nodes": Edit(
        DISRUPTIVE,
        ((r"m7i\.xlarge", "m7i.2xlarge"),),
        {"InstanceType": Need.LOGIN},
        before=(ONE_LOGIN_NODE,),
        emulated=False,
    ),
    "a head node with a public address": Edit(
        DESTRUCTIVE, (head("subnet: public"),), {"SubnetId": NEW, "ElasticIp": NEW}, before=(CLIENTS,), emulated=False
    ),
    "Lustre mounted elsewhere": Edit(DISRUPTIVE, ((r"mount: /fsx", "mount: /lustre"),), {"MountDir": FLEET}),
    "homes mounted elsewhere": Edit(DISRUPTIVE, ((r"mount: /home", "mount: /homes"),), {"MountDir": FLEET}),
    "an own accounting database": Edit(
        DISRUPTIVE,
        (slurm("accounting: true"), (r"  logs: delete", "  logs: delete\n  databases: delete")),
        {"Database": FLEET},
        emulated=False,
    ),
    "accounting": Edit(DISRUPTIVE, (slurm(ACCOUNTING),), {"Database": FLEET}, emulated=False),
    "an image of our own": Edit(
        DISRUPTIVE, (cpu_queue("ami: ami-0123456789abcdef0"),), {"Image": FLEET}, emulated=False
    ),
    "another reservation": Edit(
        DISRUPTIVE, OTHER_RESERVATION, {"CapacityReservationId": FLEET}, file="jakarta-80xp5e", emulated=False
    ),
}
