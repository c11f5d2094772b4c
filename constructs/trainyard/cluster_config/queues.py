"""The queues and their compute resources."""

from __future__ import annotations

from settings.instances import instance_types
from settings.model.cluster import Capacity, Compute, Queue
from trainyard.cluster_config.nodes import custom_actions, custom_image, policies, read_access, root_volume
from trainyard.cluster_config.references import References, Section

_CAPACITY_TYPES = {
    "on-demand": "ONDEMAND",
    "odcr": "ONDEMAND",
    "spot": "SPOT",
    "capacity-block": "CAPACITY_BLOCK",
}


def queue(settings: Queue, references: References, region: str) -> Section:
    """One of the SlurmQueues. Compute nodes have no Session Manager: users come from the head node."""
    return {
        "Name": settings.name,
        "CapacityType": _CAPACITY_TYPES[settings.capacity.type],
        **_reservation(settings.capacity),
        "JobExclusiveAllocation": settings.exclusive,
        **custom_image(settings.ami),
        "Networking": {
            "SubnetIds": [references.compute_subnet_id],
            "AdditionalSecurityGroups": list(references.compute_security_group_ids),
            # Always explicit: ParallelCluster requires it with EFA.
            "PlacementGroup": {"Enabled": _placement_group(settings)},
        },
        "ComputeSettings": {
            "LocalStorage": {
                "RootVolume": root_volume(settings.root_volume),
                "EphemeralVolume": {"MountDir": settings.scratch},
            }
        },
        # Both run at each start of a node.
        **custom_actions(
            references, region, {"OnNodeStart": "compute-start", "OnNodeConfigured": "compute-configured"}
        ),
        "Iam": {**policies(*references.compute_policy_arns), "S3Access": read_access(references)},
        "ComputeResources": [_compute_resource(compute, settings) for compute in settings.compute],
    }


def _compute_resource(settings: Compute, queue: Queue) -> Section:
    types = settings.instance_types
    # A capacity block takes InstanceType only, and a single type reads better so.
    instances: Section = (
        {"InstanceType": types[0]} if len(types) == 1 else {"Instances": [{"InstanceType": t} for t in types]}
    )
    return {
        "Name": settings.name,
        **instances,
        "MinCount": settings.min,
        "MaxCount": settings.max,
        "Efa": {"Enabled": settings.efa},
        # Not set for the queue, which may hold types with and without GPUs.
        "HealthChecks": {"Gpu": {"Enabled": _gpu_health_check(settings, queue)}},
    }


def _reservation(capacity: Capacity) -> Section:
    if capacity.reservation:
        return {"CapacityReservationTarget": {"CapacityReservationId": capacity.reservation}}
    if capacity.reservation_group:
        return {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": capacity.reservation_group}}
    return {}


def _placement_group(settings: Queue) -> bool:
    if settings.placement_group is not None:
        return settings.placement_group
    # Reserved capacity has its place already; a placement group could only make instances fail to start.
    return settings.capacity.type in ("on-demand", "spot") and any(c.efa for c in settings.compute)


def _gpu_health_check(settings: Compute, queue: Queue) -> bool:
    if queue.gpu_health_check is not None:
        return queue.gpu_health_check
    known = instance_types()
    return all(name in known and known[name].gpus > 0 for name in settings.instance_types)
