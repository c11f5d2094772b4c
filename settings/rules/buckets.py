"""Names of buckets and repositories."""

from __future__ import annotations

from collections.abc import Iterator

from settings.model import Environment
from settings.rules.finding import Finding, rule
from settings.rules.items import doubled

RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")


@rule
def prefix(environment: Environment) -> Iterator[Finding]:
    """Prefixes that S3 keeps for itself. Source: S3 user guide, "General purpose bucket naming rules"."""
    given = environment.storage.buckets.name_prefix
    if given and given.startswith(RESERVED_PREFIXES):
        allowed = f"a prefix that does not start with {', '.join(RESERVED_PREFIXES)}: S3 keeps these for itself"
        yield Finding(("storage", "buckets", "name_prefix"), given, allowed)


@rule
def repositories(environment: Environment) -> Iterator[Finding]:
    """Each ECR repository once."""
    named = [
        (("images", "repositories", i, "name"), item.name) for i, item in enumerate(environment.images.repositories)
    ]
    for key, name, _ in doubled([*named]):
        yield Finding(key, name, "each repository once")


RULES = (prefix, repositories)
