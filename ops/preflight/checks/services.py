"""What somebody sets up once in the account's consoles before notifications and dashboards can be deployed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict, judged

_CONSOLE = "in the console of Amazon Q Developer in chat applications, authorize"


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Chat may be posted to, and the users of Amazon Managed Grafana can sign in."""
    settings = context.environment.observability
    notify = settings.notify
    if settings.on and notify.slack:
        answer = context.aws.call("chatbot", "describe_slack_workspaces")
        yield _chat("slack", notify.slack.workspace, "chatbot:DescribeSlackWorkspaces", answer, "SlackTeamId")
    if settings.on and notify.teams:
        answer = context.aws.call("chatbot", "list_microsoft_teams_configured_teams")
        yield _chat("teams", notify.teams.team, "chatbot:ListMicrosoftTeamsConfiguredTeams", answer, "TeamId")
    if settings.mode == "managed":
        yield _sign_in(context.aws.call("sso-admin", "list_instances")["Instances"])


def _chat(key: str, wanted: str, asked: str, answer: Mapping[str, Any], field: str) -> CheckResult:
    found = [item[field] for items in answer.values() if isinstance(items, list) for item in items]
    shown = f"authorized: {', '.join(found)}" if found else "nothing is authorized"
    todo = f"{_CONSOLE} {wanted}, or correct observability.notify.{key}"
    return judged(f"observability.notify.{key}", asked, shown, wanted, ok=wanted in found, todo=todo)


def _sign_in(instances: Sequence[Mapping[str, Any]]) -> CheckResult:
    """A warning only: ListInstances answers in the region of IAM Identity Center, which may be another one."""
    wanted, subject = "an instance of IAM Identity Center", "observability.mode"
    if instances:
        return CheckResult(subject, "sso:ListInstances", instances[0]["InstanceArn"], wanted, Verdict.OK)
    todo = "enable IAM Identity Center, or see that it is enabled in another region: users sign in to Grafana with it"
    return CheckResult(subject, "sso:ListInstances", "none in this region", wanted, Verdict.WARNING, todo)
