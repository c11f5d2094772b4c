"""Drift detection of the emulated CloudFormation: more resource types for ministack's comparison.

Added are this product's types whose live state the emulator holds, if AWS compares them: types whose registry schema
has a read handler. Other types stay NOT_CHECKED, as on AWS.
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
