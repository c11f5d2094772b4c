"""The key `observability`: its short form, what faults hide, and its table of regions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import boto3
import pytest
from jsonschema import Draft202012Validator

import settings
from settings.regions import monitoring_regions
from settings.schema import SCHEMA
from tests.settings.examples import OB, WEBHOOK

Edit = Callable[[Mapping[str, object]], object]


@pytest.mark.parametrize("short", ["cloudwatch", "self-hosted", "managed", "off", False])
def test_a_bare_mode_is_a_short_form_in_files_and_in_the_schema(edit: Edit, short: object) -> None:
    long = {"mode": short or "off"}
    loaded = [settings.load(edit({OB: given})).observability for given in (short, long)]  # type: ignore[arg-type]
    assert loaded[0].mode == loaded[1].mode == (short or "off")
    assert loaded[0].on is (short not in ("off", False))
    field = json.loads(SCHEMA.read_text())
    validator = Draft202012Validator({"$defs": field["$defs"], **field["properties"][OB]})
    assert validator.is_valid(short)
    assert validator.is_valid(long)
    assert not validator.is_valid("on")


def test_all_keys_are_read(edit: Edit) -> None:
    notify = {
        "emails": ["a@example.com", "b@example.com"],
        "slack": {"workspace": "T01ABCDEFGH", "channel": "C01ABCDEFGH"},
        "teams": {
            "tenant": "01234567-89ab-cdef-0123-456789abcdef",
            "team": "01234567-89ab-cdef-0123-456789abcdef",
            "channel": "19%3aabc%40thread.tacv2",
        },
        "webhook_secret": "trainyard/webhook",
    }
    given = {"mode": "managed", "retention_days": 400, "instance_type": "m7i.large", "notify": notify}
    loaded = settings.load(edit({OB: {**given, "runbooks": "https://example.com/docs"}}))  # type: ignore[arg-type]
    expected = {**given, "volume_gib": 50, "runbooks": "https://example.com/docs"}
    assert loaded.observability.model_dump(mode="json") == expected


def test_a_webhooks_address_is_in_no_message_and_no_representation(edit: Edit) -> None:
    with pytest.raises(settings.Faults) as caught:
        settings.load(edit({OB: {"mode": "managed", "notify": {"webhook_secret": WEBHOOK}}}))  # type: ignore[arg-type]
    assert "token" not in str(caught.value)


def test_the_regions_are_those_of_the_installed_botocore() -> None:
    session = boto3.Session()
    services = {"Amazon Managed Service for Prometheus": "amp", "Amazon Managed Grafana": "grafana"}
    assert monitoring_regions() == {
        called: [
            region
            for partition in ("aws", "aws-us-gov", "aws-cn")
            for region in session.get_available_regions(name, partition_name=partition)
        ]
        for called, name in services.items()
    }


def test_no_is_off(edit: Edit) -> None:
    """As in YAML 1.1, where no and off are false."""
    assert settings.load(edit({OB: "no"})).observability.mode == "off"  # type: ignore[arg-type]
