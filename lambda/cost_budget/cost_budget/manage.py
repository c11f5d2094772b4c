"""Lambda handler of `Custom::CostBudget`: creates, changes and deletes one budget.

CloudFormation's own type, AWS::Budgets::Budget, is missing in 18 regions, ap-southeast-3 among them (registry schemas
of cfn-lint 1.58.0), and replaces a budget whose subscribers change, with its history. The API of AWS Budgets is global.
"""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Mapping
from typing import Any

import boto3

_LOG = logging.getLogger()
_LOG.setLevel(logging.INFO)
ALERTS = (("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
"""Type and percentage of each alert."""
_REASON_CHARACTERS = 1000


def handler(event: Mapping[str, Any], context: object) -> None:  # noqa: ARG001 - the signature is Lambda's
    """Carry out the request and answer CloudFormation, also after a failure: it would wait for an hour."""
    name = event["ResourceProperties"]["Name"]
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {"PhysicalResourceId": event.get("PhysicalResourceId", name), "Status": "SUCCESS"}
    try:
        carry_out(event, boto3.client("budgets"))
    except Exception as error:
        _LOG.exception("%s of the budget %s failed", event["RequestType"], name)
        answer |= {"Status": "FAILED", "Reason": f"AWS Budgets: {error}"[:_REASON_CHARACTERS]}
    body = json.dumps(answer).encode()
    # The URL is signed for an empty content type.
    request = urllib.request.Request(event["ResponseURL"], body, {"Content-Type": ""}, method="PUT")  # noqa: S310
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310 - the URL is CloudFormation's
        pass


def carry_out(event: Mapping[str, Any], budgets: Any) -> None:  # noqa: ANN401 - boto3 makes its clients' classes
    """Make the budget what the properties say; a repeated request changes nothing.

    Properties: Account, Name, MonthlyUsd, Environment (value of the tag that is counted, and of the budget's own tag),
    TagKey, Emails, TopicArn (may be empty).

    Raises:
        ClientError: AWS Budgets refused a call.
    """
    given = event["ResourceProperties"]
    place = {"AccountId": given["Account"], "BudgetName": given["Name"]}
    if event["RequestType"] == "Delete":
        try:
            budgets.delete_budget(**place)
        except budgets.exceptions.NotFoundException:
            _LOG.info("The budget %s is gone already", given["Name"])
        return
    budget = {
        "BudgetName": given["Name"],
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": str(given["MonthlyUsd"]), "Unit": "USD"},
        "CostFilters": {"TagKeyValue": [f"user:{given['TagKey']}${given['Environment']}"]},
        # What is used, also where AWS credits pay for it.
        "CostTypes": {"IncludeCredit": False, "IncludeRefund": False},
    }
    alerts = [{"Notification": _notification(*alert), "Subscribers": _subscribers(given)} for alert in ALERTS]
    tags = [{"Key": given["TagKey"], "Value": given["Environment"]}]
    account = given["Account"]
    try:
        budgets.create_budget(AccountId=account, Budget=budget, NotificationsWithSubscribers=alerts, ResourceTags=tags)
    except budgets.exceptions.DuplicateRecordException:
        budgets.update_budget(AccountId=account, NewBudget=budget)
        for found in budgets.describe_notifications_for_budget(**place)["Notifications"]:
            wanted = {key: found[key] for key in _notification(*ALERTS[0])}
            budgets.delete_notification(**place, Notification=wanted)
        for alert in alerts:
            budgets.create_notification(**place, **alert)


def _notification(kind: str, percentage: int) -> dict[str, Any]:
    return {
        "NotificationType": kind,
        "ComparisonOperator": "GREATER_THAN",
        "Threshold": float(percentage),
        "ThresholdType": "PERCENTAGE",
    }


def _subscribers(given: Mapping[str, Any]) -> list[dict[str, str]]:
    found = [{"SubscriptionType": "EMAIL", "Address": address} for address in given["Emails"]]
    return found + ([{"SubscriptionType": "SNS", "Address": given["TopicArn"]}] if given["TopicArn"] else [])
