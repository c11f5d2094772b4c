"""The function that forwards notifications, against a webhook on loopback and botocore's models."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import boto3
import pytest
from chat_notifications import handler as chat
from chat_notifications.handler import ATTEMPTS, Message, UndeliveredError, address, custom_notification, deliver, read

from tests.stubs import Server, served, stubbed

ALARM = {
    "AlarmName": "unit-lustre-training-full",
    "AlarmDescription": "Over 80 %.\nFirst command: lfs df -h",
    "NewStateValue": "ALARM",
    "NewStateReason": "Threshold Crossed: 1 datapoint",
}
MESSAGE = Message("node <gpu-1> & job 7", "drained")


@pytest.fixture
def webhook() -> Iterator[Server]:
    with served("/services/T0/B0/secret") as server:
        yield server


def deliver_to(url: str) -> list[float]:
    slept: list[float] = []
    deliver(url, MESSAGE, slept.append)
    return slept


def test_slack_gets_its_form_and_no_markup(webhook: Server) -> None:
    assert deliver_to(webhook.url) == []
    assert webhook.bodies == [{"text": "*node &lt;gpu-1&gt; &amp; job 7*\ndrained"}]


def test_a_jobs_name_is_neither_a_link_nor_a_mention() -> None:
    message = Message("job [log in](https://evil.example)", "<!channel> <https://evil.example|log in>")
    wanted = ("job [log in] (https://evil.example)", "< !channel> < https://evil.example|log in>")
    content = chat.custom_notification(message)["content"]
    assert (content["title"], content["description"]) == wanted
    for host in ("x.webhook.office.com", "default.environment.api.powerplatform.com"):
        [card] = chat.webhook_body(host, message)["attachments"]
        assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
        assert tuple(block["text"] for block in card["content"]["body"]) == wanted


@pytest.mark.parametrize("statuses", [[500, 503], [429], [0, 502, 0]])
def test_temporary_faults_are_tried_again(webhook: Server, statuses: list[int]) -> None:
    webhook.answers = [(status, {}) for status in (*statuses, 200)]
    assert deliver_to(webhook.url) == [1.0, 2.0, 4.0][: len(statuses)]
    assert len(webhook.bodies) == len(statuses) + 1


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (403, 1), (302, 1), (500, ATTEMPTS)])
def test_a_wrong_address_is_an_error_without_the_address(
    webhook: Server, status: int, requests: int, caplog: pytest.LogCaptureFixture
) -> None:
    webhook.answers = [(status, {})]
    with caplog.at_level(logging.DEBUG), pytest.raises(UndeliveredError, match=f"answered {status}") as error:
        deliver_to(webhook.url)
    assert len(webhook.bodies) == requests
    assert "secret" not in caplog.text + str(error.value).replace("in the secret", "")
    assert "127.0.0.1" not in caplog.text + str(error.value)


def test_a_webhook_that_hangs_ends_with_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that accepts and never answers."""
    import socket

    monkeypatch.setattr(chat, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(UndeliveredError, match="cannot be"):
        deliver_to(f"http://127.0.0.1:{listening.getsockname()[1]}/x")


def test_all_attempts_end_within_the_functions_time_limit() -> None:
    pauses = sum(chat.FIRST_PAUSE_S * 2**number for number in range(ATTEMPTS - 1))
    assert ATTEMPTS * chat.TIMEOUT_S + pauses < 50


@pytest.mark.parametrize("value", ["", "http://hooks.slack.com/x", "hooks.slack.com", "https://", "{}"])
def test_a_secret_that_is_not_an_address(value: str) -> None:
    with pytest.raises(UndeliveredError, match="begins with https://") as error:
        address(value)
    assert not value or value not in str(error.value).replace("https://.", "")


@pytest.mark.parametrize(
    ("subject", "body", "expected"),
    [
        (
            "ALARM: in EU",
            json.dumps(ALARM),
            Message(
                "ALARM: unit-lustre-training-full",
                "Over 80 %.\nFirst command: lfs df -h\nThreshold Crossed: 1 datapoint",
            ),
        ),
        # EventBridge sends a text as a JSON string, and no subject.
        ("", '"the stack is ROLLBACK_COMPLETE"', Message("the stack is ROLLBACK_COMPLETE", "")),
        ("", f'"{"long " * 100}"', Message(("long " * 50).strip(), ("long " * 100).strip())),
        ("[FIRING:1] NodeDown", "node gpu-1 is down\n", Message("[FIRING:1] NodeDown", "node gpu-1 is down")),
        ("", '{"other": 1}', Message('{"other": 1}', "")),
        ("", "7", Message("7", "")),
    ],
)  # fmt: skip
def test_every_kind_of_message_is_readable(subject: str, body: str, expected: Message) -> None:
    assert read(subject, body) == expected


def test_long_messages_are_cut() -> None:
    cut = read("s" * 1000, "t" * 100_000)
    assert (len(cut.title), len(cut.text)) == (chat.TITLE_CHARACTERS, chat.TEXT_CHARACTERS)


def test_the_chat_topic_gets_the_custom_schema_and_the_webhook_its_own(
    webhook: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "address", lambda value: value)
    monkeypatch.setenv("WEBHOOK_SECRET", "trainyard/webhook")
    monkeypatch.setenv("CHAT_TOPIC_ARN", "arn:aws:sns:eu-central-1:111122223333:chat")
    wanted = custom_notification(Message("hello", "world"))
    assert wanted == {
        "version": "1.0",
        "source": "custom",
        "content": {"textType": "client-markdown", "title": "hello", "description": "world"},
    }
    with stubbed("sns") as (client, sns), stubbed("secretsmanager") as (other, secrets):
        monkeypatch.setattr(boto3, "client", {"sns": client, "secretsmanager": other}.__getitem__)
        asked = {"TopicArn": "arn:aws:sns:eu-central-1:111122223333:chat", "Message": json.dumps(wanted)}
        sns.add_response("publish", {"MessageId": "1"}, asked)
        secrets.add_response("get_secret_value", {"SecretString": webhook.url}, {"SecretId": "trainyard/webhook"})
        chat.handler({"Records": [{"Sns": {"Subject": "hello", "Message": "world"}}]}, None)
    assert webhook.bodies == [{"text": "*hello*\nworld"}]
