"""One turn: look at the cluster, decide, make one call at most that changes something, write down what became of it."""

import logging
from collections.abc import Callable

from cluster_resource import calling, ending, failing, leftover, settling, updating
from cluster_resource.api import ApiTrouble, ClusterView
from cluster_resource.decide import Create, Decision, Fail, Replace, Succeed, Update, Verify, Wait, Wanted
from cluster_resource.turn import Turn
from cluster_resource.work_item import Progress, Work

_LOG = logging.getLogger(__name__)

DecideOperation = Callable[[ClusterView | None, Progress, Wanted], Decision]


def take(turn: Turn, decide_operation: DecideOperation) -> Work:  # noqa: PLR0911 - one return a decision
    if turn.work.progress.leftover and not leftover.dropped(turn, turn.work.progress.leftover):
        return ending.wait(turn, turn.work.progress.note)
    turn.look()
    decision = turn.in_time(decide_operation(turn.view, turn.work.progress, turn.wanted))
    _LOG.info("%s %s: seen %s, decided %s", turn.work.operation, turn.name, turn.seen, decision)
    turn.progress(refusals=0)
    if isinstance(decision, Create | Update | Replace) and (unlike := _api_unlike(turn)):
        return ending.finish(turn, unlike)
    match decision:
        case Succeed() if turn.work.operation != "delete":
            return settling.settle(turn, decision)
        case Succeed() | Fail():
            return ending.finish(turn, decision)
        case Wait(why):
            return turn.progress(note=why)
        case Update():
            return updating.update(turn)
        case Replace(why):
            return updating.replace_cluster(turn, why)
        case Verify():
            return updating.verify(turn)
        case _:
            return calling.call(turn, decision)


def _api_unlike(turn: Turn) -> Fail | None:
    """Before anything is asked of it: is the API of the version that is wanted? Not every API tells."""
    if turn.work.progress.api_checked or not turn.properties:
        return None
    try:
        version = turn.api.api_version(turn.properties.os)
    except ApiTrouble as error:
        _LOG.warning("The API's version could not be found out: %s", error)
        version = None
    if version and version != turn.wanted.version:
        return failing.unlike_version(turn.place.api_url, version, turn.wanted.version)
    turn.progress(api_checked=True)
    return None
