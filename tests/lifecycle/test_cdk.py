"""The same by the CDK CLI, with the whole cluster of the default environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .deployment import ENVIRONMENT, NAME, Base
from .life import GONE, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.lifecycle]

FLAGS = ("--exclusively", "--require-approval", "never", "--progress", "events")


@pytest.fixture
def cluster(base: Base) -> Iterator[Cluster]:
    """The environment's cluster; its stack is destroyed afterwards."""
    made = Cluster(base, NAME)
    yield made
    base.control.reset()
    if made.status() != GONE:
        base.cdk("destroy", "cluster", "--exclusively", "--force", "--app", str(base.emulator.state_dir / "cdk.out"))


def test_failures_and_what_follows(base: Base, cluster: Cluster, tmp_path: Path) -> None:
    app = ("--app", str(base.emulator.state_dir / "cdk.out"))
    base.control.fail_create(NAME, "Failed to execute OnNodeConfigured script 1, return code: 7", after_s=1)
    code, said = base.cdk("deploy", "cluster", *app, *FLAGS)
    assert code == 1
    assert "return code: 7" in said
    assert cluster.status() == GONE

    code, said = base.cdk("deploy", "cluster", *app, *FLAGS)
    assert code == 0, said
    assert cluster.status() == "CREATE_COMPLETE"

    changed = tmp_path / "local.yaml"
    changed.write_text(ENVIRONMENT.read_text().replace("max: 2\n", "max: 3\n"))
    assembly = ("--app", ".venv/bin/python app.py", "--context", f"env={changed}", "--output", str(tmp_path / "out"))
    base.control.fail_update(NAME, "Failed to run chef recipe slurm::update")
    code, said = base.cdk("deploy", "cluster", *assembly, *FLAGS)
    assert code == 1
    assert "slurm::update" in said

    code, said = base.cdk("deploy", "cluster", "--app", str(tmp_path / "out"), *FLAGS)
    assert code == 0, said
    assert cluster.status() == "UPDATE_COMPLETE"

    base.control.fail_delete(NAME, "resource sg-0123 has a dependent object")
    destroy = ("destroy", "cluster", "--exclusively", "--force", "--app", str(tmp_path / "out"))
    code, said = base.cdk(*destroy)
    assert code == 1
    assert "sg-0123" in said
    code, said = base.cdk(*destroy)
    assert code == 0, said
    assert cluster.status() == GONE
