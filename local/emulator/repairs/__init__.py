"""Repairs of ministack 1.5.33: what it does other than AWS. Each names the place in ministack's source."""

from __future__ import annotations

from local.emulator.repairs import cloudformation, iam, s3


def install() -> None:
    """Carry out every repair."""
    for module in (cloudformation, iam, s3):
        module.install()
