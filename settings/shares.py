"""Teams, qualities of service and reservations as the head node gets them, and the GPUs that they can use."""

from __future__ import annotations

from settings.instances import instance_types
from settings.model.cluster import Compute
from settings.model.environment import Environment, Model
from settings.model.teams import Team

METADATA = "Trainyard::Shares"
"""Key of the cluster template's metadata with the shares, which a review compares."""
OPERATIONS = "operations"
"""Account of the cluster's user and of administrators: validation, import of images, maintenance."""
RESERVED = {
    "root": "Slurm's own account",
    "default": "a word of Slurm's commands",
    "pcdefault": "an account that ParallelCluster makes",
    OPERATIONS: "the account of the cluster's user and of administrators",
}
"""Names that a team cannot have, and whose they are."""
NORMAL = "normal"
"""The quality of service that Slurm makes with its database."""


def is_shared(environment: Environment) -> bool:
    """Whether the environment describes shares."""
    return bool(environment.teams or environment.qos or environment.reservations)


def shares(environment: Environment) -> dict[str, object]:
    """The keys of `people.json` that cluster_assets/people/apply_shares.py reads. Pure."""
    return {
        "teams": [
            team.model_dump(mode="json") | {"max_gpus": most_gpus(environment, team)} for team in environment.teams
        ],
        "qos": [qos.model_dump(mode="json") for qos in environment.qos],
        "reservations": [reservation.model_dump(mode="json") for reservation in environment.reservations],
        "models": [{"name": model.name, "team": model.team} for model in environment.models if model.team],
    }


def most_gpus(environment: Environment, team: Team) -> int | None:
    """The GPUs that jobs of a team may use at a time: `max_gpus`, else those of its models, else None (no limit)."""
    return team.max_gpus or models_gpus(environment, team.name) or None


def models_gpus(environment: Environment, team: str) -> int:
    """GPUs of the nodes of a team's models, all together; 0 without models, or if instance types are unknown."""
    return sum(model_gpus(environment, model) for model in environment.models if model.team == team)


def model_gpus(environment: Environment, model: Model) -> int:
    """GPUs of a model's nodes: those of the queue's largest instance type."""
    queue = next((queue for queue in environment.cluster.queues if queue.name == model.queue), None)
    return model.nodes * max((gpus_of(compute) for compute in queue.compute), default=0) if queue else 0


def cluster_gpus(environment: Environment) -> int:
    """GPUs of the cluster at full size."""
    return sum(compute.max * gpus_of(compute) for queue in environment.cluster.queues for compute in queue.compute)


def gpus_of(compute: Compute) -> int:
    """GPUs of one node of a compute resource; 0 if its instance types are unknown."""
    known = instance_types()
    return max((known[name].gpus for name in compute.instance_types if name in known), default=0)
