"""The configurations of the shipped environments are those in golden/.

After a wanted change: `.venv/bin/python -m tests.cluster_config.golden_files`, and review what it did.
"""

from __future__ import annotations

import pytest

from tests.cluster_config import golden_files
from tests.cluster_config.references import environments

ENVIRONMENTS = environments()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_configuration_is_as_reviewed(name: str) -> None:
    expected = golden_files.path(name)
    assert expected.exists(), f"{name} has no file; see the docstring of this test"
    assert golden_files.text(ENVIRONMENTS[name]) == expected.read_text(encoding="utf-8")


def test_no_file_is_left_over() -> None:
    assert sorted(golden_files.FOLDER.glob("*")) == sorted(golden_files.path(name) for name in ENVIRONMENTS)
