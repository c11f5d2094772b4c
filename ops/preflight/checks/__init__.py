"""The checks of the preflight, one subject per file.

A new check is a file here with a generator `check(context)`, an entry in CHECKS, the IAM actions of its calls in
constructs/trainyard/pipeline/actions.py, and a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ops.preflight.checks import (
    addresses,
    buckets,
    capacity,
    cluster,
    file_system_quotas,
    images,
    network_quotas,
    offerings,
    regions,
    vcpus,
)
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult

Check = Callable[[CheckContext], Iterator[CheckResult]]
CHECKS: tuple[tuple[str, str, Check], ...] = (
    ("capacity", "reservations", capacity.check),
    ("offerings", "instance types", offerings.check),
    ("quotas", "vCPUs", vcpus.check),
    ("quotas", "file systems", file_system_quotas.check),
    ("quotas", "network", network_quotas.check),
    ("regions", "deployment types", regions.check),
    ("addresses", "subnets", addresses.check),
    ("images", "images", images.check),
    ("buckets", "names", buckets.check),
    ("cluster", "dry run", cluster.check),
)
"""Group, subject and function of each check, in order."""
