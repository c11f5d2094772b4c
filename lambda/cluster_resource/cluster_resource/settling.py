"""The last look before a success: the cluster has the configuration that is wanted, and its compute fleet runs."""

import logging

from cluster_resource import ending
from cluster_resource.api import ApiAccessError, ApiError, ApiTrouble, ApiUnknownError
from cluster_resource.decide import Fail, Succeed, Update, Wait
from cluster_resource.turn import Turn
from cluster_resource.work_item import Work

_LOG = logging.getLogger(__name__)
_RUNS = "RUNNING"
_CAN_START = ("STOPPED", "PROTECTED")


def settle(turn: Turn, succeed: Succeed) -> Work:
    """Finish with the success, or do what is still missing for it."""
    try:
        if turn.work.operation == "update" and turn.work.progress.asked == "accepted":
            unsettled = _verified(turn)
            if unsettled:
                return unsettled
        return _fleet_runs(turn, succeed)
    except ApiAccessError:
        raise
    except ApiTrouble as error:
        return ending.blind(turn, error)


def _verified(turn: Turn) -> Work | None:
    """None if the API finds nothing to change; the update is sent again if it does."""
    if turn.work.progress.replacing:
        return None
    try:
        turn.api.update(turn.name, turn.text, dry_run=True)
    except ApiUnknownError as error:
        return ending.unknown(turn, error, Wait("its configuration is being verified"))
    except ApiError as error:
        if error.http_status == 412:
            note = "the update ended, but the cluster has another configuration"
            return ending.unknown(turn, ApiUnknownError(note), Update())
        if error.http_status in (409, 429):
            return ending.wait(turn, f"the API answered: {error}")
        if "no changes found" not in error.message.lower():
            _LOG.warning("The configuration of %s could not be verified after its update: %s", turn.name, error)
        return None
    raise ApiUnknownError("a dry run was answered as if it were none")


def _fleet_runs(turn: Turn, succeed: Succeed) -> Work:
    status = turn.api.fleet(turn.name)
    if status == _RUNS:
        return ending.finish(turn, succeed)
    # A cluster that this execution made. Another one is given a chance: what is asked for may be what cures it.
    progress = turn.work.progress
    new = progress.asked != "nothing" and (turn.work.operation == "create" or progress.replacing)
    if status == "PROTECTED" and (new or progress.fleet == "started"):
        return ending.finish(
            turn,
            Fail(
                f"The cluster {turn.name} is {turn.seen}, but its compute fleet is PROTECTED: nodes failed to start too"
                " often, and Slurm was told to start no more.",
                "Look for the cause in the cluster's logs (clustermgtd, and the bootstrap of the compute nodes),"
                " correct it and deploy again.",
                events=True,
            ),
        )
    if status in _CAN_START:
        _LOG.warning("%s: the compute fleet is %s and is started", turn.name, status)
        turn.api.request_fleet(turn.name, running=True)
        turn.progress(fleet="started")
    return ending.wait(turn, f"its compute fleet is {status}")
