"""How a turn ends: with a verdict, or with another look later."""

import logging
from dataclasses import replace

from cluster_resource import failing, verdicts
from cluster_resource.api import ApiAccessError, ApiTrouble, ApiUnknownError
from cluster_resource.decide import Create, Decision, Delete, Fail, Replace, Succeed, Verify, Wait
from cluster_resource.turn import Turn
from cluster_resource.work_item import Work

_LOG = logging.getLogger(__name__)
MAX_UNKNOWN_CALLS = 5
MAX_REFUSALS = 8  # at 15 s a poll: two minutes for a new role to become visible everywhere


def finish(turn: Turn, decision: Succeed | Fail, details: tuple[str, ...] = ()) -> Work:
    behind = turn.work.progress.left_behind
    warnings = (failing.left_behind(behind),) if behind else ()
    if isinstance(decision, Succeed):
        verdict = verdicts.success(turn.work, turn.view, " ".join((decision.why, *warnings)))
    else:
        details = (*_give_back_the_fleet(turn), *warnings, *details)
        verdict = failing.verdict(turn, decision, details)
    turn.work = replace(turn.work, verdict=verdict)
    return turn.work


def wait(turn: Turn, why: str) -> Work:
    """Look again later; past the deadline, fail."""
    decision = turn.in_time(Wait(why))
    return finish(turn, decision) if isinstance(decision, Fail) else turn.progress(note=why)


def unknown(turn: Turn, error: ApiUnknownError, decision: Decision) -> Work:
    calls = turn.work.progress.unknown_calls + 1
    asked = turn.work.progress.asked if isinstance(decision, Verify | Delete | Replace | Wait) else "unknown"
    replacing = turn.work.progress.replacing or (isinstance(decision, Create) and turn.work.operation == "update")
    note = f"a call had no clear answer ({error})"
    turn.progress(asked=asked, unknown_calls=calls, replacing=replacing, note=note)
    _LOG.warning("%s: no clear answer (%d): %s", type(decision).__name__, calls, error)
    if calls < MAX_UNKNOWN_CALLS:
        return turn.work
    return finish(turn, failing.no_answer(turn.work, turn.name, error, turn.seen))


def blind(turn: Turn, error: ApiTrouble) -> Work:
    """The look itself failed. The cluster goes on without us: look again until time runs out."""
    _LOG.warning("%s: %s", turn.name, error)
    return wait(turn, f"the API could not be reached ({error})")


def no_access(turn: Turn, error: ApiAccessError) -> Work:
    refusals = turn.work.progress.refusals + 1
    _LOG.warning("%s: %s", turn.name, error)
    turn.progress(refusals=refusals, note=str(error))
    if refusals < MAX_REFUSALS and turn.now < turn.work.deadline:
        return turn.work
    return finish(turn, failing.no_access(turn.place, error))


def _give_back_the_fleet(turn: Turn) -> tuple[str, ...]:
    """After a failure: start the fleet that this execution stopped. What is to be said about it."""
    if turn.work.progress.fleet != "stopped":
        return ()
    try:
        turn.api.request_fleet(turn.name, running=True)
    except ApiTrouble as error:
        return (f"The compute fleet was stopped for the update and could not be started again: {error}",)
    return ("The compute fleet was stopped for the update; its start was requested again.",)
