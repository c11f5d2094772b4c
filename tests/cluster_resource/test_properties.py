"""Events, types, names and owners; the size of the package."""

import json
from pathlib import Path
from typing import Any

import pytest

from cluster_resource import request
from cluster_resource.api import OWNER_TAG
from cluster_resource.request import ConfigurationError, Place, Request, Timing, owner_of, render, restore
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
    with pytest.raises(ConfigurationError, match=rf"X\[\]\.Y is '{value}', which is not of type {kind}"):
        restore({"X": [{"Y": value}]}, {kind: ["X[].Y"]})


def test_the_ownership_tag_cannot_be_forged_by_the_configuration() -> None:
    forged = {"Tags": [{"Key": OWNER_TAG, "Value": "somebody"}, {"Key": "a", "Value": "b"}]}
    assert json.loads(render(forged, "me"))["Tags"] == [{"Key": "a", "Value": "b"}, {"Key": OWNER_TAG, "Value": "me"}]
    assert json.loads(render({}, "me"))["Tags"] == [{"Key": OWNER_TAG, "Value": "me"}]


def test_the_rendered_configuration_is_the_same_in_yaml() -> None:
    import yaml

    odd = {"Region": "us-east-1", "Text": "yes: \u00fc \U0001f600 #1", "Flag": True, "Number": 0.25, "Nothing": None}
    assert yaml.safe_load(render(odd, "me")) == {**odd, "Tags": [{"Key": OWNER_TAG, "Value": "me"}]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ClusterName": "1st"}, "ClusterName is '1st'; allowed are 2 to 60 letters"),
        ({"ClusterName": "x" * 61}, "ClusterName is 'xxx"),
        ({"Configuration": "text"}, "Configuration must be"),
        ({"ConfigurationTypes": "x"}, "ConfigurationTypes is 'x'; it must map boolean, integer, number to lists"),
        ({"ConfigurationTypes": {"text": ["Region"]}}, "ConfigurationTypes is"),
        ({"ConfigurationTypes": {"integer": "Region"}}, "ConfigurationTypes is"),
        *(
            ({"TimeoutMinutes": wrong}, f"TimeoutMinutes is {wrong!r}; allowed are whole numbers from 1 to 720")
            for wrong in ("0", "721", "soon", None)
        ),
        ({"AnswerMinutes": "56"}, "AnswerMinutes is '56'; allowed are whole numbers from 1 to 55"),
        ({"WaitsBehind": "-1"}, "WaitsBehind is '-1'"),
        ({"Updates": "never"}, "Updates is 'never'; allowed are StopFleet: never or when-needed, Replace: "),
        ({"Updates": {"StopFlet": "never"}}, "Updates is {'StopFlet': 'never'}"),
        ({"Updates": {"RunningJobs": "may be killed"}}, "Updates is {'RunningJobs': 'may be killed'}"),
    ],
)
def test_wrong_properties_are_named(wrong: dict[str, Any], message: str) -> None:
    request = Request.of(events.create({**properties(), **wrong}))
    with pytest.raises(ConfigurationError, match=message):
        _ = (request.cluster, request.place, request.timing, request.policy(rollback=False))


def test_the_properties_of_a_create() -> None:
    request = Request.of(events.create(properties(ConfigurationTypes=[])))
    role = "arn:aws:iam::123456789012:role/ApiUser"
    assert request.place == Place("local", "us-east-1", "https://abc.execute-api.us-east-1.amazonaws.com/prod", role)
    assert (request.cluster.api_version, request.cluster.os) == ("3.16.1", "alinux2023")
    assert request.timing == Timing(55, 55, 0, 0)


def test_no_representation_shows_the_configuration() -> None:
    request = Request.of(events.create())
    assert "slurm" in request.cluster.configuration_text
    assert "slurm" not in repr(request) + repr(request.cluster)


def test_ids_are_stable_and_show_which_cluster_is_ours() -> None:
    ours = Request.of(events.delete())
    assert ours.cluster_of_id == "local" and ours.own_id("local") == ours.physical_id and not ours.never_created
    assert Request.of({**events.delete(), "LogicalResourceId": "Another"}).cluster_of_id is None
    never = Request.of(events.delete(physical_id="not-created/local"))
    assert never.cluster_of_id is None and never.never_created


def test_the_owner_fits_a_tag_value() -> None:
    assert owner_of("stack", "Cluster") == "stack/Cluster"
    long = owner_of("s" * 200, "L" * 200)
    assert len(long) <= 256 and long != owner_of("s" * 200, "L" * 199)


def test_the_package_is_small_and_contains_no_library() -> None:
    """It is fetched at each cold start."""
    folder = Path(request.__file__).parent
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert {file.suffix for file in files} <= {".py", ".typed"} and sum(file.stat().st_size for file in files) < 1e6
    assert not (folder.parent / "requirements.txt").exists()
