"""One deployment of `local` for all tests of this folder: each reverts its changes, except those of drift."""

from collections.abc import Iterator

import pytest

from tests.ops.deployment.deployed import Deployed, deploy
from tests.slurm.conftest import lab_machine

__all__ = ["lab_machine"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drift comes last: what somebody changed by hand stays changed."""
    items.sort(key=lambda item: item.path.parent.name == "deployment" and item.path.stem == "test_drift")


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """What `trainyard up` made."""
    with deploy(tmp_path_factory.mktemp("deployment")) as found:
        yield found
