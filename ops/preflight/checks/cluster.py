"""ParallelCluster's dry run of the cluster.

If the environment's stacks are deployed, its API validates in the account: subnets, groups, file systems, images,
instance types, a dry run of RunInstances. Before the first deployment neither the API nor the resources exist, so the
schema, validators and template builder of the ParallelCluster package check the configuration against a fictitious
account (`parallelcluster.check`), and a note says that the account itself was not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cluster_resource.api import OWNER_TAG, ApiAccessError, ApiError, ApiTrouble, ClusterApi, Message
from cluster_resource.client import HttpClusterApi, RoleSigner
from cluster_resource.request import render as render_body
from ops import pcluster_subprocess
from ops.preflight import configuration
from ops.preflight.configuration import Unresolved, Wanted
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict, judged, note
from trainyard.cluster_config import render
from trainyard.pipeline.actions import ASSUME

_DRY_RUN_WOULD_SUCCEED = 412
_NO_ANSWER = (
    "try again; if the error remains (some changes are refused while the fleet runs), see what the change needs: "
    "trainyard diff"
)


def api_of(wanted: Wanted, region: str) -> ClusterApi:
    """The client that the custom resource uses too."""
    signer = RoleSigner(wanted.api_user_role_arn, wanted.name, wanted.api_url, region)
    return HttpClusterApi(wanted.api_url, region, signer)


def check(context: CheckContext, connect: Callable[[Wanted, str], ClusterApi] = api_of) -> Iterator[CheckResult]:
    """The dry run of the API if it is deployed, else of the package."""
    if not any(resource.part == "cluster" for resource in context.deployed):
        reason = "the cluster's stack is not deployed yet" if context.deployed else "nothing is deployed yet"
        yield from _package(context, reason)
        return
    try:
        wanted = configuration.wanted(context)
    except Unresolved as error:
        yield from _package(context, f"{error} is not deployed yet")
        return
    try:
        yield from _dry_run(connect(wanted, context.environment.region), wanted)
    except ApiTrouble as error:
        denied = isinstance(error, ApiAccessError)
        todo = f"grant {ASSUME} on {wanted.api_user_role_arn}" if denied else _NO_ANSWER
        subject = f"dry run of {wanted.name}"
        yield CheckResult(subject, wanted.api_url, str(error), "an answer", Verdict.UNKNOWN, todo)


def _dry_run(api: ClusterApi, wanted: Wanted) -> Iterator[CheckResult]:
    view = api.describe(wanted.name)
    operation, method, call = ("update", "PUT", api.update) if view else ("create", "POST", api.create)
    owner = (view.tags.get(OWNER_TAG) if view else None) or "preflight"
    asked = f"{method} of the ParallelCluster API, dryrun=true"
    try:
        messages = call(wanted.name, render_body(wanted.configuration, owner), dry_run=True).messages
        found, verdict, todo = "accepted", Verdict.OK, ""
    except ApiError as error:
        messages = error.messages
        refused = [f"{change.parameter}: {change.message}" for change in error.refused]
        if error.http_status == _DRY_RUN_WOULD_SUCCEED:
            found, verdict, todo = "it would succeed", Verdict.OK, ""
        elif "no changes found" in error.message.lower():
            found, verdict, todo = "no changes: the cluster is as the file describes it", Verdict.OK, ""
        elif refused and not any(message.level == "ERROR" for message in messages):
            found, verdict = f"refused in the cluster's present state: {_cut('; '.join(refused))}", Verdict.WARNING
            todo = "see what the change needs: trainyard diff"
        elif error.http_status in (429, 409) or error.http_status >= 500:
            found, verdict, todo = str(error), Verdict.UNKNOWN, "try again when no operation on the cluster runs"
        else:
            found, verdict = f"refused: {_cut(error.message)}", Verdict.FAULT
            todo = "correct what the results below name" if messages else "correct the environment file"
    subject = f"dry run: {operation} {wanted.name}"
    yield CheckResult(subject, asked, found, "the API accepts it", verdict, todo)
    yield from _messages(messages, asked)


def _package(context: CheckContext, reason: str) -> Iterator[CheckResult]:
    environment = context.environment
    name = environment.cluster_name
    answer = pcluster_subprocess.check(name, render(environment, configuration.placeholders(environment)))
    asked = "schema, validators and template builder of the ParallelCluster package, in a fictitious account"
    found = "accepted" if answer["ok"] else "refused"
    if answer["schema"]:
        found = f"refused by the schema: {_cut(str(answer['schema']))}"
    subject, todo = f"configuration of {name}", "correct the environment file"
    yield judged(subject, asked, found, "accepted", ok=answer["ok"], todo=todo)
    messages = (Message(item["level"], item["type"], item["message"]) for item in answer["messages"])
    yield from _messages(tuple(messages), asked)
    wanted = "the ParallelCluster API's dry run in the account"
    todo = "run the preflight again after the stacks are deployed"
    yield note(f"dry run of {name}", f"not asked: {reason}", wanted, todo)


def _messages(messages: tuple[Message, ...], asked: str) -> Iterator[CheckResult]:
    """Messages of validators. Warnings occur for accepted configurations too, so they are notes."""
    for message in messages:
        fault = message.level == "ERROR"
        verdict, todo = (Verdict.FAULT, "correct what the message names") if fault else (Verdict.NOTE, "")
        subject = message.type or "validator"
        yield CheckResult(subject, asked, _cut(message.text), "no objection", verdict, todo)


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:297]}..."
