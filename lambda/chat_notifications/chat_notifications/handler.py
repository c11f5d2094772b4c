"""Lambda handler: forwards messages of the SNS topic to a webhook, and to the topic of the chat integration.

Amazon Q Developer in chat applications shows only messages that it knows: those of some AWS services, and those of its
custom schema. It drops others without an error, so every message is rewritten to that schema.
"""

from __future__ import annotations

import html
import http.client
import json
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import boto3

TITLE_CHARACTERS = 250
TEXT_CHARACTERS = 3000
"""Of a message in chat. Below the limits of Slack (40,000), of Teams (28 KB) and of the custom schema (8,000)."""
ATTEMPTS = 4
FIRST_PAUSE_S = 1.0
TIMEOUT_S = 8.0
"""Of one attempt. With the pauses, all attempts end within the function's time limit, one minute."""
_TEAMS = (".webhook.office.com", ".logic.azure.com", ".powerplatform.com")
"""Hosts of the webhooks of Microsoft Teams, which take adaptive cards. All others get Slack's form."""


class UndeliveredError(Exception):
    """The message did not reach chat. The text never contains the webhook's address, which is a credential."""


class Message(NamedTuple):
    """What a reader sees."""

    title: str
    text: str


def handler(event: Mapping[str, Any], context: object) -> None:  # noqa: ARG001 - the signature is Lambda's
    secret, topic = os.environ.get("WEBHOOK_SECRET"), os.environ.get("CHAT_TOPIC_ARN")
    for record in event["Records"]:
        message = read(record["Sns"].get("Subject") or "", record["Sns"]["Message"])
        if topic:
            boto3.client("sns").publish(TopicArn=topic, Message=json.dumps(custom_notification(message)))
        if secret:
            found = boto3.client("secretsmanager").get_secret_value(SecretId=secret)
            deliver(address(found.get("SecretString", "")), message)


def read(subject: str, body: str) -> Message:
    """The message in a notification: of a CloudWatch alarm, a text that EventBridge sends in quotes, or plain text."""
    try:
        content = json.loads(body)
    except ValueError:
        content = body
    if isinstance(content, dict) and "AlarmName" in content:
        lines = (content.get("AlarmDescription"), content.get("NewStateReason"))
        title, text = f"{content.get('NewStateValue')}: {content['AlarmName']}", "\n".join(filter(None, lines))
    else:
        text = content if isinstance(content, str) else body
        title, _, rest = text.strip().partition("\n")
        title, text = (subject, text) if subject else (title, rest if len(title) <= TITLE_CHARACTERS else text)
    return Message(title[:TITLE_CHARACTERS].strip(), text[:TEXT_CHARACTERS].strip())


def unlinked(message: Message) -> Message:
    """Without links and mentions: users of the cluster write some of the words, such as names of jobs.

    Spaces, not escapes: these end a link of Markdown and a mention of Slack in every client.
    """
    return Message(*(part.replace("](", "] (").replace("<", "< ") for part in message))


def custom_notification(message: Message) -> dict[str, Any]:
    """The custom schema. Source: Amazon Q Developer in chat applications guide, "Custom notifications"."""
    message = unlinked(message)
    content = {"textType": "client-markdown", "title": message.title, "description": message.text or message.title}
    return {"version": "1.0", "source": "custom", "content": content}


def webhook_body(host: str, message: Message) -> dict[str, Any]:
    """The body for a webhook of Microsoft Teams, or of Slack and the services that take its form."""
    if not host.endswith(_TEAMS):
        # Slack reads <, > and & as markup.
        title, text = (html.escape(part, quote=False) for part in message)
        return {"text": f"*{title}*\n{text}".strip()}
    message = unlinked(message)
    blocks = [
        {"type": "TextBlock", "text": message.title, "weight": "bolder", "wrap": True},
        {"type": "TextBlock", "text": message.text.replace("\n", "\n\n"), "wrap": True},
    ]
    card = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def address(secret: str) -> str:
    """The address in a secret's value.

    Raises:
        UndeliveredError: it is not an address that begins with https://.
    """
    url = secret.strip()
    if not url.startswith("https://") or not urlsplit(url).hostname:
        raise UndeliveredError("The secret's value is not an address that begins with https://. Replace the value.")
    return url


def deliver(url: str, message: Message, sleep: Callable[[float], None] = time.sleep) -> None:
    """Send a message to a webhook, again after an answer that may be temporary.

    Raises:
        UndeliveredError: no attempt succeeded, or the webhook refuses the message.
    """
    body = json.dumps(webhook_body(urlsplit(url).hostname or "", message)).encode()
    for attempt in range(1, ATTEMPTS + 1):
        why, again = _send(url, body)
        if not why:
            return
        logging.warning("Attempt %d: the webhook %s", attempt, why)
        if not again:
            break
        if attempt < ATTEMPTS:
            sleep(FIRST_PAUSE_S * 2 ** (attempt - 1))
    raise UndeliveredError(f"The webhook {why}. Check the address in the secret, and that the channel exists.")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the message."""

    def redirect_request(self, *_: object) -> None:
        return None


def _send(url: str, body: bytes) -> tuple[str, bool]:
    """Why an attempt failed, or nothing; and whether another one may succeed."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - see address()
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S):
            return "", False
    except urllib.error.HTTPError as error:
        return f"answered {error.code}", error.code in (408, 429) or error.code >= 500
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Only the type: some texts contain the address.
        reason = getattr(error, "reason", error)
        return f"cannot be reached ({type(reason).__name__})", True
