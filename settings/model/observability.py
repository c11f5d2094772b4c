"""Metrics, dashboards, alerts and notifications of an environment."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from settings.model.base import Email, Part, text

Mode = Literal["off", "cloudwatch", "self-hosted", "managed"]
MODES: tuple[Mode, ...] = get_args(Mode)

# The patterns of the CloudFormation registry's schemas of AWS::Chatbot::SlackChannelConfiguration and
# ::MicrosoftTeamsChannelConfiguration.
_Slack = Annotated[str, text("[0-9A-Z]{1,255}", "an id of capital letters and digits, for example T01ABCDEFGH")]
_UUID = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_Uuid = Annotated[str, text(_UUID, "an id of the form 01234567-89ab-cdef-0123-456789abcdef")]
_PART = r"[a-zA-Z0-9_=+/.,-]*"
_TEAMS_CHANNEL = "the encoded id in the channel's link, for example 19%3aabc%40thread.tacv2"
_TeamsChannel = Annotated[str, text(f"{_PART}%3[aA]{_PART}%40{_PART}", _TEAMS_CHANNEL, 256)]
# A dot before the first slash is that of a host.
_NAME = (
    "the name of a secret in Secrets Manager, without a dot before its first slash, for example trainyard/webhook; "
    "never the address itself"
)
SecretName = Annotated[str, text(r"([A-Za-z0-9_+=.@-]+|[A-Za-z0-9_+=@-]*/[A-Za-z0-9/_+=.@-]+)", _NAME, 512)]
_URL = "the address of the documentation, for example https://example.com/trainyard/docs"
_Url = Annotated[str, text(r"https?://[A-Za-z0-9.-]+(:\d+)?(/[A-Za-z0-9._~/-]*)?", _URL, 200)]


def _as_tuple(given: Any) -> Any:  # noqa: ANN401 - whatever the file has
    # After Observability's validator pydantic sees a Python list, which is not a tuple in strict mode; JSON's is.
    return tuple(given) if isinstance(given, list) else given


class Slack(Part):
    """A Slack channel, through Amazon Q Developer in chat applications. Authorize the workspace there first."""

    workspace: _Slack = Field(description="Id of the workspace, for example T01ABCDEFGH.")
    channel: _Slack = Field(description="Id of the channel, for example C01ABCDEFGH.")


class Teams(Part):
    """A Microsoft Teams channel, through Amazon Q Developer in chat applications. Authorize the team there first."""

    tenant: _Uuid = Field(description="Id of the tenant.")
    team: _Uuid = Field(description="Id of the team.")
    channel: _TeamsChannel = Field(description="Id of the channel as its link has it, with %3A and %40.")


class Notify(Part):
    """Who receives alerts and messages, through one SNS topic."""

    emails: Annotated[tuple[Email, ...], BeforeValidator(_as_tuple)] = Field(
        (), description="E-mail addresses; each receives a mail to confirm its subscription."
    )
    slack: Slack | None = Field(None, description="Slack channel. Default: none.")
    teams: Teams | None = Field(None, description="Microsoft Teams channel. Default: none.")
    webhook_secret: SecretName | None = Field(
        None,
        repr=False,
        description="Name of a secret in Secrets Manager, in the environment's account and region, whose value is the"
        " address of a webhook. Default: no webhook.",
    )


class Observability(Part):
    """Metrics, dashboards, alerts and notifications (docs/observability.md). A bare mode is a short form."""

    mode: Mode = Field(
        "off",
        description="`off`: nothing. `cloudwatch`: alarms and one dashboard in CloudWatch. `self-hosted`: Prometheus,"
        " Alertmanager and Grafana on an instance in the private subnet. `managed`: Amazon Managed Service for"
        " Prometheus and Amazon Managed Grafana.",
    )
    retention_days: int = Field(
        30,
        ge=1,
        le=1095,
        description="Days that metrics are kept, in the modes self-hosted (the oldest are deleted earlier if the volume"
        " is full) and managed.",
    )
    # The least of a gp3 volume is 1 GiB; Prometheus alone writes several segments of 128 MiB before it deletes any.
    volume_gib: int = Field(
        50,
        ge=10,
        le=16384,
        description="Size in GiB of the gp3 volume that holds the metrics (self-hosted). It can only grow.",
    )
    instance_type: str = Field(
        "t3.medium", description="Instance type of the monitoring host (self-hosted, managed), x86_64."
    )
    notify: Notify = Field(Notify(), description="Who is notified.")
    runbooks: _Url | None = Field(
        None, description="Address of this documentation, to which alerts link. Default: they name the page only."
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:  # noqa: ANN401 - whatever the file has
        """`observability: managed` means `observability: {mode: managed}`; false and no are YAML 1.1's `off`."""
        return given if isinstance(given, dict | cls) else {"mode": "off" if given in (False, "no") else given}

    @property
    def on(self) -> bool:
        """Whether there is anything to observe with: any mode but off."""
        return self.mode != "off"

    @property
    def notifies(self) -> bool:
        """Whether somebody receives what is sent to the topic."""
        return self.on and self.notify != Notify()

    @property
    def prometheus(self) -> bool:
        """Whether Prometheus collects metrics, so that exporters and the monitoring host run."""
        return self.mode in ("self-hosted", "managed")


def with_short_form(schema: dict[str, Any]) -> None:
    """Adds the short form to the JSON schema of a field that holds an Observability."""
    schema["anyOf"] = [{"$ref": schema.pop("$ref")}, {"enum": [*MODES, False]}]
