"""The scripts that ParallelCluster runs on the nodes.

The head node's scripts and arguments can never change while the cluster lives, and a queue's not without stopping
its nodes. So a URI and its arguments name nothing that has a version: the script itself looks up the current bundle.
The arguments are the assets bucket, the role of the run, and the region (cluster_assets/README.md).
"""

from __future__ import annotations

from trainyard.cluster_config.references import EntryScript, References
from trainyard.cluster_config.section import Section


def head_node_actions(references: References, region: str) -> Section:
    """`head-configured` once, when the head node is set up; `updated` at each update of the cluster."""
    return _actions(references, region, {"OnNodeConfigured": "head-configured", "OnNodeUpdated": "updated"})


def compute_actions(references: References, region: str) -> Section:
    """`compute-start` before, `compute-configured` after a compute node is set up; both at each of its starts."""
    return _actions(references, region, {"OnNodeStart": "compute-start", "OnNodeConfigured": "compute-configured"})


def login_actions(references: References, region: str) -> Section:
    """`login-configured` after a login node is set up; a pool must have it from the first day."""
    return _actions(references, region, {"OnNodeConfigured": "login-configured"})


def _actions(references: References, region: str, wanted: dict[str, EntryScript]) -> Section:
    scripts = references.entry_scripts
    actions: Section = {
        moment: {"Script": scripts[name], "Args": [references.assets_bucket, name, region]}
        for moment, name in wanted.items()
        if name in scripts
    }
    return {"CustomActions": actions} if actions else {}
