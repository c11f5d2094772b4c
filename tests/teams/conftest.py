"""One laboratory of two bootstrapped nodes for the tests with `shared_lab`; its database keeps what it committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.slurm import Laboratory, base, bootstrap, make
from local.slurm.plan import Timeouts
from settings import load
from tests.slurm.conftest import ENVIRONMENT, lab_machine, running

__all__ = ["lab_machine"]

NEWER = "/opt/trixie"
"""Where the nodes see the newer Debian with its MariaDB 11.8 and Slurm 24.11; their own have 10.11 and 22.05."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests with this laboratory are one group, apart from the others of this folder."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "shared_lab" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("teams-laboratory"))


@pytest.fixture(scope="session")
def shared_lab(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:  # noqa: ARG001 -- a fixture that asks for another
    """Tests revert their changes."""
    plan = make(
        load(ENVIRONMENT),
        counts={"gpu/p5": 1, "cpu/c7i": 1},
        timeouts=Timeouts(slurmd_s=20, message_s=20, kill_wait_s=2),
        binds={NEWER: str(base.ensure("trixie"))},
    )
    with running(tmp_path_factory.mktemp("lab") / "teams", plan, bootstrap.all_nodes) as laboratory:
        # The laboratory's database writes its log once a second. Aurora has stored what it committed.
        service = "/usr/local/lib/lab/services/mariadb"
        flush = f"sed -i s/flush-log-at-trx-commit=0/flush-log-at-trx-commit=1/ {service} && systemctl restart mariadb"
        laboratory.run(flush, node="aws", user="root")
        yield laboratory
