"""The custom resource of a budget against botocore's model of AWS Budgets, and its answers to CloudFormation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber
from cost_budget import manage

from tests.stubs import served, stubbed

PLACE = {"AccountId": "111122223333", "BudgetName": "trainyard-unit-eu-central-1"}
TOPIC = "arn:aws:sns:eu-central-1:111122223333:trainyard-unit-notifications"


def event(kind: str, **properties: object) -> dict[str, Any]:
    given = {
        "Account": "111122223333",
        "Name": PLACE["BudgetName"],
        "MonthlyUsd": "90000",
        "TagKey": "trainyard:environment",
        "Environment": "unit",
        "Emails": ["finance@example.com"],
        "TopicArn": TOPIC,
    }
    return {
        "RequestType": kind,
        "ResourceProperties": given | properties,
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "Budget",
    }


@pytest.fixture
def budgets() -> Iterator[tuple[Any, Stubber]]:
    with stubbed("budgets", "ap-southeast-3") as made:
        yield made


BUDGET = {
    "BudgetName": PLACE["BudgetName"],
    "BudgetType": "COST",
    "TimeUnit": "MONTHLY",
    "BudgetLimit": {"Amount": "90000", "Unit": "USD"},
    "CostFilters": {"TagKeyValue": ["user:trainyard:environment$unit"]},
    "CostTypes": {"IncludeCredit": False, "IncludeRefund": False},
}


def notification(kind: str, percentage: float) -> dict[str, object]:
    more = {"ComparisonOperator": "GREATER_THAN", "Threshold": percentage, "ThresholdType": "PERCENTAGE"}
    return {"NotificationType": kind, **more}


WANTED = [notification("ACTUAL", p) for p in (50.0, 80.0, 100.0)] + [notification("FORECASTED", 100.0)]
SUBSCRIBERS = [
    {"SubscriptionType": "EMAIL", "Address": "finance@example.com"},
    {"SubscriptionType": "SNS", "Address": TOPIC},
]


def test_create_with_alerts_at_50_80_and_100_per_cent(budgets: tuple[Any, Stubber]) -> None:
    client, stub = budgets
    asked = {
        "AccountId": PLACE["AccountId"],
        "Budget": BUDGET,
        "NotificationsWithSubscribers": [{"Notification": item, "Subscribers": SUBSCRIBERS} for item in WANTED],
        "ResourceTags": [{"Key": "trainyard:environment", "Value": "unit"}],
    }
    stub.add_response("create_budget", {}, asked)
    manage.carry_out(event("Create"), client)


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_an_existing_budget_is_changed_and_keeps_its_history(budgets: tuple[Any, Stubber], kind: str) -> None:
    client, stub = budgets
    stub.add_client_error("create_budget", "DuplicateRecordException")
    raised = BUDGET | {"BudgetLimit": {"Amount": "120000", "Unit": "USD"}}
    stub.add_response("update_budget", {}, {"AccountId": PLACE["AccountId"], "NewBudget": raised})
    old = notification("ACTUAL", 90.0)
    found = {"Notifications": [old | {"NotificationState": "ALARM"}]}
    stub.add_response("describe_notifications_for_budget", found, PLACE)
    stub.add_response("delete_notification", {}, PLACE | {"Notification": old})
    for item in WANTED:
        only_mail = SUBSCRIBERS[:1]
        stub.add_response("create_notification", {}, PLACE | {"Notification": item, "Subscribers": only_mail})
    manage.carry_out(event(kind, MonthlyUsd="120000", TopicArn=""), client)


@pytest.mark.parametrize("gone", [False, True])
def test_delete(budgets: tuple[Any, Stubber], gone: bool) -> None:
    client, stub = budgets
    if gone:
        stub.add_client_error("delete_budget", "NotFoundException")
    else:
        stub.add_response("delete_budget", {}, PLACE)
    manage.carry_out(event("Delete"), client)


def test_a_refusal_is_not_swallowed(budgets: tuple[Any, Stubber]) -> None:
    client, stub = budgets
    stub.add_client_error("delete_budget", "AccessDeniedException")
    with pytest.raises(ClientError):
        manage.carry_out(event("Delete"), client)


@pytest.mark.parametrize("error", ["", "AccessDeniedException"], ids=["success", "failure"])
def test_cloudformation_is_always_answered(
    budgets: tuple[Any, Stubber], monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    client, stub = budgets
    monkeypatch.setattr("boto3.client", lambda _name: client)
    if error:
        stub.add_client_error("create_budget", error, "no budgets for you")
    else:
        stub.add_response(
            "create_budget",
            {},
            dict.fromkeys(("AccountId", "Budget", "ResourceTags"), ANY) | {"NotificationsWithSubscribers": ANY},
        )
    with served("/answer") as server:
        manage.handler({**event("Create"), "ResponseURL": server.url}, None)
    [(method, _, _, headers, answer)] = server.requests
    assert (method, headers["Content-Type"]) == ("PUT", "")
    assert answer["PhysicalResourceId"] == PLACE["BudgetName"]
    assert answer["Status"] == ("FAILED" if error else "SUCCESS")
    assert ("no budgets for you" in answer.get("Reason", "")) is bool(error)
