"""The training projects: their shares of the fleet, and their folders."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.models import Model
from settings.rules.finding import Finding, rule, rule_for_each
from settings.rules.items import has, lustres, models, overlap, queues, volumes

OWN_FOLDERS = ("checkpoints", "outputs", "logs", "tensorboard")
ALL_FOLDERS = ("data", *OWN_FOLDERS)


@rule_for_each(models)
def queue(environment: Environment, key: KeyPath, model: Model) -> Iterator[Finding]:
    """A project's jobs go to a queue that there is."""
    names = [item.name for _, item in queues(environment)]
    if model.queue not in names:
        yield Finding((*key, "queue"), model.queue, f"one of the queues: {', '.join(names)}")


@rule
def shares(environment: Environment) -> Iterator[Finding]:
    """The nodes of a queue's projects add up to the queue's fleet: more could not train side by side, fewer
    leave nodes idle that are paid for. A queue without projects is free.
    """
    for key, item in queues(environment):
        mine = [(at, model) for at, model in models(environment) if model.queue == item.name]
        fleet = sum(compute.max for compute in item.compute)
        total = sum(model.nodes for _, model in mine)
        if mine and total != fleet:
            sums = " + ".join(str(model.nodes) for _, model in mine)
            given = (
                f"{sums} = {total} nodes for the queue {item.name}"
                if len(mine) > 1
                else f"{total} nodes of {item.name}"
            )
            spare = f"{total - fleet} too many" if total > fleet else f"{fleet - total} would stay idle"
            yield Finding(
                (*mine[-1][0], "nodes"),
                given,
                f"shares that add up to the queue's fleet, {fleet} ({key_text(key)})",
                f"{spare}: change the shares, or max of the queue's compute resources",
            )


@rule_for_each(models)
def on_a_mount(environment: Environment, key: KeyPath, model: Model) -> Iterator[Finding]:
    """Folders lie on shared file systems, each below a mount: what is on a node's own disk is gone with the
    node.
    """
    mounts = [lustre.mount for _, lustre in lustres(environment)]
    mounts += [volume.mount for _, volume in volumes(environment)]
    for name in ALL_FOLDERS:
        if has(model.folders, name):
            folder = getattr(model.folders, name)
            if not any(folder.startswith(mount + "/") for mount in mounts):
                yield Finding(
                    (*key, "folders", name), folder, f"a folder below one of {', '.join(mounts) or 'no mounts'}"
                )


@rule
def folders_of_their_own(environment: Environment) -> Iterator[Finding]:
    """No two projects write into the same folder, and none inside another's. Data may be shared.

    Within a project checkpoints and outputs are apart; what is written to logs may hold the TensorBoard folder.
    """
    before: list[tuple[int, KeyPath, str]] = []
    for index, (key, model) in enumerate(models(environment)):
        for name in OWN_FOLDERS:
            if not has(model, "folders") or not has(model.folders, name):
                continue
            at, folder = (*key, "folders", name), str(getattr(model.folders, name))
            for owner, other_key, other in before:
                nested_logs = owner == index and name == "tensorboard" and other_key[-1] == "logs" and folder != other
                if overlap(folder, other) and not nested_logs:
                    given = f"{folder}, which overlaps with {other} of {key_text(other_key)}"
                    yield Finding(at, given, "a folder that no other project and no other purpose uses")
                    break
            before.append((index, at, folder))


RULES = (queue, shares, on_a_mount, folders_of_their_own)
