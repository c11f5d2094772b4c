"""Puts the parts of the emulator into ministack, in the order in which they need each other."""

from __future__ import annotations

import contextvars
from typing import Any

from ministack.core.responses import request_scope

from local.emulator import (
    custom_resources,
    deletions,
    drift,
    head_node,
    instructions,
    public_template,
    quotas,
    repairs,
    seeds,
    service_sessions,
    ssm,
)
from local.emulator.cloudformation import ec2_types, provide
from local.emulator.ec2 import catalogue, images, instances, reservations
from local.emulator.fsx import resources


def install(given: dict[str, Any]) -> None:
    """Extend ministack, and seed the accounts and regions of the emulator, for what launch.start was given."""
    gateway_url = f"http://127.0.0.1:{given['port']}"
    catalogue.install()
    reservations.install()
    instances.install(images.install(given["parallelcluster_version"]))
    for part in (resources, quotas, ec2_types, repairs, custom_resources, deletions, drift, ssm):
        part.install()
    # Last: every type without a provider is recorded.
    provide.record_others()
    head_node.install(gateway_url)
    accounts = [given, *given["others"]]
    # A template in each region; bucket names are one for all accounts, so each knows the API of every account.
    for region in {account["region"] for account in accounts}:
        here = [account for account in accounts if account["region"] == region]
        urls = {account["account"]: f"http://127.0.0.1:{account['api_port']}" for account in here}
        with request_scope(here[0]["account"], region):
            public_template.install(given["parallelcluster_version"], urls, gateway_url)
    for account in accounts:
        with request_scope(account["account"], account["region"]):
            seeds.put(account["seeds"])
    with request_scope(given["account"], given["region"]):
        instructions.install(
            {
                "agent": ssm.set_agent,
                "fleet": lambda given: head_node.set_fleet(given, gateway_url),
                "jobs": ssm.set_jobs,
                "nodes": head_node.add_nodes,
                "seeds": seeds.put_into,
                "session": service_sessions.create,
            },
            contextvars.copy_context(),
        )
