"""The product's bootstrap on a laboratory's nodes, in ParallelCluster's order: head node, then compute nodes.

The assets are published to the laboratory's bucket as a deployment does; the entry script gets a custom action's
arguments.
"""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local.slurm import monitoring
from local.slurm.laboratory import Laboratory
from ops.problem import Problem
from trainyard import cluster_bundle
from trainyard.cluster_people import PEOPLE

BUCKETS = "/run/lab/s3"
LIMIT_S = 600


def publish(laboratory: Laboratory, assets: Path = cluster_bundle.ASSETS) -> str:
    """Put the bundle, its pointer and settings.json into the assets bucket. Returns the bundle's SHA-256."""
    bundle = cluster_bundle.build(assets, laboratory.plan.environment.cluster.hooks)
    bucket = laboratory.path(f"{BUCKETS}/{laboratory.plan.buckets['assets']}")
    cluster_bundle.stage(bundle, bucket, assets)
    (bucket / cluster_bundle.SETTINGS).write_text(json.dumps(laboratory.plan.settings(), indent=1))
    if people := laboratory.plan.people:
        (bucket / PEOPLE).write_text(json.dumps(people))
    return bundle.sha256


def run(laboratory: Laboratory, node: str, role: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one custom action on a node as ParallelCluster does: the entry script under a temporary name, as root.

    Raises:
        Problem: it failed, and `check` is true; the message is the script's reason.
    """
    bucket = laboratory.plan.buckets["assets"]
    fetch = 'aws s3 cp --only-show-errors "s3://$1/cluster/entry/entry.sh" "$script"'
    script = f'set -e; script="$(mktemp)"; {fetch}; exec bash "$script" "$@"'
    arguments = [bucket, role, laboratory.plan.environment.region]
    result = laboratory.run(
        ["bash", "-c", script, "custom-action", *arguments], node=node, user="root", check=False, timeout=LIMIT_S
    )
    if check and result.returncode:
        raise Problem(
            f"the bootstrap of {node} as {role} ended with {result.returncode}: "
            f"{result.stderr.strip() or result.stdout[-2000:]}"
        )
    return result


def all_nodes(laboratory: Laboratory) -> None:
    """Publish the assets and bootstrap the head node, then all other nodes in parallel; for `before_slurmd`.

    With `metrics_s` in the plan, also start Prometheus and Alertmanager.
    """
    publish(laboratory, monitoring.assets(laboratory) if laboratory.plan.metrics_s else cluster_bundle.ASSETS)
    run(laboratory, "head", "head-configured")
    with ThreadPoolExecutor(max_workers=len(laboratory.plan.compute)) as pool:
        logins = [pool.submit(run, laboratory, node.name, "login-configured") for node in laboratory.plan.logins]
        computes = [pool.submit(compute_node, laboratory, node.name) for node in laboratory.plan.compute]
        for login in logins:
            login.result()
        for compute in computes:
            compute.result()
    if laboratory.plan.metrics_s:
        monitoring.start(laboratory)


def compute_node(laboratory: Laboratory, node: str) -> None:
    """Bootstrap one compute node that has no slurmd yet."""
    for role in ("compute-start", "compute-configured"):
        run(laboratory, node, role)


def start(laboratory: Laboratory, node: str) -> None:
    """Start a killed node, bootstrap it, and let it join."""
    laboratory.start(node, slurmd=False)
    compute_node(laboratory, node)
    laboratory.join(node)


def pyxis(laboratory: Laboratory) -> None:
    """Enable Pyxis and configure Enroot without the bootstrap, with ParallelCluster's examples."""
    examples, etc = "/opt/parallelcluster/examples", "/opt/slurm/etc"
    laboratory.run(
        f"mkdir -p {etc}/plugstack.conf.d && cp {examples}/pyxis/pyxis.conf {etc}/plugstack.conf.d/ && "
        f"cp {examples}/spank/plugstack.conf {etc}/",
        user="root",
    )
    for node in laboratory.plan.nodes:
        laboratory.run(
            f"install -d -m 1777 /run/enroot /var/enroot/cache /var/enroot/data && install -d -m 755 /run/pyxis && "
            f"install -D -m 644 {examples}/enroot/enroot.conf /etc/enroot/enroot.conf",
            node=node.name,
            user="root",
        )
