"""Drift detection of the emulated CloudFormation: more resource types for ministack's comparison.

ministack compares some types. What is added here are types of this product whose live state the world holds, as far as
AWS compares them: those whose registry schema has a handler that reads one. Other types stay NOT_CHECKED, as on AWS.
"""

from __future__ import annotations

from ministack.services.cloudformation import drift

from local.emulator.cloudformation import registry
from local.emulator.drift import buckets, fsx, identity, network


def install() -> None:
    """Add the readers."""
    for module in (buckets, fsx, identity, network):
        for resource_type, (read, properties) in module.READERS.items():
            if "read" in registry.schema(resource_type).get("handlers", {}):
                drift._DRIFT_READERS[resource_type] = (read, frozenset(properties))
