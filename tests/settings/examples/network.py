"""Addresses, zones, egress."""

from __future__ import annotations

from tests.settings.examples.common import EXISTING, NO_MODELS, Bad, C, Good, N, P

GOOD: list[Good] = [
    {f"{N}.cidr": "192.168.4.0/24"},
    {f"{N}.cidr": "172.18.0.0/16"},
    {f"{N}.clients": ["203.0.113.7/32"], f"{N}.grafana": True},
    {f"{N}.clients": ["203.0.113.7/32"], f"{C}.head_node.subnet": "public"},
    {f"{N}.existing": EXISTING},
    {f"{N}.egress": "endpoints-only"},
    {"region": "ap-southeast-3", f"{N}.zone": "apse3-az1"},
]

BAD: list[Bad] = [
    ({f"{N}.cidr": "10.0.0.1/16"}, "network.cidr", "use 10.0.0.0/16"),
    ({f"{N}.cidr": "10.0.0.300/16"}, "network.cidr", "IPv4"),
    ({f"{N}.cidr": "10.0.0.0/15"}, "network.cidr", "/16 to /24"),
    ({f"{N}.cidr": "10.0.0.0/25"}, "network.cidr", "/16 to /24"),
    ({f"{N}.cidr": "8.8.0.0/16"}, "network.cidr", "10.0.0.0/8"),
    ({f"{N}.cidr": "172.17.0.0/16"}, "network.cidr", "Docker"),
    ({f"{N}.cidr": "10.0.0.0/24", f"{P}.max": 200, **NO_MODELS}, "network.cidr", "use a /23"),
    ({f"{N}.cidr": "10.0.0.0/24", f"{P}.efa": False}, "network.cidr", "at least"),
    ({f"{N}.clients": ["0.0.0.0/0"]}, "network.clients[0]", "203.0.113.7/32"),
    ({f"{N}.clients": ["0.0.0.0/1"]}, "network.clients[0]", "/8 or smaller"),
    ({f"{N}.clients": ["203.0.113.7/24"]}, "network.clients[0]", "use 203.0.113.0/24"),
    ({f"{N}.grafana": True}, "network.grafana", "without network.clients"),
    ({f"{N}.existing": EXISTING, f"{N}.cidr": "10.0.0.0/16"}, "network.cidr", "remove the key"),
    ({f"{N}.existing": EXISTING, f"{N}.egress": "endpoints-only"}, "network.egress", "remove the key"),
    ({f"{N}.existing": EXISTING | {"vpc_cidr": "10.0.0.1/16"}}, "network.existing.vpc_cidr", "host bits"),
    (
        {f"{N}.existing": EXISTING | {"public_subnet_id": "subnet-0123456789abcdef0"}},
        "network.existing.public_subnet_id",
        "other than the private",
    ),
    ({f"{N}.zone": "usw2-az1"}, "network.zone", "use1-az1"),
    ({"region": "us-est-1"}, "region", "us-east-1"),
]
