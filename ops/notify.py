"""Messages to the notification topic of an environment: a test, and the end of a validation that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from ops.problem import Problem
from ops.report.model import Report, Row, Section, Tone
from settings.stacks import topic_arn

if TYPE_CHECKING:
    import boto3

    from ops.validation.report import Report as Validation
    from settings import Environment

ACTIONS = ("sns:ListSubscriptionsByTopic", "sns:Publish")
"""On the environment's topic. Its key lets everyone who may publish use it through SNS."""
SUBJECT_CHARACTERS = 100
"""The limit of SNS, which takes printable ASCII only."""


class Subscription(NamedTuple):
    """One receiver. `endpoint` is an address, or the function that sends to chat."""

    protocol: str
    endpoint: str
    confirmed: bool
    unsubscribed: bool = False

    @property
    def state(self) -> str:
        """One of _TO_DO."""
        return "confirmed" if self.confirmed else "unsubscribed" if self.unsubscribed else "pending"


_TO_DO = {
    "confirmed": "",
    "pending": "open the link in the mail of AWS Notifications; it is valid for 2 days",
    "unsubscribed": (
        "open the link in the mail that confirmed this, or remove it from observability.notify, deploy, and add it "
        "again after 3 days"
    ),
}


def topic(environment: Environment) -> str:
    """ARN of the topic.

    Raises:
        Problem: the environment has none.
    """
    if not environment.observability.on:
        raise Problem(
            f"{environment.name} has no notifications: observability is off. Set `observability: cloudwatch` (or "
            "self-hosted, managed) with `notify` in the environment file, and deploy it."
        )
    return topic_arn(environment)


def publish(session: boto3.Session, environment: Environment, subject: str, text: str) -> None:
    """Send a message to all receivers.

    Raises:
        Problem: there is no topic, or SNS does not take the message.
    """
    arn = topic(environment)
    line = " ".join(subject.encode("ascii", "replace").decode().split())
    with _problems(environment):
        session.client("sns").publish(TopicArn=arn, Subject=line[:SUBJECT_CHARACTERS], Message=text)


def subscriptions(session: boto3.Session, environment: Environment) -> list[Subscription]:
    """The receivers, sorted. Raises Problem as `publish` does."""
    arn = topic(environment)
    with _problems(environment):
        pages = session.client("sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=arn)
        found = [item for page in pages for item in page["Subscriptions"]]
    # Until the receiver confirms, SNS has PendingConfirmation in place of the ARN. For 72 hours after a receiver
    # unsubscribed it has Deleted (AWS Knowledge Center, sns-cross-account-subscription).
    return sorted(
        Subscription(item["Protocol"], item["Endpoint"], arn.startswith("arn:"), arn == "Deleted")
        for item in found
        for arn in [item["SubscriptionArn"]]
    )


def report(environment: Environment, found: list[Subscription], *, sent: bool) -> Report:
    """The receivers, and whether each of them gets messages."""
    states = Counter(item.state for item in found)
    headline = f"{'A test message was sent. ' * sent}{states['confirmed']} confirmed, {states['pending']} pending"
    headline += f", {states['unsubscribed']} unsubscribed" if states["unsubscribed"] else ""
    rows = [
        Row(
            (
                item.state,
                "chat" if item.protocol == "lambda" else item.protocol,
                item.endpoint,
                _TO_DO[item.state],
            ),
            Tone.GOOD if item.confirmed else Tone.WARNING,
        )
        for item in found
    ]
    nobody = "Nobody is notified: add observability.notify to the environment file, and deploy it."
    return Report(
        title=f"Notifications of {environment.name}",
        headline=headline if found else nobody,
        tone=Tone.GOOD if found and states["confirmed"] == len(found) else Tone.BAD,
        data={"environment": environment.name, "sent": sent, "subscriptions": [item._asdict() for item in found]},
        sections=(Section("Receivers", ("State", "Protocol", "Endpoint", "To do"), tuple(rows), lead=3),),
    )


def of_validation(
    session: boto3.Session, environment: Environment, found: Validation, progress: Callable[[str], None]
) -> None:
    """Report a validation that failed or drained nodes. That nobody can be notified is a warning only."""
    drained = [line for line in found.lines if line.found.startswith("drained: ") and line.action]
    if not environment.observability.on or (found.passed and not drained):
        return
    lines = [line for line in found.lines if line.outcome == "failed"] + drained
    text = "\n".join(f"{line.check} on {line.where}: {line.found}. {line.action}".strip() for line in lines)
    again = f"First command: trainyard validate {environment.name} --on aws"
    try:
        publish(session, environment, f"Validation of {environment.name}", f"{found.headline}\n\n{text}\n\n{again}")
    except Problem as problem:
        progress(f"nobody was notified: {problem}")


@contextmanager
def _problems(environment: Environment) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        advice = (
            f"Deploy {environment.name} first: its topic is in the stack {environment.name}-observability."
            if code.startswith("NotFound")
            else "What each command needs: docs/permissions.md"
        )
        raise Problem(
            f"SNS refused ({code}): {error.response.get('Error', {}).get('Message', '')}\n{advice}"
        ) from error
    except BotoCoreError as error:
        raise Problem(f"SNS did not answer: {error}\nCheck region, network and credentials.") from error
