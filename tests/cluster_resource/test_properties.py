"""Events, types, names and owners."""

import json
from typing import Any

import pytest

from cluster_resource import identity
from cluster_resource.configuration import ConfigurationError, render, restore
from cluster_resource.properties import answer_minutes, properties_of, timeout_minutes, waits_behind
from tests.cluster_resource import events
from tests.cluster_resource.events import properties


def test_types_are_restored_by_path() -> None:
    given = {"A": {"B": ["1", "2"], "Dotted.Key[0]": "true", "Text": "1"}, "Rate": "0.5", "Whole": "4.0", "Kept": 3}
    types = {"integer": ["A.B[]", "Whole", "Kept"], "boolean": ["A.Dotted\\.Key\\[0]"], "number": ["Rate"]}
    assert restore(given, types) == {
        "A": {"B": [1, 2], "Dotted.Key[0]": True, "Text": "1"},
        "Rate": 0.5,
        "Whole": 4,
        "Kept": 3,
    }


@pytest.mark.parametrize(
    ("kind", "value"), [("integer", "two"), ("integer", "1.5"), ("boolean", "yes"), ("number", "")]
)
def test_a_value_that_is_not_of_its_type_is_named(kind: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"X\[\]\.Y is '{value}', which is no {kind}"):
        restore({"X": [{"Y": value}]}, {kind: ["X[].Y"]})


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'date'; allowed are integer, number, boolean"):
        restore({}, {"date": []})


def test_the_ownership_tag_cannot_be_forged_by_the_configuration() -> None:
    forged = {"Tags": [{"Key": identity.OWNER_TAG, "Value": "somebody"}, {"Key": "a", "Value": "b"}]}
    assert json.loads(render(forged, "me"))["Tags"] == [
        {"Key": "a", "Value": "b"},
        {"Key": identity.OWNER_TAG, "Value": "me"},
    ]
    assert json.loads(render({}, "me"))["Tags"] == [{"Key": identity.OWNER_TAG, "Value": "me"}]


def test_the_rendered_configuration_is_the_same_in_yaml() -> None:
    import yaml

    odd = {"Region": "us-east-1", "Text": "yes: \u00fc \U0001f600 #1", "Flag": True, "Number": 0.25, "Nothing": None}
    assert yaml.safe_load(render(odd, "me")) == {**odd, "Tags": [{"Key": identity.OWNER_TAG, "Value": "me"}]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ClusterName": "1st"}, "ClusterName is '1st'; allowed are 2 to 60 letters"),
        ({"ClusterName": "x" * 61}, "ClusterName is 'xxx"),
        ({"Configuration": "text"}, "Configuration must be"),
        ({"ConfigurationTypes": []}, None),
        ({"ConfigurationTypes": "x"}, "ConfigurationTypes must map"),
        ({"ApiUrl": ""}, "The property ApiUrl is missing"),
    ],
)
def test_wrong_properties_are_named(wrong: dict[str, Any], message: str | None) -> None:
    event = events.create({**properties(), **wrong})
    if message is None:
        assert properties_of(event).cluster_name == "local"
        return
    with pytest.raises(ConfigurationError, match=message):
        properties_of(event)


@pytest.mark.parametrize("wrong", ["0", "721", "soon", "1.5", None])
def test_a_time_limit_of_the_wrong_kind_is_named(wrong: str | None) -> None:
    event = events.create({**properties(), "TimeoutMinutes": wrong})
    with pytest.raises(ConfigurationError, match=f"TimeoutMinutes is {wrong!r}; allowed are whole numbers from 1 to"):
        timeout_minutes(event)


def test_the_time_limits_have_defaults() -> None:
    event = events.create()
    assert (timeout_minutes(event), answer_minutes(event), waits_behind(event)) == (55, 55, 0)


def test_no_representation_shows_the_configuration() -> None:
    given = properties_of(events.create())
    assert "slurm" in given.configuration_text
    assert "slurm" not in repr(given)


def test_ids_are_stable_and_tell_ours_from_others() -> None:
    own = events.own_id("local")
    assert own == identity.physical_id("local", events.STACK, events.LOGICAL_ID)
    assert identity.cluster_named_by(own, events.STACK, events.LOGICAL_ID) == "local"
    assert identity.cluster_named_by(own, events.STACK, "Another") is None
    assert identity.cluster_named_by("not-created/local", events.STACK, events.LOGICAL_ID) is None
    assert identity.was_never_created("not-created/local") and not identity.was_never_created(own)


def test_the_owner_fits_a_tag_value() -> None:
    assert identity.owner_of("stack", "Cluster") == "stack/Cluster"
    long = identity.owner_of("s" * 200, "L" * 200)
    assert len(long) <= 256 and long != identity.owner_of("s" * 200, "L" * 199)
