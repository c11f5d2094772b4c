"""What the changes of an update mean for the nodes, read from the API's own dry run."""

import re
from collections.abc import Sequence

from cluster_resource.api import Change

# ParallelCluster's sentences (pcluster/config/update_policy.py, 3.16.1).
_FLEET = re.compile(r"compute nodes must be stopped|stop the compute fleet", re.IGNORECASE)
_LOGIN = re.compile(r"login nodes must be stopped|stop the login nodes", re.IGNORECASE)
_NEVER = re.compile(r"not currently supported", re.IGNORECASE)
_COUNTS = re.compile(r"\.(MinCount|MaxCount)$")


def stopping_helps(refused: Sequence[Change]) -> bool:
    """Whether every refused change would be accepted with a stopped compute fleet."""
    return bool(refused) and all(needs_stop(change) and not _LOGIN.search(change.message) for change in refused)


def made_anew(refused: Sequence[Change]) -> bool:
    """Whether the cluster cannot have come by update from what is asked for: it has another value of a key that never
    changes in place. In a rollback, the update that is undone has made it.
    """
    return any(_NEVER.search(change.message) for change in refused)


def needs_stop(change: Change) -> bool:
    return bool(_FLEET.search(change.message))


def end_nodes(changes: Sequence[Change], queue_update: str) -> tuple[Change, ...]:
    """The changes that end running nodes by the configuration's own QueueUpdateStrategy.

    TERMINATE ends the nodes of each queue that changes; DRAIN lets their jobs finish. What only adds nodes ends none.
    """
    if queue_update != "TERMINATE":
        return ()
    return tuple(change for change in changes if "SlurmQueues" in change.parameter and not _adds(change))


def policy_of(change: Change) -> str:
    """What ParallelCluster asks for, in a few words."""
    if not change.message:
        return "may change"
    if _LOGIN.search(change.message):
        return "needs the login nodes stopped"
    return "needs the compute fleet stopped" if needs_stop(change) else "can never change in place"


def _adds(change: Change) -> bool:
    if change.current == "-":
        return not _COUNTS.search(change.parameter)
    if _COUNTS.search(change.parameter) and change.current.isdigit() and change.requested.isdigit():
        return int(change.requested) >= int(change.current)
    return False
