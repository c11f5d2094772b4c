"""The calls that change a cluster, and what their answers mean."""

from cluster_resource import decide, ending, failing, report, settling
from cluster_resource.api import Accepted, ApiError, ApiUnknownError
from cluster_resource.decide import Create, Decision, Delete, Succeed, Update, Verify
from cluster_resource.turn import Turn
from cluster_resource.work_item import Work


def call(turn: Turn, decision: Create | Update | Delete) -> Work:
    try:
        match decision:
            case Create():
                made = _accepted(turn, turn.api.create(turn.name, turn.text))
                return turn.progress(replacing=True) if turn.work.operation == "update" else made
            case Update():
                return _accepted(turn, turn.api.update(turn.name, turn.text))
            case Delete(clearing):
                turn.api.delete(turn.name)
                return turn.progress(clearing=True) if clearing else turn.progress(asked="accepted")
    except ApiUnknownError as error:
        return ending.unknown(turn, error, decision)
    except ApiError as error:
        return refusal(turn, error, decision)


def refusal(turn: Turn, error: ApiError, decision: Decision) -> Work:
    message = error.message.lower()
    if error.http_status in (409, 429) or (isinstance(decision, Create) and "already exists" in message):
        # Something is in progress, or the name was taken since we looked: the next look tells which.
        return turn.progress(note=f"the API answered: {error}")
    if isinstance(decision, Update | Verify) and "no changes found" in message:
        return no_changes(turn)
    if isinstance(decision, Delete) and error.http_status == 404:
        return turn.progress(asked="accepted") if not decision.clearing else turn.work
    touched = not isinstance(decision, Create | Verify)
    refused = failing.refused(turn.work, turn.name, error, touched=touched)
    return ending.finish(turn, refused, details=report.refusal(error))


def no_changes(turn: Turn) -> Work:
    """The cluster has the wanted configuration; after a rollback of its own, that is what it went back to."""
    if turn.view and (turn.view.status in decide.STEADY or turn.view.stack_status == "UPDATE_ROLLBACK_COMPLETE"):
        why = f"No changes: the cluster has the wanted configuration; it is {turn.view}."
        return settling.settle(turn, Succeed(why))
    return ending.finish(turn, failing.half_updated(turn.name, turn.seen))


def _accepted(turn: Turn, accepted: Accepted) -> Work:
    report.warnings(accepted.messages)
    turn.progress(asked="accepted", clearing=False, note="the request was accepted")
    if accepted.version and accepted.version != turn.wanted.version:
        return ending.finish(turn, failing.unlike_version(turn.place.api_url, accepted.version, turn.wanted.version))
    return turn.work
