"""Tags that are put on every resource."""

from __future__ import annotations

import re
from collections.abc import Iterator

from settings.model import Environment
from settings.rules.finding import Finding, rule

MOST = 40
KEPT_PREFIXES = ("aws:", "parallelcluster:", "trainyard:")
KEY = re.compile(r"[\w .:/=+@-]{1,128}")
VALUE = re.compile(r"[\w .:/=+@-]{0,256}")


@rule
def tags(environment: Environment) -> Iterator[Finding]:
    """AWS takes 50 tags a resource; ten are left for CloudFormation, ParallelCluster and Trainyard.

    Source: Tagging AWS resources, "Tag naming limits": keys of 1 to 128 and values of up to 256 characters,
    letters, digits, spaces and _ . : / = + - @; `aws:` is kept. `parallelcluster:` is refused by
    ParallelCluster's schema.
    """
    if len(environment.tags) > MOST:
        yield Finding(("tags",), f"{len(environment.tags)} tags", f"at most {MOST}")
    for key, value in environment.tags.items():
        at = ("tags", key)
        if key.lower().startswith(KEPT_PREFIXES):
            yield Finding(at, key, f"a key that does not start with {', '.join(KEPT_PREFIXES)}")
        elif not KEY.fullmatch(key):
            yield Finding(at, f"the key {key[:60]!r}", "1 to 128 letters, digits, spaces and _ . : / = + - @")
        if not VALUE.fullmatch(value):
            yield Finding(at, repr(value[:60]), "at most 256 letters, digits, spaces and _ . : / = + - @")


RULES = (tags,)
