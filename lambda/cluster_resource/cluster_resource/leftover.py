"""The cluster that a failed rename left: CloudFormation does not know it, so only the rollback can delete it."""

import logging

from cluster_resource import decide
from cluster_resource.api import ApiError, ApiTrouble
from cluster_resource.turn import Turn

_LOG = logging.getLogger(__name__)
MAX_TRIES = 8  # at 15 s a poll: two minutes of an API that answers badly


def dropped(turn: Turn, name: str) -> bool:
    """Try to have it deleted, if it is ours. False: try again at the next turn. Nobody waits for the deletion's end."""
    view = turn.api.describe(name)
    if not view or not decide.is_ours(view, turn.wanted) or view.status == "DELETE_IN_PROGRESS":
        turn.progress(leftover=None)
        return True
    try:
        turn.api.delete(name)
    except ApiTrouble as error:
        if isinstance(error, ApiError) and error.http_status == 404:
            turn.progress(leftover=None)
            return True
        tries = turn.work.progress.leftover_tries + 1
        _LOG.warning("The cluster %s, left by a failed rename, could not be deleted (%d): %s", name, tries, error)
        turn.progress(leftover_tries=tries, note=f"the cluster {name}, left by a failed rename, is to be deleted")
        if tries < MAX_TRIES:
            return False
        turn.progress(leftover=None, left_behind=name)
        return True
    turn.progress(leftover=None)
    return True
