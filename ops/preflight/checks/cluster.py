"""ParallelCluster's own dry run of the cluster.

Where the environment's stacks stand, its API is asked, which validates in the account: subnets, groups, file systems,
images, instance types, a dry run of RunInstances. Before the first deployment there is neither the API nor what the
configuration names, so the genuine package's schema, validators and template builder are asked here, in a made-up
account that has everything (`parallelcluster.check`); a note says that the account itself was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cluster_resource.api import OWNER_TAG, Accepted, ApiAccessError, ApiError, ApiTrouble, ClusterApi, Message
from cluster_resource.client import HttpClusterApi, RoleSigner, session_name, signing_region
from cluster_resource.request import render as render_body
from ops import pcluster_subprocess
from ops.preflight import configuration, placeholders
from ops.preflight.configuration import Wanted
from ops.preflight.line import Line, Verdict
from ops.preflight.permissions import ASSUME
from ops.preflight.question import Question
from ops.preflight.resolve import Unresolved
from trainyard.cluster_config import render

CHECK = "cluster"
_DRY_RUN_WOULD_SUCCEED = 412
_PACKAGE = "the ParallelCluster package"
_WORDS = 300
_NO_ANSWER = (
    "ask again; if it stays (it does for some changes while the fleet runs), see what the change needs: make diff"
)


def api_of(wanted: Wanted, region: str) -> ClusterApi:
    """The product's own client of the API."""
    signer = RoleSigner(wanted.api_user_role_arn, session_name(wanted.name), signing_region(wanted.api_url, region))
    return HttpClusterApi(wanted.api_url, region, signer)


def check(question: Question, connect: Callable[[Wanted, str], ClusterApi] = api_of) -> Iterator[Line]:
    """The dry run of the API where it stands, else that of the package."""
    environment = question.environment
    if not question.standing.by_part.get("cluster"):
        reason = (
            "nothing is deployed yet" if not question.standing.by_part else "the cluster's stack does not stand yet"
        )
        yield from _package(question, reason)
        return
    try:
        wanted = configuration.wanted(question)
    except Unresolved as error:
        yield from _package(question, f"{error} does not stand yet")
        return
    try:
        yield from _dry_run(connect(wanted, environment.region), wanted)
    except ApiTrouble as error:
        denied = isinstance(error, ApiAccessError)
        yield Line(
            CHECK,
            f"dry run of {wanted.name}",
            wanted.api_url,
            str(error),
            "an answer",
            Verdict.UNKNOWN,
            f"grant {ASSUME} on {wanted.api_user_role_arn}" if denied else _NO_ANSWER,
        )


def _dry_run(api: ClusterApi, wanted: Wanted) -> Iterator[Line]:
    view = api.describe(wanted.name)
    operation = "update" if view else "create"
    owner = (view.tags.get(OWNER_TAG) if view else None) or "preflight"
    text = render_body(wanted.configuration, owner)
    subject = f"dry run: {operation} {wanted.name}"
    asked = f"{'PUT' if view else 'POST'} of the ParallelCluster API, dryrun=true"
    messages: tuple[Message, ...] = ()
    try:
        accepted: Accepted = (api.update if view else api.create)(wanted.name, text, dry_run=True)
        messages = accepted.messages
        found, verdict, todo = "accepted", Verdict.OK, ""
    except ApiError as error:
        messages = error.messages
        refused = [f"{change.parameter}: {change.message}" for change in error.refused]
        if error.http_status == _DRY_RUN_WOULD_SUCCEED:
            found, verdict, todo = "it would succeed", Verdict.OK, ""
        elif "no changes found" in error.message.lower():
            found, verdict, todo = "no changes: the cluster is as the file says", Verdict.OK, ""
        elif refused and not any(message.level == "ERROR" for message in messages):
            found, verdict = f"refused as things stand: {_cut('; '.join(refused))}", Verdict.WARNING
            todo = "look at what the change needs: make diff"
        elif error.http_status in (429, 409) or error.http_status >= 500:
            found, verdict, todo = str(error), Verdict.UNKNOWN, "ask again when the cluster is at rest"
        else:
            found, verdict = f"refused: {_cut(error.message)}", Verdict.FAULT
            todo = "correct what the lines below name" if messages else "correct the environment file"
    yield Line(CHECK, subject, asked, found, "the API takes it", verdict, todo)
    yield from _messages(messages, asked)


def _package(question: Question, reason: str) -> Iterator[Line]:
    environment = question.environment
    settings = render(environment, placeholders.references(environment))
    answer = pcluster_subprocess.check(environment.cluster_name, settings)
    asked = f"schema, validators and template builder of {_PACKAGE}, in a made-up account"
    found = "accepted" if answer["ok"] else "refused"
    if answer["schema"]:
        found = f"refused by the schema: {_cut(str(answer['schema']))}"
    yield Line(
        CHECK,
        f"configuration of {environment.cluster_name}",
        asked,
        found,
        "accepted",
        Verdict.OK if answer["ok"] else Verdict.FAULT,
        "" if answer["ok"] else "correct the environment file",
    )
    yield from _messages(
        tuple(Message(item["level"], item["type"], item["message"]) for item in answer["messages"]), asked
    )
    yield Line(
        CHECK,
        f"dry run of {environment.cluster_name}",
        "nothing",
        f"not asked: {reason}",
        "the ParallelCluster API's dry run in the account",
        Verdict.NOTE,
        "run the preflight again when the stacks stand",
    )


def _messages(messages: tuple[Message, ...], asked: str) -> Iterator[Line]:
    """What validators say. Their warnings stand in an accepted configuration too, and are notes to whoever looks."""
    for message in messages:
        fault = message.level == "ERROR"
        yield Line(
            CHECK,
            message.type or "validator",
            asked,
            _cut(message.text),
            "no objection",
            Verdict.FAULT if fault else Verdict.NOTE,
            "correct what the message names" if fault else "",
        )


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _WORDS else f"{flat[: _WORDS - 3]}..."
