"""The initial content of the shared file systems: Slurm's configuration, secrets, buckets, homes."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from local.slurm import files, slurm
from local.slurm.plan import Plan

NOOP = """#!/bin/bash
# As in ParallelCluster, so that the pattern matches a file.
exit 0
"""
SCRIPTS = ("prolog.d/90_pcluster_noop", "epilog.d/90_pcluster_noop", "health-check")


def fill(plan: Plan, live: Path, controllers: Sequence[str]) -> None:
    """Write the initial content of the file systems mounted below `live`."""
    password = secrets.token_hex(16)
    _slurm(plan, live / "slurm", controllers, password)
    _lab(plan, live / "lab", password)
    home = next(live / one.name for one in plan.shared if one.mount == "/home")
    for uid, user in enumerate(files.users(plan), start=files.FIRST_UID):
        (home / user).mkdir(mode=0o750)
        shutil.chown(home / user, uid, uid)


def _slurm(plan: Plan, folder: Path, controllers: Sequence[str], password: str) -> None:
    etc = folder / "etc"
    for name in SCRIPTS:
        script = etc / "scripts" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(NOOP)
        script.chmod(0o755)
    for name, text in slurm.configuration(plan, controllers, password).items():
        (etc / name).touch(mode=0o600 if name == "slurmdbd.conf" else 0o644)
        (etc / name).write_text(text)
    for name in ("bin", "sbin"):
        (folder / name).symlink_to(f"/usr/{name}")


def _lab(plan: Plan, folder: Path, password: str) -> None:
    """The files of the stand-ins. Secrets belong to root, except the registry's password."""
    for name, secret in (("munge.key", secrets.token_hex(512)), ("accounting.sql", slurm.accounting_sql(password))):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(secret)
    (folder / "ecr-password").write_text(secrets.token_urlsafe(24) + "\n")
    (folder / "registry-hosts").write_text(f"{plan.registry}\n{plan.aws.name}\n")
    (folder / "instances.json").write_text(files.instances(plan))
    for bucket in plan.buckets.values():
        (folder / "s3" / bucket).mkdir(parents=True)
        (folder / "s3" / bucket).chmod(0o1777)
