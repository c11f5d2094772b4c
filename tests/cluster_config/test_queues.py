"""Queues and compute resources as they are rendered."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster_config.builder import GPU, rendered, rendered_queue

RESERVATION = "cr-0123456789abcdef0"


def test_several_instance_types() -> None:
    compute = {**GPU, "instance_types": ["p5.48xlarge", "p5e.48xlarge"]}
    resource = rendered_queue(compute=[compute])["ComputeResources"][0]
    assert "InstanceType" not in resource
    assert resource["Instances"] == [{"InstanceType": "p5.48xlarge"}, {"InstanceType": "p5e.48xlarge"}]


@pytest.mark.parametrize(
    ("capacity", "kind", "target"),
    [
        ({"type": "on-demand"}, "ONDEMAND", None),
        ({"type": "spot"}, "SPOT", None),
        ({"type": "odcr", "reservation": RESERVATION}, "ONDEMAND", {"CapacityReservationId": RESERVATION}),
        (
            {"type": "capacity-block", "reservation": RESERVATION},
            "CAPACITY_BLOCK",
            {"CapacityReservationId": RESERVATION},
        ),
        (
            {"type": "odcr", "reservation_group": "arn:aws:resource-groups:us-east-1:123456789012:group/odcr"},
            "ONDEMAND",
            {"CapacityReservationResourceGroupArn": "arn:aws:resource-groups:us-east-1:123456789012:group/odcr"},
        ),
    ],
)
def test_capacity(capacity: dict[str, str], kind: str, target: dict[str, str] | None) -> None:
    queue = rendered_queue(capacity=capacity)
    assert queue["CapacityType"] == kind
    assert queue.get("CapacityReservationTarget") == target


@pytest.mark.parametrize(
    ("queue", "enabled"),
    [
        ({}, True),
        ({"capacity": {"type": "spot"}}, True),
        ({"capacity": {"type": "odcr", "reservation": RESERVATION}}, False),
        ({"capacity": {"type": "capacity-block", "reservation": RESERVATION}}, False),
        ({"capacity": {"type": "odcr", "reservation": RESERVATION}, "placement_group": True}, True),
        ({"placement_group": False}, False),
        ({"compute": [{**GPU, "efa": False}]}, False),
    ],
)
def test_placement_group_is_explicit(queue: dict[str, Any], enabled: bool) -> None:
    assert rendered_queue(**queue)["Networking"]["PlacementGroup"] == {"Enabled": enabled}


def test_local_storage() -> None:
    storage = rendered_queue(root_volume={"size_gib": 200, "iops": 16000, "throughput": 1000})["ComputeSettings"]
    assert storage["LocalStorage"]["EphemeralVolume"] == {"MountDir": "/scratch"}
    assert storage["LocalStorage"]["RootVolume"] == {
        "VolumeType": "gp3",
        "Size": 200,
        "Iops": 16000,
        "Throughput": 1000,
        "Encrypted": True,
    }
    elsewhere = rendered_queue(scratch="/nvme")["ComputeSettings"]["LocalStorage"]
    assert elsewhere["EphemeralVolume"] == {"MountDir": "/nvme"}


@pytest.mark.parametrize(
    ("queue", "enabled"),
    [
        ({}, [True]),
        ({"gpu_health_check": False}, [False]),
        ({"compute": [GPU, {"name": "c7i", "instance_types": ["c7i.xlarge"], "max": 1}]}, [True, False]),
        ({"compute": [{"name": "g5", "instance_types": ["g5.8xlarge"], "max": 1}]}, [True]),
    ],
)
def test_gpu_health_check_where_there_are_gpus(queue: dict[str, Any], enabled: list[bool]) -> None:
    resources = rendered_queue(**queue)["ComputeResources"]
    assert [resource["HealthChecks"]["Gpu"]["Enabled"] for resource in resources] == enabled


def test_exclusive_jobs_and_own_image() -> None:
    queue = rendered_queue(exclusive=True, ami="ami-0123456789abcdef0")
    assert queue["JobExclusiveAllocation"] is True
    assert queue["Image"] == {"CustomAmi": "ami-0123456789abcdef0"}
    assert rendered_queue()["JobExclusiveAllocation"] is False


@pytest.mark.parametrize(
    ("queue", "slurm", "expected"),
    [
        # p5.48xlarge: 192 vCPUs, 2,097,152 MiB, 8 GPUs.
        ({}, {"memory_scheduling": True}, {"DefMemPerCPU": "10376", "DefCpuPerGPU": "21"}),
        # The smallest type decides: c7i.xlarge has 4 vCPUs and 8,192 MiB.
        (
            {"compute": [GPU, {"name": "c7i", "instance_types": ["c7i.xlarge"], "max": 1}]},
            {"memory_scheduling": True},
            {"DefMemPerCPU": "1945", "DefCpuPerGPU": "21"},
        ),
        (
            {"compute": [{"name": "c7i", "instance_types": ["c7i.xlarge"], "max": 1}]},
            {"memory_scheduling": True},
            {"DefMemPerCPU": "1945"},
        ),
        ({}, {}, None),
        ({"exclusive": True}, {"memory_scheduling": True}, None),
        ({}, {"memory_scheduling": True, "settings": {"defmempercpu": 1000}}, None),
    ],
)
def test_a_shared_node_gives_each_job_its_share_of_memory_and_cpus(
    queue: dict[str, Any], slurm: dict[str, Any], expected: dict[str, str] | None
) -> None:
    queues = [{"name": "gpu", "compute": [GPU], **queue}]
    (found,) = rendered(cluster={"queues": queues, "slurm": slurm})["Scheduling"]["SlurmQueues"]
    assert found.get("CustomSlurmSettings") == expected
