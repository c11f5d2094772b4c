"""Puts the parts of the emulator into ministack, in the order in which they need each other."""

from __future__ import annotations

import argparse
import contextvars
import json
from typing import Any

from ministack.core.responses import request_scope

from local.emulator import (
    custom_resources,
    deletions,
    drift,
    fleet,
    head_node,
    public_template,
    quotas,
    repairs,
    seeds,
    service_sessions,
    ssm,
    steering,
)
from local.emulator.cloudformation import ec2_types, provide
from local.emulator.ec2 import catalogue, images, instances, reservations
from local.emulator.fsx import resources


def install(given: argparse.Namespace) -> None:
    """Extend ministack, and seed the accounts and regions of the emulator."""
    gateway_url = f"http://127.0.0.1:{given.port}"
    catalogue.install()
    reservations.install()
    instances.install(images.install(given.parallelcluster_version))
    for part in (
        *(resources, quotas, ec2_types, repairs),
        *(custom_resources, deletions, drift, ssm),
    ):
        part.install()
    # Last: every type without a provider is recorded.
    provide.record_others()
    head_node.install(gateway_url)
    others = json.loads(given.others.read_text()) if given.others else []
    _public_templates(given, others, gateway_url)
    for other in others:
        with request_scope(other["account"], other["region"]):
            seeds.put(other["seeds"], str(given.others))
    with request_scope(given.account, given.region):
        if given.seeds:
            seeds.load(given.seeds)
        steering.install(
            {
                "agent": ssm.order_agent,
                "fleet": lambda wish: fleet.order(wish, gateway_url),
                "jobs": ssm.order,
                "nodes": fleet.start_nodes,
                "seeds": seeds.put,
                "seeds-in": seeds.put_in,
                "session": service_sessions.order,
            },
            contextvars.copy_context(),
        )


def _public_templates(given: argparse.Namespace, others: list[dict[str, Any]], gateway_url: str) -> None:
    """A template in each region; bucket names are one for all accounts, so each knows the API of every account."""
    ports = {given.region: {given.account: given.api_port}}
    for other in others:
        ports.setdefault(other["region"], {})[other["account"]] = other["api_port"]
    for region, apis in ports.items():
        urls = {account: f"http://127.0.0.1:{port}" for account, port in apis.items()}
        with request_scope(next(iter(apis)), region):
            public_template.install(given.parallelcluster_version, urls, gateway_url)
