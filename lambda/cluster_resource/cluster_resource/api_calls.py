"""The calls that change a cluster: what comes before each, what its answer means, and the last check before success.

An update needs a dry run first. It stops the fleet or replaces the cluster only if the environment's policy allows it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from cluster_resource import decide, failures, outcomes, policies
from cluster_resource.api import Accepted, ApiError, ApiTrouble, ApiUnknownError, Change, ClusterView
from cluster_resource.aws import UNKNOWN
from cluster_resource.decide import Create, Decision, Delete, Fail, Replace, Succeed, Update, Verify
from cluster_resource.operation import Operation
from cluster_resource.outcomes import Turn

_LOG = logging.getLogger(__name__)
_STOPPING = ("STOP_REQUESTED", "STOPPING")
_CAN_START = ("STOPPED", "PROTECTED")


def call(turn: Turn, decision: Create | Update | Delete) -> Operation:
    if decision != Delete() and _overtaken(turn):
        return turn.operation
    try:
        match decision:
            case Create():
                turn.progress(creating=True)
                return _accepted(turn, turn.api.create(turn.name, turn.text))
            case Update():
                return _accepted(turn, turn.api.update(turn.name, turn.text))
            case Delete(clearing):
                turn.api.delete(turn.name)
                return turn.progress(clearing=_arn(turn)) if clearing else turn.progress(asked="accepted")
    except ApiUnknownError as error:
        return outcomes.unknown(turn, error, None if isinstance(decision, Delete) else decision)
    except ApiError as error:
        return handle_error(turn, error, decision)


def _overtaken(turn: Turn) -> bool:
    """Whether a later event may have stopped this execution. `on_event` cannot stop the step that runs."""
    execution = turn.aws.execution(turn.operation.execution)
    status = execution.status if execution else UNKNOWN
    if status == "RUNNING":
        return False
    _LOG.warning("%s: nothing is called: the execution is %s", turn.name, status)
    turn.progress(note=f"Step Functions reports its execution as {status}")
    return True


def handle_error(turn: Turn, error: ApiError, decision: Decision) -> Operation:
    message = error.message.lower()
    if error.http_status in (409, 429) or (isinstance(decision, Create) and "already exists" in message):
        # Something is in progress, or the name was taken since the last look: the next look shows which.
        return turn.progress(note=f"the API answered: {error}")
    if isinstance(decision, Update | Verify) and "no changes found" in message:
        return no_changes(turn)
    if isinstance(decision, Delete) and error.http_status == 404:
        return turn.progress(asked="accepted") if not decision.clearing else turn.operation
    return outcomes.refused(turn, error, touched=not isinstance(decision, Create | Verify))


def no_changes(turn: Turn) -> Operation:
    """The cluster has the wanted configuration; after a rollback of its update, that is a success too."""
    if turn.view and (turn.view.status in decide.STEADY or turn.view.stack_status == "UPDATE_ROLLBACK_COMPLETE"):
        why = f"No changes: the cluster has the wanted configuration; it is {turn.view}."
        return stabilize(turn, Succeed(why))
    fail = Fail(
        f"The cluster {turn.name} has the wanted configuration, but is {turn.seen}.",
        "Bring its stack to a stable state, then deploy again.",
        events=True,
    )
    return outcomes.finish(turn, fail)


def _accepted(turn: Turn, accepted: Accepted) -> Operation:
    for message in accepted.messages:
        _LOG.warning("%s", message)
    turn.progress(asked="accepted", clearing="", note="the request was accepted")
    wrong = wrong_version(turn, accepted.version)
    return outcomes.finish(turn, wrong) if wrong else turn.operation


def wrong_version(turn: Turn, version: str) -> Fail | None:
    """The failure if the API has another version than wanted; `version` is empty if the API does not name its own."""
    if not version or version == turn.wanted.version:
        return None
    return Fail(
        f"The API at {turn.operation.request.place.api_url} creates clusters of ParallelCluster {version}, but"
        f" {turn.wanted.version} is wanted.",
        "Point the environment at an API of that version, or set the version to that of the API.",
        touched=False,
    )


def _dry_run(method: Callable[..., Accepted], name: str, text: str) -> ApiError:
    """The answer to a dry run: 412 if the request would succeed.

    Raises:
        ApiUnknownError: there is no clear answer.
    """
    try:
        method(name, text, dry_run=True)
    except ApiError as error:
        return error
    raise ApiUnknownError("the API answered a dry run as if it were a real request")


def update(turn: Turn) -> Operation:
    """Dry run, then what it shows to be needed: the update, a stopped fleet, or a replacement."""
    if turn.operation.progress.fleet == "stopped":
        try:
            status = turn.api.fleet(turn.name)
        except ApiUnknownError as error:
            return outcomes.retry(turn, error)
        if status in _STOPPING:
            return outcomes.wait(turn, f"the compute fleet is {status}")
        if status != "STOPPED":
            return _stop_fleet(turn)
    answer = _dry_run(turn.api.update, turn.name, turn.text)
    if answer.http_status == 412:
        return _send(turn, answer.changes)
    return _handle_refusal(turn, answer) if answer.refused else handle_error(turn, answer, Update())


def verify(turn: Turn) -> Operation:
    """The cluster exists already: does it have the wanted configuration?"""
    answer = _dry_run(turn.api.update, turn.name, turn.text)
    if answer.http_status != 412 and not answer.refused:
        return handle_error(turn, answer, Verify())
    if turn.operation.request.type == "Update":
        # The rollback of a rename, to a cluster that had another configuration.
        return update(turn)
    fail = Fail(
        f"A cluster {turn.name} of this resource exists already, with another configuration. It was not touched.",
        "Delete it, or deploy with its configuration first and change that afterwards.",
        touched=False,
    )
    return outcomes.finish(turn, fail, tuple(map(failures.change_line, answer.changes)))


def replace_cluster(turn: Turn, why: str, details: tuple[str, ...] = ()) -> Operation:
    """Delete the cluster, to create it again under the same name. File systems and buckets are outside and stay.

    A dry run validates the new configuration first.
    """
    answer = _dry_run(turn.api.create, f"{turn.name[:30]}-checked", turn.text)
    if answer.http_status != 412:
        return handle_error(turn, answer, Verify())
    protected = _protect_jobs(turn, f"{why} The cluster has to be replaced", details)
    if protected:
        return protected
    if _overtaken(turn):
        return turn.operation
    _LOG.warning("%s: %s The cluster is replaced, as its environment allows.", turn.name, why)
    try:
        turn.api.delete(turn.name)
    except ApiUnknownError:
        # Repeated in the next turn: a second delete is harmless.
        turn.progress(clearing=_arn(turn), asked="nothing")
        raise
    except ApiError as error:
        return handle_error(turn, error, Replace(why))
    return turn.progress(clearing=_arn(turn), asked="nothing", note="the cluster is being replaced")


def _arn(turn: Turn) -> str:
    return turn.view.stack_arn if turn.view else ""


def _send(turn: Turn, wanted: Sequence[Change]) -> Operation:
    terminates = turn.properties is not None and turn.properties.queue_update == "TERMINATE"
    ended = [change.parameter for change in wanted if change.ends_nodes] if terminates else []
    why = f"QueueUpdateStrategy TERMINATE ends the nodes behind {', '.join(ended)}"
    protected = _protect_jobs(turn, why, ()) if ended else None
    return protected or call(turn, Update())


def _handle_refusal(turn: Turn, error: ApiError) -> Operation:
    details = (*failures.refusal_lines(error), *_changed_outside(turn))
    policy = turn.policy
    stopping_helps = policies.stopping_helps(error.refused) and turn.operation.progress.fleet != "stopped"
    if stopping_helps and (policy.stop_fleet or policy.rollback):
        protected = _protect_jobs(turn, "The compute fleet has to be stopped", details)
        return protected or _stop_fleet(turn)
    # In a rollback, the update that is undone has replaced the cluster: a key differs that never changes in place.
    undoes = policy.rollback and any(change.never_in_place for change in error.refused)
    if (policy.replace or undoes) and not stopping_helps:
        return replace_cluster(turn, "The API refuses to change what is asked for in place.", details)
    return outcomes.refused(turn, error, touched=True, details=details)


def _changed_outside(turn: Turn) -> tuple[str, ...]:
    """What somebody changed in the cluster since the last deployment, by a dry run of the configuration of that one."""
    deployed = turn.operation.request.deployed_text
    if turn.policy.rollback or not deployed:
        return ()
    try:
        changes = _dry_run(turn.api.update, turn.name, deployed).changes
    except ApiTrouble as error:
        return (f"Whether somebody changed the cluster outside CloudFormation could not be found out: {error}",)
    lines = (f"Changed outside CloudFormation, {failures.change_line(replace(item, message=''))}" for item in changes)
    return tuple(line.replace("asked for", "deployed") for line in lines)


def _stop_fleet(turn: Turn) -> Operation:
    if _overtaken(turn):
        return turn.operation
    try:
        turn.api.request_fleet(turn.name, running=False)
    except ApiUnknownError:
        turn.progress(fleet="stopped")
        raise
    except ApiError as error:
        return outcomes.wait(turn, f"the compute fleet cannot be stopped yet: {error}")
    _LOG.warning("%s: the compute fleet is stopped for the update", turn.name)
    turn.progress(fleet="stopped")
    return outcomes.wait(turn, "the compute fleet is being stopped for the update")


def protect_old_cluster(turn: Turn) -> Operation | None:
    """None if an update may create the cluster with the new name, or if the Delete after an update may begin.

    A rename under one logical id fails while jobs run on the old cluster, because CloudFormation deletes that after the
    update. The environment's stacks have a logical id for each name; there, and for jobs that start meanwhile, the
    Delete waits for the end of the jobs. A rollback and the delete of a stack do not ask.
    """
    operation = turn.operation
    request, progress = operation.request, operation.progress
    if progress.asked != "nothing" or progress.clearing:
        return None
    if operation.kind == "delete" and progress.clean_up:
        return _protect_jobs(turn, f"The update removed the cluster {turn.name} from the stack", ())
    name = request.cluster_of_id or request.old_name
    if operation.kind != "create" or request.type != "Update" or progress.rollback or not name:
        return None
    view = turn.api.describe(name)
    if view is None or not decide.is_ours(view, turn.wanted):
        return None
    return _protect_jobs(turn, f"The rename to {turn.name} deletes the cluster {name}", (), view)


def _protect_jobs(turn: Turn, why: str, details: tuple[str, ...], view: ClusterView | None = None) -> Operation | None:
    """None if no job runs, or jobs may be killed. With running jobs, a rollback waits and an update fails.

    Args:
        view: of the cluster with the jobs, where that is another one.
    """
    view = view or turn.view
    if turn.policy.kill_jobs or view is None:
        return None
    head_node = view.head_node_instance_id
    try:
        idle = turn.api.compute_nodes(view.name) == 0
    except ApiTrouble as error:
        return outcomes.retry(turn, error)
    count = 0 if idle else turn.aws.running_jobs(head_node) if head_node else None
    if count == 0:
        return None
    sentence = "1 job runs" if count == 1 else f"{count} jobs run"
    todo = "Wait until the jobs have ended"
    if count is None:
        sentence = "whether jobs run could not be found out (the head node does not answer through SSM)"
        todo = "Make the head node answer through SSM"
    if turn.operation.kind == "delete":
        delete = f"pcluster delete-cluster --cluster-name {view.name}"
        return outcomes.wait(turn, f"{why}, and {sentence}; if CloudFormation gives up, delete it later: `{delete}`")
    if turn.policy.rollback and count:
        return outcomes.wait(turn, f"{why}, and {sentence}; the rollback waits for their end")
    fail = Fail(
        f"{why}, and {sentence}. Nothing was touched.",
        f"{todo} and deploy again, or let the environment allow it"
        " (cluster.updates.running_jobs: may-be-killed; docs/cluster-updates.md says what an environment can allow).",
    )
    return outcomes.finish(turn, fail, details)


def stabilize(turn: Turn, succeed: Succeed) -> Operation:
    """Finish with success once the configuration is verified and the compute fleet runs."""
    progress = turn.operation.progress
    if decide.update_may_begin(progress):
        return outcomes.wait(turn, "the update that is rolled back may still begin")
    if turn.operation.kind == "update" and progress.asked == "accepted" and not progress.creating:
        unsettled = _verify_update(turn)
        if unsettled:
            return unsettled
    try:
        return _start_fleet(turn, succeed)
    except (ApiError, ApiUnknownError) as error:
        return outcomes.retry(turn, error)


def _verify_update(turn: Turn) -> Operation | None:
    """Dry run: with changes, update again; on 409 or 429, wait; else None."""
    answer = _dry_run(turn.api.update, turn.name, turn.text)
    if answer.http_status == 412:
        note = "the update ended, but the cluster has another configuration"
        return outcomes.unknown(turn, ApiUnknownError(note), Update())
    if answer.http_status in (409, 429):
        return outcomes.wait(turn, f"the API answered: {answer}")
    if "no changes found" not in answer.message.lower():
        _LOG.warning("The configuration of %s could not be verified after its update: %s", turn.name, answer)
    return None


def _start_fleet(turn: Turn, succeed: Succeed) -> Operation:
    status = turn.api.fleet(turn.name)
    if status == "RUNNING":
        return outcomes.finish(turn, succeed)
    # Only for a cluster that this execution created: for another one, the update may be the cure.
    progress = turn.operation.progress
    new = progress.asked != "nothing" and progress.creating
    if status == "PROTECTED" and (new or progress.fleet == "started"):
        fail = Fail(
            f"The cluster {turn.name} is {turn.seen}, but its compute fleet is PROTECTED: nodes failed to start too"
            " often, and ParallelCluster starts no more.",
            "Look for the cause in the cluster's logs (clustermgtd, and the bootstrap of the compute nodes),"
            " correct it and deploy again.",
            events=True,
        )
        return outcomes.finish(turn, fail)
    if status in _CAN_START:
        _LOG.warning("%s: the compute fleet is %s and is started", turn.name, status)
        turn.api.request_fleet(turn.name, running=True)
        turn.progress(fleet="started")
    return outcomes.wait(turn, f"its compute fleet is {status}")
