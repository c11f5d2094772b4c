"""Capacity and instance types of queues, head and login nodes."""

from __future__ import annotations

from tests.settings.examples.common import EXISTING, Bad, C, Good, N, P, Q

RESERVATION = "cr-0123456789abcdef0"
GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group/g"

GOOD: list[Good] = [
    {f"{Q}.scratch": "/local"},
    {f"{Q}.capacity": {"type": "odcr", "reservation": RESERVATION}},
    {f"{Q}.capacity": {"type": "odcr", "reservation_group": GROUP}},
    {f"{Q}.capacity": {"type": "capacity-block", "reservation": RESERVATION}, f"{P}.min": 4},
    {f"{Q}.capacity.type": "spot"},
    {f"{P}.min": 4},
    {f"{C}.queues.1.compute.0.instance_types": ["c7i.xlarge", "c6i.xlarge"], f"{C}.slurm.memory_scheduling": True},
    {f"{Q}.root_volume": {"size_gib": 200, "iops": 16000, "throughput": 1000}},
    {f"{Q}.gpu_health_check": True, f"{C}.queues.1.node_health_check": False},
]

BAD: list[Bad] = [
    ({"storage.lustre.1.mount": "/scratch/x"}, "cluster.queues[0].scratch", "/scratch/x"),
    ({f"{Q}.scratch": "/etc"}, "cluster.queues[0].scratch", "do not use"),
    (
        {f"{N}.existing": EXISTING, f"{N}.clients": ["203.0.113.7/32"], f"{C}.head_node.subnet": "public"},
        "cluster.head_node.subnet",
        "public_subnet_id",
    ),
    (
        {f"{N}.egress": "endpoints-only", f"{N}.clients": ["203.0.113.7/32"], f"{C}.head_node.subnet": "public"},
        "cluster.head_node.subnet",
        "no internet gateway",
    ),
    ({f"{C}.head_node.subnet": "public"}, "cluster.head_node.subnet", "network.clients"),
    ({f"{C}.login_nodes.subnet": "public"}, "cluster.login_nodes.subnet", "network.clients"),
    (
        {f"{C}.login_nodes": {"subnet": "public", "instance_type": "p5.48xlarge"}, f"{N}.clients": ["203.0.113.7/32"]},
        "cluster.login_nodes.instance_type",
        "32 network cards",
    ),
    ({f"{Q}.capacity.type": "odcr"}, "cluster.queues[0].capacity", "exactly one"),
    (
        {f"{Q}.capacity": {"type": "odcr", "reservation": RESERVATION, "reservation_group": GROUP}},
        "cluster.queues[0].capacity",
        "exactly one",
    ),
    ({f"{Q}.capacity": {"type": "spot", "reservation": RESERVATION}}, "cluster.queues[0].capacity.reservation", "spot"),
    ({f"{Q}.capacity.reservation_group": GROUP}, "cluster.queues[0].capacity.reservation_group", "on-demand"),
    ({f"{Q}.capacity.type": "capacity-block", f"{P}.min": 4}, "cluster.queues[0].capacity", "without reservation"),
    (
        {f"{Q}.capacity": {"type": "capacity-block", "reservation": RESERVATION}},
        "cluster.queues[0].compute[0].min",
        "min = max",
    ),
    (
        {
            f"{Q}.capacity": {"type": "capacity-block", "reservation": RESERVATION, "reservation_group": GROUP},
            f"{P}.min": 4,
        },
        "cluster.queues[0].capacity.reservation_group",
        "alone",
    ),
    (
        {
            f"{Q}.capacity": {"type": "capacity-block", "reservation": RESERVATION},
            f"{P}.min": 4,
            f"{Q}.placement_group": True,
        },
        "cluster.queues[0].placement_group",
        "own placement",
    ),
    (
        {
            f"{Q}.capacity": {"type": "odcr", "reservation": RESERVATION},
            f"{P}.instance_types": ["p5.48xlarge", "p5en.48xlarge"],
        },
        "cluster.queues[0].capacity.reservation",
        "one instance type",
    ),
    (
        {f"{P}.instance_types": ["p5.48xlage"]},
        "cluster.queues[0].compute[0].instance_types[0]",
        "did you mean p5.48xlarge",
    ),
    (
        {"region": "ap-southeast-3", f"{N}.zone": "apse3-az1", f"{C}.head_node.instance_type": "c6i.4xlarge"},
        "cluster.head_node.instance_type",
        "c7i.4xlarge",
    ),
    ({f"{C}.head_node.instance_type": "m7g.2xlarge"}, "cluster.queues[0].compute[0].instance_types[0]", "arm64"),
    ({f"{C}.queues.1.compute.0.efa": True}, "cluster.queues[1].compute[0].efa", "c7i.metal-48xl"),
    (
        {f"{P}.instance_types": ["p5.48xlarge", "p4d.24xlarge"]},
        "cluster.queues[0].compute[0].instance_types[1]",
        "vCPUs",
    ),
    (
        {f"{C}.queues.1.compute.0.instance_types": ["g5.xlarge", "c7i.xlarge"]},
        "cluster.queues[1].compute[0].instance_types[1]",
        "GPUs",
    ),
    ({f"{P}.instance_types": ["p5.48xlarge"] * 2}, "cluster.queues[0].compute[0].instance_types", "each type once"),
    (
        {f"{C}.queues.1.compute.0.instance_types": ["c7i.xlarge", "r7i.xlarge"], f"{C}.slurm.memory_scheduling": True},
        "cluster.queues[1].compute[0].instance_types[1]",
        "memory_scheduling",
    ),
    ({f"{P}.min": 5}, "cluster.queues[0].compute[0].min", "at most max, 4"),
    (
        {
            f"{C}.queues.2": {
                "name": "many",
                "compute": [{"name": f"c{i}", "instance_types": ["c7i.large"], "max": 1} for i in range(49)],
            }
        },
        "cluster.queues",
        "at most 50",
    ),
    (
        {f"{C}.head_node.instance_type": "t3.small", f"{C}.queues.1.compute.0.max": 100},
        "cluster.head_node.instance_type",
        "GiB",
    ),
    ({f"{C}.queues.1.gpu_health_check": True}, "cluster.queues[1].gpu_health_check", "c7i.xlarge"),
    ({f"{C}.os": "rocky9"}, "cluster.head_node.ami", "publishes none"),
    (
        {f"{Q}.root_volume": {"size_gib": 100, "throughput": 1000}},
        "cluster.queues[0].root_volume.throughput",
        "iops to 4000",
    ),
]
