"""Teams, qualities of service and reservations: names that exist, limits that the cluster can hold."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from settings.faults import KeyPath, suggestion
from settings.model import Environment
from settings.model.environment import Model
from settings.model.people import People
from settings.model.teams import Qos, SlurmReservation, Team
from settings.rules.items import Finding, Items, Named, clashes, for_each, listed, models
from settings.shares import NORMAL, RESERVED, cluster_gpus, is_shared, models_gpus

ENFORCED = ("associations", "limits", "qos")
LIMITS = ("max_gpus", "max_gpus_per_user", "max_gpus_per_team")


def teams(environment: Environment) -> Items[Team]:
    return listed(("teams",), environment.teams)


def every_qos(environment: Environment) -> Items[Qos]:
    return listed(("qos",), environment.qos)


def reservations(environment: Environment) -> Items[SlurmReservation]:
    return listed(("reservations",), environment.reservations)


def _unknown(key: KeyPath, given: str, what: str, known: list[str]) -> Finding:
    return Finding(key, given, f"one of {what}: {', '.join(known) or 'there are none'}", suggestion(given, known))


def accounting(environment: Environment) -> Iterator[Finding]:
    """Slurm keeps teams, qualities of service and usage in the accounting's database."""
    if environment.cluster.slurm.accounting:
        return
    for name in ("teams", "qos", "reservations"):
        if getattr(environment, name):
            advice = "set cluster.slurm.accounting: true, or the database that exists (docs/shares.md)"
            yield Finding((name,), "a list, without accounting", "only with cluster.slurm.accounting", advice)


def teams_of_users(environment: Environment) -> Iterator[Finding]:
    """Users have teams: with limits, Slurm refuses jobs of users without an account."""
    if environment.people != People() and not environment.teams:
        for name in ("qos", "reservations"):
            if getattr(environment, name):
                allowed = "one or more teams, because Slurm then refuses jobs of users without an account"
                yield Finding((name,), "a list, with people and without teams", allowed, "add teams")


def names(environment: Environment) -> Iterator[Finding]:
    """Names are unique, and accounts of Slurm and ParallelCluster are not teams."""
    namespaces: list[tuple[str, Items[Named]]] = [
        ("team", teams(environment)),
        ("QOS", every_qos(environment)),
        ("reservation", reservations(environment)),
    ]
    for what, items in namespaces:
        for key, item, _, _ in clashes(items, lambda one, other: one[1].name == other[1].name):
            yield Finding((*key, "name"), item.name, f"a name that no other {what} has")
    for key, team in teams(environment):
        if team.name in RESERVED:
            yield Finding((*key, "name"), team.name, "another name", f"{team.name} is {RESERVED[team.name]}")


@for_each(models)
def team_of_model(environment: Environment, key: KeyPath, model: Model) -> Iterator[Finding]:
    """The team of a model exists."""
    known = [team.name for team in environment.teams]
    if model.team and model.team not in known:
        yield _unknown((*key, "team"), model.team, "the teams", known)


def _known_qos(environment: Environment) -> list[str]:
    return list(dict.fromkeys([NORMAL, *(qos.name for qos in environment.qos)]))


@for_each(teams)
def qos_of_team(environment: Environment, key: KeyPath, team: Team) -> Iterator[Finding]:
    """The qualities of service of a team exist, each once."""
    for at, name in listed((*key, "qos"), team.qos):
        if name not in _known_qos(environment):
            yield _unknown(at, name, "the QOS", _known_qos(environment))
        if team.qos.index(name) != at[-1]:
            yield Finding(at, f"{name}, a second time", "each QOS once")


def preemption(environment: Environment) -> Iterator[Finding]:
    """A QOS preempts others that exist; none preempts itself, directly or through others.

    In a circle each job would end the other one without end.
    """
    makes_room = {qos.name: qos.preempts for qos in environment.qos}
    for key, qos in every_qos(environment):
        for at, name in listed((*key, "preempts"), qos.preempts):
            if name == qos.name:
                yield Finding(at, f"{name}, itself", "other QOS")
            elif name not in _known_qos(environment):
                yield _unknown(at, name, "the QOS", _known_qos(environment))
            elif qos.name in (reached := _reached(name, makes_room)):
                way = " preempts ".join([qos.name, *reached[: reached.index(qos.name) + 1]])
                yield Finding(at, way, "an order: no QOS preempts one that preempts it", f"remove {name} here")


