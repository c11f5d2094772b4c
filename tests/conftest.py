"""Shared by all tests."""

import os

import pytest

# The CDK's built-in template validation starts a WASM engine: 2.3 s a process, 1.5 s per 100 resources. cfn-lint and
# cdk-nag check the templates in tests of their own.
os.environ.setdefault("CDK_VALIDATION", "false")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under pytest-xdist, a file with an emulator or a laboratory stays in one process; life cycles share theirs."""
    for item in items:
        kinds = {mark.name for mark in item.iter_markers()}
        if kinds & {"e2e", "lab"} and "lifecycle" not in kinds:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
