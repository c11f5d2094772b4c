"""The training projects: their shares of the nodes, and their folders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from settings.faults import KeyPath, key_text
from settings.lifecycle import days, expiring, prefixes
from settings.model import Environment
from settings.model.environment import Model, ModelFolders
from settings.rules.items import Finding, Items, clashes, for_each, models, mounts, overlap, queues


@for_each(models)
def queue(environment: Environment, key: KeyPath, model: Model) -> Iterator[Finding]:
    """The project's queue exists."""
    names = [item.name for _, item in queues(environment)]
    if model.queue not in names:
        yield Finding((*key, "queue"), model.queue, f"one of the queues: {', '.join(names)}")


def shares(environment: Environment) -> Iterator[Finding]:
    """The nodes of a queue's projects add up to the queue's maximum.

    With more, the projects could not train at the same time; with fewer, nodes that are paid for would be idle. A queue
    without projects has no such rule.
    """
    for key, item in queues(environment):
        mine = [(at, model) for at, model in models(environment) if model.queue == item.name]
        fleet = sum(compute.max for compute in item.compute)
        total = sum(model.nodes for _, model in mine)
        if mine and total != fleet:
            added = f"{' + '.join(str(model.nodes) for _, model in mine)} = " if len(mine) > 1 else ""
            spare = f"{total - fleet} too many" if total > fleet else f"{fleet - total} would be idle"
            yield Finding(
                (*mine[-1][0], "nodes"),
                f"{added}{total} nodes for the queue {item.name}",
                f"nodes that add up to the queue's maximum, {fleet} ({key_text(key)})",
                f"{spare}: change the models' nodes, or max of the queue's compute resources",
            )


def _folders(environment: Environment, *names: str) -> Items[str]:
    for key, model in models(environment):
        for name in names:
            yield (*key, "folders", name), str(getattr(model.folders, name))


def on_a_mount(environment: Environment) -> Iterator[Finding]:
    """Folders are below a shared mount: a node's own disk is deleted with the node."""
    shared = [mount for _, mount in mounts(environment)]
    for key, folder in _folders(environment, *ModelFolders.model_fields):
        if not any(folder.startswith(mount + "/") for mount in shared):
            yield Finding(key, folder, f"a folder below one of {', '.join(shared) or 'no mounts'}")


def own_folders(environment: Environment) -> Iterator[Finding]:
    """No two projects write to the same folder, or one inside the other's. They may share data.

    The folders of one project are apart too, except that logs may contain the TensorBoard folder.
    """

    def clash(one: tuple[KeyPath, str], other: tuple[KeyPath, str]) -> bool:
        (key, folder), (before, taken) = one, other
        nested_logs = key == (*before[:-1], "tensorboard") and before[-1] == "logs" and folder != taken
        return overlap(folder, taken) and not nested_logs

    own = _folders(environment, "checkpoints", "outputs", "logs", "tensorboard")
    for key, folder, before, taken in clashes(own, clash):
        given = f"{folder}, which overlaps with {taken} of {key_text(before)}"
        yield Finding(key, given, "a folder that no other model and no other key uses")


def kept(environment: Environment) -> Iterator[Finding]:
    """Data sets and results are not linked to a prefix whose objects expire."""
    for (key, folder), rule in product(_folders(environment, "data", "outputs"), expiring(environment)):
        for prefix in prefixes(environment, folder):
            if prefix.startswith(rule.prefix):
                given = f"{folder}, linked to {prefix} of the checkpoint bucket"
                age = days(environment.storage.buckets, rule.kind)
                allowed = f"a folder whose objects do not expire: those under {rule.prefix} expire after {age} days"
                advice = "use another folder, or another prefix of the association, for example results/"
                yield Finding(key, given, allowed, advice)


RULES = (queue, shares, on_a_mount, own_folders, kept)
