"""An update, with what it may need: the fleet stopped, or the cluster replaced. Nothing of that without permission."""

import logging
from collections.abc import Sequence

from cluster_resource import calling, changes, ending, failing, jobs, report
from cluster_resource.api import ApiError, ApiTrouble, ApiUnknownError, Change
from cluster_resource.decide import Fail, Replace, Update, Verify
from cluster_resource.properties import request_of
from cluster_resource.turn import Turn
from cluster_resource.work_item import Work

_LOG = logging.getLogger(__name__)
_ON_THE_WAY = ("STOP_REQUESTED", "STOPPING")
_POLICIES = "docs/cluster-updates.md says what an environment can allow"


def update(turn: Turn) -> Work:
    """The dry run, what it shows to be needed, and the update itself."""
    if turn.work.progress.fleet == "stopped":
        status = turn.api.fleet(turn.name)
        if status != "STOPPED":
            return (
                _stop_fleet(turn) if status not in _ON_THE_WAY else ending.wait(turn, f"the compute fleet is {status}")
            )
    try:
        turn.api.update(turn.name, turn.text, dry_run=True)
    except ApiUnknownError as error:
        return ending.unknown(turn, error, Verify())
    except ApiError as error:
        if error.http_status == 412:
            return _send(turn, error.changes)
        return _refused(turn, error) if error.refused else calling.refusal(turn, error, Update())
    return ending.unknown(turn, ApiUnknownError("a dry run was answered as if it were none"), Update())


def verify(turn: Turn) -> Work:
    """A cluster of ours is there already: is it the one that is wanted?"""
    try:
        turn.api.update(turn.name, turn.text, dry_run=True)
    except ApiUnknownError as error:
        return ending.unknown(turn, error, Verify())
    except ApiError as error:
        if error.http_status != 412 and not error.refused:
            return calling.refusal(turn, error, Verify())
        if request_of(turn.work.event).type == "Update":
            # The way back of a rename, to a cluster that had other settings when it was left.
            return update(turn)
        return ending.finish(turn, failing.differs(turn.name), details=report.drift(error.changes))
    return ending.unknown(turn, ApiUnknownError("a dry run was answered as if it were none"), Verify())


def replace_cluster(turn: Turn, why: str, details: tuple[str, ...] = ()) -> Work:
    """Delete the cluster, to create it anew under the same name. Its file systems are not its own and stay.

    The new configuration is validated first: a cluster is not deleted for one that cannot be made.
    """
    invalid = _invalid(turn)
    if invalid:
        return invalid
    protected = _protect_jobs(turn, f"{why} The cluster has to be replaced", details)
    if protected:
        return protected
    _LOG.warning("%s: %s The cluster is replaced, as its environment allows.", turn.name, why)
    try:
        turn.api.delete(turn.name)
    except ApiUnknownError as error:
        # Asked again at the next turn: a second deletion changes nothing.
        turn.progress(replacing=True, clearing=True, asked="nothing")
        return ending.unknown(turn, error, Replace(why))
    except ApiError as error:
        return calling.refusal(turn, error, Replace(why))
    return turn.progress(replacing=True, clearing=True, asked="nothing", note="the cluster is being replaced")


def _send(turn: Turn, wanted: Sequence[Change]) -> Work:
    ended = changes.end_nodes(wanted, turn.properties.queue_update if turn.properties else "")
    if ended:
        keys = ", ".join(change.parameter for change in ended)
        protected = _protect_jobs(turn, f"QueueUpdateStrategy TERMINATE ends the nodes behind {keys}", ())
        if protected:
            return protected
    return calling.call(turn, Update())


def _refused(turn: Turn, error: ApiError) -> Work:
    details = report.refusal(error)
    policy = turn.policy
    stopping_helps = changes.stopping_helps(error.refused) and turn.work.progress.fleet != "stopped"
    if stopping_helps and (policy.stop_fleet or policy.rollback):
        protected = _protect_jobs(turn, "The compute fleet has to be stopped", details)
        return protected or _stop_fleet(turn)
    undoes = policy.rollback and changes.made_anew(error.refused)
    if (policy.replace or undoes) and not stopping_helps:
        return replace_cluster(turn, "The API refuses to change what is asked for in place.", details)
    return ending.finish(turn, failing.refused(turn.work, turn.name, error, touched=True), details=details)


def _stop_fleet(turn: Turn) -> Work:
    try:
        turn.api.request_fleet(turn.name, running=False)
    except ApiUnknownError as error:
        turn.progress(fleet="stopped")
        return ending.unknown(turn, error, Verify())
    except ApiError as error:
        return ending.wait(turn, f"the compute fleet cannot be stopped yet: {error}")
    _LOG.warning("%s: the compute fleet is stopped for the update", turn.name)
    turn.progress(fleet="stopped")
    return ending.wait(turn, "the compute fleet is being stopped for the update")


def _protect_jobs(turn: Turn, why: str, details: tuple[str, ...]) -> Work | None:
    """None where no job is in danger, or where jobs may be killed. A rollback waits for them, an update does not."""
    if turn.policy.kill_jobs or turn.view is None:
        return None
    try:
        count = jobs.running(turn.api, turn.aws, turn.view)
    except ApiTrouble as error:
        return ending.blind(turn, error)
    if count == 0:
        return None
    sentence = jobs.sentence(count)
    if turn.policy.rollback and count:
        return ending.wait(turn, f"{why}, and {sentence}; the rollback waits for their end")
    return ending.finish(
        turn,
        Fail(
            f"{why}, and {sentence}. Nothing was touched.",
            "Wait until the jobs have ended and deploy again, or let the environment allow it"
            f" (cluster.updates.running_jobs: may-be-killed; {_POLICIES}).",
        ),
        details=details,
    )


def _invalid(turn: Turn) -> Work | None:
    name = f"{turn.name[:30]}-checked"
    try:
        turn.api.create(name, turn.text, dry_run=True)
    except ApiUnknownError as error:
        return ending.unknown(turn, error, Verify())
    except ApiError as error:
        if error.http_status == 412:
            return None
        return calling.refusal(turn, error, Verify())
    return ending.unknown(turn, ApiUnknownError("a dry run was answered as if it were none"), Verify())
