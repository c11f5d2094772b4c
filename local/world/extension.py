"""Puts the parts of the world into ministack, in the order in which they need each other."""

from __future__ import annotations

import argparse
import contextvars

from ministack.core.responses import request_scope

from local.world import custom_resources, deletions, fleet, head_node, jobs, public_template, repairs, seeds, steering
from local.world.cloudformation import compute, network, recorded
from local.world.ec2 import catalogue, images, instances, reservations
from local.world.fsx import authorization, resources, service


def install(given: argparse.Namespace) -> None:
    """Extend ministack and seed the account and region that the world stands for."""
    gateway_url = f"http://127.0.0.1:{given.port}"
    catalogue.install()
    reservations.install()
    instances.install(images.install(given.parallelcluster_version))
    instances.install_interfaces()
    service.install()
    authorization.install()
    network.install()
    compute.install()
    resources.install()
    repairs.install()
    custom_resources.install()
    deletions.install()
    # Last: whatever has no provider by now is recorded.
    recorded.install()
    head_node.install(gateway_url)
    jobs.install()
    with request_scope(given.account, given.region):
        public_template.install(given.parallelcluster_version, f"http://127.0.0.1:{given.api_port}", gateway_url)
        if given.seeds:
            seeds.load(given.seeds)
        steering.install(
            {
                "fleet": lambda wish: fleet.order(wish, gateway_url),
                "jobs": jobs.order,
                "nodes": fleet.start_nodes,
                "seeds": seeds.put,
            },
            contextvars.copy_context(),
        )
