"""The queues and their compute resources."""

from __future__ import annotations

from settings.model.cluster import Capacity, Compute, Queue
from trainyard.cluster_config.custom_actions import compute_actions
from trainyard.cluster_config.gpus import has_gpus
from trainyard.cluster_config.iam import compute_iam
from trainyard.cluster_config.image import custom_image
from trainyard.cluster_config.references import References
from trainyard.cluster_config.section import Section
from trainyard.cluster_config.volumes import root_volume

_CAPACITY_TYPES = {
    "on-demand": "ONDEMAND",
    "odcr": "ONDEMAND",
    "spot": "SPOT",
    "capacity-block": "CAPACITY_BLOCK",
}


def queue(settings: Queue, references: References, region: str) -> Section:
    """One of the SlurmQueues."""
    return {
        "Name": settings.name,
        "CapacityType": _CAPACITY_TYPES[settings.capacity.type],
        **_reservation(settings.capacity),
        "JobExclusiveAllocation": settings.exclusive,
        **custom_image(settings.ami),
        "Networking": {
            "SubnetIds": [references.compute_subnet_id],
            "AdditionalSecurityGroups": list(references.compute_security_group_ids),
            # Explicit always: ParallelCluster demands it with EFA.
            "PlacementGroup": {"Enabled": _placement_group(settings)},
        },
        "ComputeSettings": {"LocalStorage": _local_storage(settings)},
        **compute_actions(references, region),
        "Iam": compute_iam(references),
        "ComputeResources": [_compute_resource(compute, settings) for compute in settings.compute],
    }


def _compute_resource(settings: Compute, its_queue: Queue) -> Section:
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
        # Here and not for the queue, which may hold types with GPUs beside others.
        "HealthChecks": {"Gpu": {"Enabled": _gpu_health_check(settings, its_queue)}},
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
    # Reserved capacity has its place already; a placement group beside it can only make instances fail to start.
    return settings.capacity.type in ("on-demand", "spot") and any(c.efa for c in settings.compute)


def _local_storage(settings: Queue) -> Section:
    return {
        "RootVolume": root_volume(settings.root_volume),
        "EphemeralVolume": {"MountDir": settings.scratch},
    }


def _gpu_health_check(settings: Compute, its_queue: Queue) -> bool:
    if its_queue.gpu_health_check is not None:
        return its_queue.gpu_health_check
    return all(has_gpus(instance_type) for instance_type in settings.instance_types)
