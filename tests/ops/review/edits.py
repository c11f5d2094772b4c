"""Edits of the shipped environment files, as people make them, with what each must come to."""

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

CLUSTER: dict[str, Edit] = {
    "more nodes": Edit(Level.SAFE, ((GPU_MAX, r"max: 4\1"),)),
    "fewer nodes": Edit(Level.DISRUPTIVE, ((GPU_MAX, r"max: 1\1"),), {"MaxCount": FLEET}),
    "static nodes out of dynamic ones": Edit(
        Level.DISRUPTIVE, ((GPU_MAX, r"min: 1\n          max: 2\1"),), {"MinCount": FLEET}
    ),
    "static nodes on top": Edit(Level.SAFE, ((GPU_MAX, r"min: 1\n          max: 3\1"),)),
    "a new queue": Edit(Level.SAFE, ((r"  slurm:", QUEUE),)),
    "a queue removed": Edit(Level.DISRUPTIVE, ((r"    - name: cpu\n(      .*\n)+", ""),), {"SlurmQueues[cpu]": FLEET}),
    "a queue renamed": Edit(Level.DISRUPTIVE, ((r"- name: cpu", "- name: batch"),), {"SlurmQueues[cpu]": FLEET}),
    "another operating system": Edit(Level.DESTRUCTIVE, ((r"ubuntu2204", "ubuntu2404"),), {"Image.Os": NEW}),
    "another head node": Edit(Level.DESTRUCTIVE, ((r"m7i\.2xlarge", "m7i.4xlarge"),), {"HeadNode.InstanceType": NEW}),
    "a larger disk of the head node": Edit(
        Level.DESTRUCTIVE,
        ((r"(m7i\.2xlarge)", r"\1\n    root_volume:\n      size_gib: 200"),),
        {"HeadNode.LocalStorage.RootVolume.Size": NEW},
    ),
    "idle nodes kept longer": Edit(
        Level.DISRUPTIVE, ((r"scaledown_minutes: 10", "scaledown_minutes: 20"),), {"ScaledownIdletime": FLEET}
    ),
    "scheduling by memory": Edit(
        Level.DISRUPTIVE,
        ((r"(scaledown_minutes: 10)", r"\1\n    memory_scheduling: true"),),
        {"EnableMemoryBasedScheduling": FLEET},
    ),
    "best-effort scaling": Edit(Level.SAFE, ((r"(scaledown_minutes: 10)", r"\1\n    scaling: best-effort"),)),
    "settings of slurm.conf": Edit(
        Level.SAFE, ((r"(scaledown_minutes: 10)", r"\1\n    settings: {MessageTimeout: 60}"),)
    ),
    "a tag": Edit(Level.SAFE, ((r"(project: trainyard)", r"\1\n  team: research"),)),
    "logs kept longer": Edit(Level.SAFE, ((r"  log_days: 7", "  log_days: 14"),)),
    "no dashboard": Edit(Level.SAFE, ((r"(    log_days: 7)", r"\1\n    dashboard: false"),)),
    "detailed monitoring": Edit(
        Level.DISRUPTIVE, ((r"(    log_days: 7)", r"\1\n    detailed: true"),), {"DetailedMonitoring": FLEET}
    ),
    "EFA off": Edit(
        Level.DISRUPTIVE, ((r"efa: true", "efa: false"),), {"Efa.Enabled": FLEET, "PlacementGroup.Enabled": FLEET}
    ),
    "another strategy alone": Edit(Level.SAFE, ((r"(scaledown_minutes: 10)", r"\1\n    queue_update: TERMINATE"),)),
    "fewer nodes, by a strategy that ends them": Edit(
        Level.DISRUPTIVE,
        ((GPU_MAX, r"max: 1\1"), (r"(scaledown_minutes: 10)", r"\1\n    queue_update: TERMINATE")),
        {"MaxCount": FLEET},
    ),
    "other instances in a queue": Edit(Level.DISRUPTIVE, ((r"c7i\.xlarge", "c7i.2xlarge"),), {"InstanceType": FLEET}),
    "scratch elsewhere": Edit(
        Level.DISRUPTIVE, ((r"(exclusive: true)", r"\1\n      scratch: /nvme"),), {"EphemeralVolume.MountDir": FLEET}
    ),
    "a larger disk of compute nodes": Edit(
        Level.DISRUPTIVE,
        ((r"(exclusive: true)", r"\1\n      root_volume:\n        size_gib: 200"),),
        {"RootVolume.Size": FLEET},
    ),
    "spot instances": Edit(
        Level.DISRUPTIVE, ((r"(- name: cpu)", r"\1\n      capacity: {type: spot}"),), {"CapacityType": FLEET}
    ),
    "no placement group": Edit(
        Level.DISRUPTIVE,
        ((r"(exclusive: true)", r"\1\n      placement_group: false"),),
        {"PlacementGroup.Enabled": FLEET},
    ),
    "no health check of GPUs": Edit(Level.SAFE, ((r"(exclusive: true)", r"\1\n      gpu_health_check: false"),)),
    "jobs share nodes": Edit(Level.SAFE, ((r"exclusive: true", "exclusive: false"),)),
    "login nodes": Edit(Level.SAFE, ((r"  queues:", LOGIN.format(count=1, kind="m7i.xlarge")),), emulated=False),
    "other login nodes": Edit(
        Level.DISRUPTIVE,
        ((r"m7i\.xlarge", "m7i.2xlarge"),),
        {"InstanceType": Need.LOGIN},
        before=((r"  queues:", LOGIN.format(count=1, kind="m7i.xlarge")),),
        emulated=False,
    ),
    "a head node with a public address": Edit(
        Level.DESTRUCTIVE,
        ((r"(m7i\.2xlarge)", r"\1\n    subnet: public"),),
        {"SubnetId": NEW},
        before=((r"(cidr: 10\.0\.0\.0/16)", r"\1\n  clients: [203.0.113.0/24]"),),
        emulated=False,
    ),
    "Lustre mounted elsewhere": Edit(Level.DISRUPTIVE, ((r"mount: /fsx", "mount: /lustre"),), {"MountDir": FLEET}),
    "homes mounted elsewhere": Edit(Level.DISRUPTIVE, ((r"mount: /home", "mount: /homes"),), {"MountDir": FLEET}),
    "accounting": Edit(
        Level.DISRUPTIVE,
        (
            (
                r"(scaledown_minutes: 10)",
                r"\1\n    accounting: {uri: 'db.example.com:3306', user: slurm, password_secret_arn: "
                r"'arn:aws:secretsmanager:us-east-1:000000000000:secret:slurm-abcdef'}",
            ),
        ),
        {"Database": FLEET},
        emulated=False,
    ),
    "an image of our own": Edit(
        Level.DISRUPTIVE,
        ((r"(- name: cpu)", r"\1\n      ami: ami-0123456789abcdef0"),),
        {"Image": FLEET},
        emulated=False,
    ),
    "another reservation": Edit(
        Level.DISRUPTIVE,
        ((r"cr-0123456789abcdef0", "cr-0fedcba9876543210"),),
        {"CapacityReservationId": FLEET},
        file="jakarta-80xp5e",
        emulated=False,
    ),
}
