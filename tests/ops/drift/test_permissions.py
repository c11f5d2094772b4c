"""The IAM actions of the drift command, as far as they can be told without a world."""

from __future__ import annotations

import botocore.session

from ops.drift.permissions import ACTIONS, AUTHORIZED, CALLED


def test_every_call_is_allowed() -> None:
    assert set(CALLED) < set(ACTIONS)
    assert len(set(ACTIONS)) == len(ACTIONS)


def test_drift_of_a_stack_is_allowed_for_its_resources_too() -> None:
    assert "cloudformation:DetectStackDrift" in CALLED
    assert "cloudformation:DetectStackResourceDrift" in set(AUTHORIZED) & set(ACTIONS)


def test_they_are_operations_of_aws() -> None:
    session = botocore.session.get_session()
    for action in ACTIONS:
        service, operation = action.split(":")
        assert operation in session.get_service_model(service).operation_names, action
