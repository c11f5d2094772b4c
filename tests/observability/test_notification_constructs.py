"""Topic, receivers, events, alarms and dashboard, as CloudFormation resources."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Match, Template

from settings.model import Environment
from stacks.environment_stack import EnvironmentStack
from tests.constructs.stacks_of import app_without_bundling, environment, only
from tests.constructs.test_rules import rules_find_nothing
from trainyard.cloudwatch_alarms import CloudWatchAlarms
from trainyard.cloudwatch_dashboard import CloudWatchDashboard
from trainyard.event_notifications import EventNotifications
from trainyard.notifications import Notifications

MACHINE = "arn:aws:states:eu-central-1:111122223333:stateMachine:cluster"
NOTIFY = {
    "emails": ["ops@example.com", "lead@example.com"],
    "slack": {"workspace": "T01ABCDEFGH", "channel": "C01ABCDEFGH"},
    "teams": {
        "tenant": "01234567-89ab-cdef-0123-456789abcdef",
        "team": "11234567-89ab-cdef-0123-456789abcdef",
        "channel": "19%3Aabc%40thread.tacv2",
    },
    "webhook_secret": "trainyard/webhook",
}
LUSTRE = {
    "name": "training",
    "mount": "/fsx",
    "capacity_gib": 1200,
    "associations": [
        {"path": "/data", "bucket": "data", "prefix": "datasets/", "import_events": ["new"]},
        {"path": "/checkpoints", "bucket": "checkpoints", "prefix": "checkpoints/", "export_events": ["new"]},
    ],
}
QUEUE = {
    "name": "gpu",
    "compute": [{"name": "p5", "instance_types": ["p5.48xlarge"], "max": 2}],
    "capacity": {"type": "odcr", "reservation": "cr-0123456789abcdef0"},
}


def settings(**observability: object) -> Environment:
    return environment(
        storage={
            "lustre": [LUSTRE],
            "openzfs": {"capacity_gib": 64, "volumes": [{"name": "home", "mount": "/home"}]},
        },
        cluster={"queues": [QUEUE]},
        observability={"mode": "cloudwatch", "notify": NOTIFY, **observability},
    )


class Stack(EnvironmentStack):
    """The constructs as the stack of an environment has them."""

    def __init__(self, app: cdk.App, given: Environment) -> None:
        super().__init__(app, "observability", environment=given, holds="notifications")
        made = Notifications(self, "Notifications", environment=given, logs=self.function_logs)
        EventNotifications(self, "Events", environment=given, topic=made.topic, state_machine_arn=MACHINE)
        lustre = {"training": "fs-0123456789abcdef0"}
        alarms = CloudWatchAlarms(
            self,
            "Alarms",
            environment=given,
            topic=made.topic,
            lustre=lustre,
            openzfs="fs-1123456789abcdef0",
            nat_gateway="nat-0123456789abcdef0",
        )
        CloudWatchDashboard(self, "Dashboard", environment=given, alarms=alarms.alarms, lustre=lustre)


@cache
def template(notify: bool = True, runbooks: str | None = None) -> Template:
    given = settings(**({} if notify else {"notify": {}}), runbooks=runbooks)
    return Template.from_stack(Stack(app_without_bundling(), given))


def test_aws_solutions_rules_and_cfn_lint_find_nothing(tmp_path: Path) -> None:
    app = app_without_bundling(tmp_path)
    Stack(app, settings())
    rules_find_nothing(app, tmp_path)


def alarms(kind: str) -> dict[str, Any]:
    found = only(template(), "AWS::CloudWatch::Alarm", AlarmName=kind)
    return dict(found["Properties"])


def test_the_topic_is_encrypted_named_and_takes_messages_over_tls_only() -> None:
    topic = only(template(), "AWS::SNS::Topic", TopicName="trainyard-unit-notifications")
    assert topic["Properties"]["KmsMasterKeyId"]
    policies = template().find_resources("AWS::SNS::TopicPolicy").values()
    texts = [json.dumps(item["Properties"]["PolicyDocument"]) for item in policies]
    assert len(texts) == 3
    only(template(), "AWS::SNS::Topic", TopicName="trainyard-unit-jobs")
    assert all('"aws:SecureTransport": "false"' in text for text in texts)
    assert sum("cloudwatch.amazonaws.com" in text for text in texts) == 1
    assert sum("events.amazonaws.com" in text for text in texts) == 1


def test_services_and_publishers_may_use_the_key_for_nothing_else() -> None:
    """CloudWatch and EventBridge cannot publish to an encrypted topic without the key."""
    key = only(template(), "AWS::KMS::Key")
    assert key["Properties"]["EnableKeyRotation"]
    policy = key["Properties"]["KeyPolicy"]["Statement"]
    statements = {json.dumps(item["Principal"]): item for item in policy if item["Action"] != "kms:*"}
    services = {name for name in ("cloudwatch", "events") for text in statements if f"{name}.amazonaws.com" in text}
    assert services == {"cloudwatch", "events"}
    # EventBridge does not name the account to KMS: with a condition no message would arrive.
    assert not any("Condition" in item for text, item in statements.items() if "amazonaws.com" in text)
    anyone = statements['{"AWS": "*"}']
    equal = anyone["Condition"]["StringEquals"]
    assert equal["kms:CallerAccount"] == "111122223333"
    assert equal["kms:ViaService"] == "sns.eu-central-1.amazonaws.com"


def test_each_address_and_the_function_subscribe() -> None:
    found = template().find_resources("AWS::SNS::Subscription").values()
    assert sorted((item["Properties"]["Protocol"]) for item in found) == ["email", "email", "lambda"]
    assert not template(notify=False).find_resources("AWS::SNS::Subscription")
    assert not template(notify=False).find_resources("AWS::Lambda::Function")


def test_channels_may_do_nothing_and_have_the_topic_with_the_custom_schema() -> None:
    slack = only(template(), "AWS::Chatbot::SlackChannelConfiguration")["Properties"]
    teams = only(template(), "AWS::Chatbot::MicrosoftTeamsChannelConfiguration")["Properties"]
    topics = template().find_resources("AWS::SNS::Topic")
    chat_topic = next(name for name, item in topics.items() if "TopicName" not in item["Properties"])
    for channel in (slack, teams):
        assert channel["SnsTopicArns"] == [{"Ref": chat_topic}]
        assert "AWSDenyAll" in json.dumps(channel["GuardrailPolicies"])
    assert (slack["SlackWorkspaceId"], slack["SlackChannelId"]) == ("T01ABCDEFGH", "C01ABCDEFGH")
    assert teams["TeamId"] == NOTIFY["teams"]["team"]  # type: ignore[index]
    for name, policy in template().find_resources("AWS::IAM::Policy").items():
        assert "ChannelRole" not in json.dumps(policy["Properties"]["Roles"]), name


def test_the_function_reads_one_secret_and_its_value_is_in_no_template() -> None:
    text = json.dumps(template().to_json())
    assert ":secret:trainyard/webhook-??????" in text
    assert "resolve:secretsmanager" not in text
    function = only(template(), "AWS::Lambda::Function")["Properties"]
    assert function["Environment"]["Variables"]["WEBHOOK_SECRET"] == "trainyard/webhook"
    template().has_resource_properties("AWS::Lambda::EventInvokeConfig", {"MaximumRetryAttempts": 0})


def test_an_undelivered_message_is_an_alarm_that_cannot_repeat_itself() -> None:
    found = alarms("unit-ChatUndelivered")
    assert (found["MetricName"], found["Namespace"]) == ("Errors", "AWS/Lambda")
    assert found["AlarmActions"]
    assert "OKActions" not in found


@pytest.mark.parametrize(
    ("name", "metric", "seconds_and_periods", "limit"),
    [
        ("LustreFull-training", "FreeDataStorageCapacity Sum", (60, 5), ("LessThan", 0.2 * 1200 * 2**30)),
        ("ExportQueueOld-training", "AgeOfOldestQueuedMessage Maximum", (300, 3), ("GreaterThan", 1800)),
        ("ImportQueueOld-training", "AgeOfOldestQueuedMessage Maximum", (300, 3), ("GreaterThan", 1800)),
        ("OpenZfsFull", "UsedStorageCapacity Average", (300, 1), ("GreaterThan", 0.8 * 64 * 2**30)),
        ("ReservationUnused-cr-0123456789abcdef0", "AvailableInstanceCount Minimum", (300, 12), ("GreaterThan", 0)),
        ("NatPortsExhausted", "ErrorPortAllocation Sum", (300, 1), ("GreaterThan", 0)),
        ("GpusIdle", "nvidia_smi_utilization_gpu Maximum", (300, 6), ("LessThan", 5)),
        ("NatTraffic", "BytesInFromDestination Sum", (3600, 1), ("GreaterThan", 500 * 2**30)),
    ],
)
def test_alarms(name: str, metric: str, seconds_and_periods: tuple[int, int], limit: tuple[str, float]) -> None:
    found = alarms(f"unit-{name}")
    assert f"{found['MetricName']} {found['Statistic']}" == metric
    assert (found["Period"], found["EvaluationPeriods"]) == seconds_and_periods
    assert found["ComparisonOperator"] == f"{limit[0]}Threshold"
    assert found["Threshold"] == pytest.approx(limit[1])
    assert found["TreatMissingData"] == "notBreaching"
    assert found["AlarmActions"]
    what, first, page = found["AlarmDescription"].splitlines()
    assert what.startswith("In unit ")
    assert first.startswith("First command: ")
    assert page == f"Runbook: docs/runbooks.md#{name.partition('-')[0].lower()}"


def test_each_queue_has_its_publisher() -> None:
    for way in ("Import", "Export"):
        dimensions = {item["Name"]: item["Value"] for item in alarms(f"unit-{way}QueueOld-training")["Dimensions"]}
        assert dimensions == {"FileSystemId": "fs-0123456789abcdef0", "Publisher": f"Auto{way}"}


def test_runbooks_link_to_the_documentation_of_the_environment_file() -> None:
    found = only(template(runbooks="https://example.com/docs"), "AWS::CloudWatch::Alarm", AlarmName="unit-NatTraffic")
    assert "Runbook: https://example.com/docs/runbooks/#nattraffic" in found["Properties"]["AlarmDescription"]


def rule(construct_id: str) -> dict[str, Any]:
    found = [
        item for name, item in template().find_resources("AWS::Events::Rule").items() if f"Events{construct_id}" in name
    ]
    assert len(found) == 1
    return dict(found[0]["Properties"])  # fmt: skip


def test_deployments_are_reported_once_and_failures_of_every_stack() -> None:
    finished, failed = rule("Finished")["EventPattern"]["detail"], rule("Failed")["EventPattern"]["detail"]
    assert "stack/unit-cluster/" in json.dumps(finished["stack-id"])
    assert len(finished["stack-id"]) == 1
    # With the slash: not those of the environment unit-2.
    names = [json.dumps(item["prefix"]) for item in failed["stack-id"]]
    assert any("stack/unit-network/" in name for name in names)
    assert failed["status-details"]["status"] == [{"suffix": "_FAILED"}, {"suffix": "ROLLBACK_COMPLETE"}]


def test_operations_head_node_and_health() -> None:
    operation = rule("OperationFailed")["EventPattern"]
    assert operation["detail"]["stateMachineArn"] == [MACHINE]
    head = rule("HeadNodeAlarm")["EventPattern"]["detail"]
    assert head == {"alarmName": [{"prefix": "unit-HeadNode-"}], "state": {"value": ["ALARM"]}}
    health = rule("Health")["EventPattern"]
    assert (health["source"], health["detail"]) == (["aws.health"], {"eventScopeCode": ["ACCOUNT_SPECIFIC"]})
    for name in ("Finished", "Failed", "OperationFailed", "HeadNodeAlarm", "Health"):
        text = rule(name)["Targets"][0]["InputTransformer"]["InputTemplate"]
        assert text.startswith('"Trainyard unit: ')
        assert "\\n" not in text


def test_the_dashboard_shows_every_gpu_and_links_to_parallelclusters() -> None:
    body = only(template(), "AWS::CloudWatch::Dashboard")["Properties"]["DashboardBody"]
    text = json.dumps(body)
    for metric in ("nvidia_smi_utilization_gpu", "nvidia_smi_memory_used"):
        assert metric in text
    # Quoted: the names of environments have hyphens, which the search syntax takes in quotes only.
    assert json.dumps('SEARCH(\'{\\"Trainyard/unit\\",InstanceId}')[1:-1] in text
    assert "dashboards:name=unit-eu-central-1" in text


def test_without_receivers_there_is_a_topic_and_alarms() -> None:
    plain = template(notify=False)
    plain.resource_count_is("AWS::SNS::Topic", 2)
    assert not plain.find_resources("AWS::Chatbot::SlackChannelConfiguration")
    plain.has_resource_properties(
        "AWS::SSM::Parameter",
        {"Name": "/trainyard/unit/observability/topic-arn", "Value": {"Ref": Match.any_value()}},
    )
