"""Repairs of ministack 1.5.33, one a module; each says what AWS does instead. README.md lists them."""

from __future__ import annotations

from local.emulator.repairs import (
    bucket_settings,
    bucket_tags,
    exports_in_use,
    instance_profile,
    instance_tags,
    outputs_only,
    policies,
    principal_arn,
    role_tags,
    root_at_the_api,
    secure_transport,
    template_url,
    vpc,
    wait_last,
)

_REPAIRS = (
    bucket_settings,
    bucket_tags,
    exports_in_use,
    instance_profile,
    instance_tags,
    outputs_only,
    policies,
    principal_arn,
    role_tags,
    root_at_the_api,
    secure_transport,
    template_url,
    vpc,
    wait_last,
)


def install() -> None:
    """Carry out every repair."""
    for repair in _REPAIRS:
        repair.install()