def _reached(start: str, makes_room: dict[str, tuple[str, ...]]) -> list[str]:
    """The QOS that `start` preempts, directly or through others; `start` first."""
    found: list[str] = [start]
    for name in found:
        found += [other for other in makes_room.get(name, ()) if other not in found]
    return found


def limits(environment: Environment) -> Iterator[Finding]:
    """Limits are within the cluster's GPUs, a user's within the team's, and the models' nodes within both."""
    total = cluster_gpus(environment)
    for items in (teams, every_qos):
        for key, item in items(environment):
            for name in LIMITS:
                given = getattr(item, name, None)
                if given and given > total:
                    allowed = f"at most the {total} GPUs of all queues together"
                    yield Finding((*key, name), str(given), allowed, "lower the limit, or leave it out")
    for key, team in teams(environment):
        most, one, needed = team.max_gpus, team.max_gpus_per_user, models_gpus(environment, team.name)
        if most and needed > most:
            given = f"{most}, with models of {needed} GPUs"
            advice = "raise max_gpus, or lower the nodes of the team's models"
            yield Finding((*key, "max_gpus"), given, f"at least the GPUs of the team's models, {needed}", advice)
        if most and one and one > most:
            yield Finding((*key, "max_gpus_per_user"), str(one), f"at most max_gpus of the team, {most}")


@for_each(reservations)
def reservation(environment: Environment, key: KeyPath, given: SlurmReservation) -> Iterator[Finding]:
    """Queue, teams and date of a reservation exist, and the queue has the nodes."""
    known = [team.name for team in environment.teams]
    for at, name in listed((*key, "teams"), given.teams):
        if name not in known:
            yield _unknown(at, name, "the teams", known)
    sizes = {queue.name: sum(one.max for one in queue.compute) for queue in environment.cluster.queues}
    if given.queue not in sizes:
        yield _unknown((*key, "queue"), given.queue, "the queues", list(sizes))
        return
    try:
        start = datetime.fromisoformat(given.start)
    except ValueError:
        yield Finding((*key, "start"), given.start, "a date and a time that exist")
        return
    others = [other for other in environment.reservations if other.queue == given.queue and _holds(other, start)]
    nodes = given.nodes + sum(other.nodes for other in others if other is not given)
    if nodes > sizes[given.queue]:
        shared = ", ".join(one.name for one in others if one is not given)
        together = f" in all, together with reservation {shared}" if shared else ""
        advice = "lower nodes, or move the start"
        allowed = f"at most the {sizes[given.queue]} nodes of the queue {given.queue}"
        yield Finding((*key, "nodes"), f"{nodes}{together}", allowed, advice)


def _holds(given: SlurmReservation, time: datetime) -> bool:
    try:
        start = datetime.fromisoformat(given.start)
    except ValueError:
        return False
    return start <= time < start + timedelta(hours=given.hours)


def parameters(environment: Environment) -> Iterator[Finding]:
    """Parameters of slurm.conf do not undo shares, limits or preemption."""
    if not is_shared(environment):
        return
    for name, value in environment.cluster.slurm.settings.items():
        text = str(value).lower()
        words = text.split(",")
        allowed = {
            "prioritytype": (text == "priority/multifactor", "priority/multifactor"),
            "accountingstorageenforce": (
                "all" in words or set(ENFORCED) <= set(words),
                f"a list with {', '.join(ENFORCED)}",
            ),
            "accountingstoragetres": ("gres/gpu" in words, "a list with gres/gpu"),
            "preempttype": (text == "preempt/qos", "preempt/qos"),
            "preemptmode": ("requeue" in words or "cancel" in words, "REQUEUE or CANCEL"),
        }.get(name.lower())
        if allowed and not allowed[0]:
            key = ("cluster", "slurm", "settings", name)
            yield Finding(key, str(value), f"{allowed[1]}, with teams", "remove the parameter: Trainyard sets it")


RULES = (accounting, teams_of_users, names, team_of_model, qos_of_team, preemption, limits, reservation, parameters)
