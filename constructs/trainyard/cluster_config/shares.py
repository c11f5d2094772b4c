"""Parameters of slurm.conf and of partitions for teams that share the cluster (docs/shares.md)."""

from __future__ import annotations

from settings.instances import instance_types
from settings.model.cluster import Queue
from settings.model.environment import Environment
from settings.model.teams import MAX_PRIORITY
from settings.shares import gpus_of, is_shared

# The quality of service decides, then fair share, then the time in the queue, which orders the jobs of one user. Slurm
# divides a QOS's priority by the largest one, so a step of one is at least 1/MAX_PRIORITY of its weight.
_FAIR_SHARE, _AGE = 100_000, 10_000
_QOS = 2 * MAX_PRIORITY * (_FAIR_SHARE + _AGE)

PARAMETERS = {
    "AccountingStorageEnforce": "associations,limits,qos,safe",
    "AccountingStorageTRES": "gres/gpu",
    "PriorityType": "priority/multifactor",
    "PriorityWeightQOS": str(_QOS),
    "PriorityWeightFairshare": str(_FAIR_SHARE),
    "PriorityWeightAge": str(_AGE),
    # Usage of a week ago counts half.
    "PriorityDecayHalfLife": "7-0",
    # A job uses what it blocks: the largest of its shares of GPUs and of CPUs, see billing_weights.
    "PriorityFlags": "MAX_TRES",
    "PreemptType": "preempt/qos",
    "PreemptMode": "REQUEUE",
    # A job that asked for a signal before its time limit gets it when it is preempted (slurm.conf(5), 24.11).
    "PreemptParameters": "send_user_signal",
}
"""Parameters of slurm.conf of a shared cluster."""


def share_settings(environment: Environment) -> dict[str, str]:
    """Parameters of slurm.conf; none if the environment has no teams, qualities of service or reservations.

    ParallelCluster sets none of them (parallelcluster/facts/cookbook.json) and denies none (pcluster 3.16.1,
    validators/slurm_settings_validator.py). An association or a QOS with a limit of GPUs needs gres/gpu as a TRES.
    """
    return dict(PARAMETERS) if is_shared(environment) else {}


def billing_weights(environment: Environment, queue: Queue) -> dict[str, str]:
    """What a job on the queue uses, in GPUs: TRESBillingWeights of its partition; none without shares.

    A GPU is one, and its share of the node's CPUs is one too, so jobs that take all CPUs of a node pay for its GPUs.
    On nodes without GPUs a CPU counts a hundredth. Nothing if an instance type is unknown.
    """
    known = instance_types()
    names = [name for compute in queue.compute for name in compute.instance_types]
    if not is_shared(environment) or not all(name in known for name in names):
        return {}
    if not any(gpus_of(compute) for compute in queue.compute):
        return {"TRESBillingWeights": "CPU=0.01"}
    share = min(known[name].gpus / known[name].vcpus for name in names if known[name].gpus)
    return {"TRESBillingWeights": f"CPU={share:.4f},GRES/gpu=1.0"}
