"""Types survive CloudFormation: every scalar becomes a string there, and the custom resource turns it back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cluster_resource.request import restore
from trainyard.cluster_config import types_of


def as_cloudformation_sends(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The structure with every scalar as a string."""
    if isinstance(value, dict):
        return {key: as_cloudformation_sends(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_cloudformation_sends(item) for item in value]
    return value if isinstance(value, str) else json.dumps(value)


KEYS = st.text(st.sampled_from('ab.[]\\ "é'), min_size=1, max_size=4)
SCALARS = st.one_of(
    st.text(st.sampled_from("true10.5 e-"), max_size=5),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer()),
)
STRUCTURES = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=12,
    ),
    max_size=4,
)


@settings(deadline=None, derandomize=True)
@given(STRUCTURES)
def test_any_structure_comes_back_whole(structure: dict[str, Any]) -> None:
    try:
        types = types_of(structure)
    except ValueError as error:
        # Two types at one path are refused.
        assume("in one item and" not in str(error))
        raise
    restored = restore(as_cloudformation_sends(structure), types)
    assert json.dumps(restored) == json.dumps(structure)


def test_the_format() -> None:
    queue = {"Name": "gpu", "MaxCount": 2, "Efa": {"Enabled": True}}
    assert types_of({"Queues": [queue, queue], "a.b[c\\": 1, "Price": 0.5, "Grid": [[1], [2]]}) == {
        "boolean": ["Queues[].Efa.Enabled"],
        "integer": ["Grid[][]", "Queues[].MaxCount", "a\\.b\\[c\\\\"],
        "number": ["Price"],
    }
    assert types_of({"Name": "gpu", "Empty": [], "None": {}}) == {}


@pytest.mark.parametrize(
    ("structure", "fault", "message"),
    [
        ({"Items": [{"Size": 1}, {"Size": "1"}]}, ValueError, r"Items\[\]\.Size is integer in one item and string"),
        ({"Key": None}, ValueError, "Key is null"),
        ({"Iam": {"": "x"}}, ValueError, "Iam has an empty key"),
        ({"Key": object()}, TypeError, "Key is of type object; allowed are"),
    ],
)
def test_what_cannot_come_back_is_refused(structure: dict[str, Any], fault: type[Exception], message: str) -> None:
    with pytest.raises(fault, match=message):
        types_of(structure)
