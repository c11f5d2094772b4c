"""Shared by all tests."""

import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.loaders
import pytest
import pytest_rerunfailures

# The CDK's built-in template validation starts a WASM engine: 2.3 s a process, 1.5 s per 100 resources. cfn-lint and
# cdk-nag check the templates in tests of their own.
os.environ.setdefault("CDK_VALIDATION", "false")

# Tests have homes of their own; jsii would unpack its packages into each: 10 s of CPU time for the CDK.
# ParallelCluster has an older jsii, which keeps unpacked packages only if this variable is set.
os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE", "enabled")
os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(Path("~/.cache/aws/jsii/package-cache").expanduser()))

# Every boto3 session parses the files that describe its services, 0.15 s for EC2. Here a process parses each file once.
_load_file = botocore.loaders.JSONFileLoader.load_file


@cache
def _read_once(path: str) -> Any:  # noqa: ANN401 - JSON
    return _load_file(botocore.loaders.JSONFileLoader(), path)


botocore.loaders.JSONFileLoader.load_file = lambda _loader, path: _read_once(path)  # type: ignore[method-assign,assignment]


# Modules and collected tests are never garbage. To search them again and again took a tenth of the CPU time.
gc.set_threshold(100_000, 50, 50)


def pytest_collection_finish() -> None:
    """After the collection."""
    gc.freeze()


# Folders and files whose tests take minutes, the longest group first. With --no-loadscope-reorder they start first,
# because one that starts last keeps a single core busy. The tests of e2e go to any worker. pytest-xdist gives a worker
# more tests until it has three, so one worker may have three tests of e2e, which take ten minutes.
LONG = ("jobs", "slurm", "promotion", "deployment", "e2e", "lifecycle", "observability", "teams", "shares", "trainer")
LIVES = ("test_cdk", "test_create", "test_policy", "test_update")
"""One half of the life cycles: each half shares a deployment."""


def _is_long(item: pytest.Item) -> bool:
    return bool({mark.name for mark in item.iter_markers()} & {"e2e", "lab"})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under pytest-xdist, the long tests of a folder share a process, and with it an emulator or a laboratory.

    Those with a group mark of their own are apart, as in teams/: pytest-xdist joins the names of all marks of a test
    to one group. First, because pytest-xdist reads the groups in the same hook.
    """
    items.sort(key=lambda item: [name in {item.path.parent.name, item.path.stem} for name in LONG], reverse=True)
    for item in items:
        if "lab_machine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.lab)
        if _is_long(item) and item.path.parent.name != "e2e":
            half = " 1" if item.path.stem in LIVES else ""
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent}{half}"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The second attempt of a test (docs/testing.md) gets new fixtures, also those of the session.

    What the first attempt left in a laboratory or a deployment must not decide it.
    """
    if getattr(item, "execution_count", 1) > 1:
        # The plugin would keep fixtures wider than a function for the second attempt.
        pytest_rerunfailures._restore_suspended_finalizers(item)
        item.session._setupstate.teardown_exact(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """The last long test of a folder ends its laboratory or emulator, which would go on using memory and CPU time."""
    yield
    if nextitem and nextitem.path.parent != item.path.parent and _is_long(item):
        item.session._setupstate.teardown_exact(None)
