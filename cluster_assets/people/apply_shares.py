"""apply_shares.py PEOPLE_JSON --plan|--apply: makes Slurm's accounts, users, QOS and reservations what the file has.

Both print one line of JSON: {"changes": ["account nlp: Fairshare is '9', not '2'", ...], "problems": [...]}. --plan
changes nothing. --apply makes the changes and reads again; the second time there are none. It deletes no account, user
or QOS, because Slurm then forgets their usage, and jobs in the queue lose their account: what is no longer in the file
is closed (no new jobs), and opened again when it returns. It never changes what others made and the file does not name.

Runs on the head node as root. The standard library only, Python 3.9 or later. Exit codes: 0 nothing to do, or done; 1
differences (--plan); 2 an error, on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

from slurm_state import LISTS, Key, SlurmError, State, call, existing, names

SETTINGS = os.environ.get("TRAINYARD_SETTINGS", "/opt/trainyard/settings.json")
OPERATIONS, NORMAL = "operations", "normal"
OURS = "trainyard"
"""Organization of our accounts, comment of our reservations, first word of the description of our QOS."""
NORMAL_DEFAULTS = {
    "Description": "normal qos default", "Priority": "0", "GraceTime": "0", "Preempt": "", "MaxTRESPerAccount": "",
    "MaxTRESPerUser": "", "MaxJobsPerUser": "", "MaxWall": "",
}  # fmt: skip
"""To reset the QOS normal, which cannot be closed."""
NONE = "-1"
"""How sacctmgr takes a limit away."""


class Difference(NamedTuple):
    """A field, or with an empty field the whole object, that is not as the file has it."""

    key: Key
    field: str
    expected: str
    actual: str

    def __str__(self) -> str:
        what = f"{self.field} is" if self.field else "it is"
        return f"{in_words(self.key)}: {what} '{self.actual}', not '{self.expected}'"


# --- what the file wants ---


def wanted(people: Mapping[str, Any], cluster: str, cluster_user: str, now: datetime) -> State:
    """The state that people.json describes."""
    state: State = {}
    every = list(dict.fromkeys([NORMAL, *(qos["name"] for qos in people["qos"])]))
    for qos in people["qos"]:
        state["qos", qos["name"]] = {
            "Description": f"{OURS} {cluster}",
            "Priority": str(qos["priority"]),
            "GraceTime": str(qos["grace_seconds"]),
            "Preempt": names(qos["preempts"]),
            "MaxTRESPerAccount": _gpus(qos["max_gpus_per_team"]),
            "MaxTRESPerUser": _gpus(qos["max_gpus_per_user"]),
            "MaxJobsPerUser": str(qos["max_jobs_per_user"] or ""),
            "MaxWall": str((qos["max_hours"] or 0) * 3600 or ""),
            "GrpSubmitJobs": "",
        }
    teams = {team["name"]: team for team in people["teams"]}
    teams[OPERATIONS] = {"share": 1, "max_gpus": None, "max_gpus_per_user": None, "qos": []}
    for name, team in teams.items():
        qos = list(team["qos"]) or every
        of_all = {"QOS": names(qos), "DefaultQOS": qos[0]}
        state["account", name] = {
            **of_all, "Organization": OURS, "Parent": "root", "Fairshare": str(team["share"]),
            "GrpTRES": _gpus(team["max_gpus"]), "GrpSubmitJobs": "",
        }  # fmt: skip
        teams[name] = {**team, "of_all": of_all}
    for user, accounts in _accounts(people, cluster_user).items():
        state["default", user] = {"DefaultAccount": accounts[0]}
        for account in accounts:
            limit = _gpus(teams[account]["max_gpus_per_user"])
            of_user = {"Fairshare": "1", "GrpTRES": limit, "MaxSubmitJobs": ""}
            state["user", user, account] = {**teams[account]["of_all"], **of_user}
    for reservation in people["reservations"]:
        start = datetime.fromisoformat(reservation["start"]).replace(tzinfo=timezone.utc)  # noqa: UP017
        end = start + timedelta(hours=reservation["hours"])
        if end > now:
            state["reservation", reservation["name"]] = {
                **({"StartTime": _time(start)} if start > now else {}),
                "EndTime": _time(end),
                "PartitionName": reservation["queue"],
                "NodeCnt": str(reservation["nodes"]),
                "Accounts": names(reservation["teams"]),
            }
    return state


def _accounts(people: Mapping[str, Any], cluster_user: str) -> dict[str, list[str]]:
    """The accounts of each user, the default one first. The cluster's user runs validation and imports of images."""
    accounts = {cluster_user: [OPERATIONS]}
    for user in people["users"]:
        mine = [*user["teams"], *([OPERATIONS] if user["administrator"] else [])]
        if mine:
            accounts[user["name"]] = mine
    known = {OPERATIONS, *(team["name"] for team in people["teams"])}
    for name, mine in accounts.items():
        if unknown := [account for account in mine if account not in known]:
            raise SlurmError(f"the user {name} has the team {unknown[0]}; there are: {', '.join(sorted(known))}")
    return accounts


def _gpus(count: int | None) -> str:
    return f"gres/gpu={count}" if count else ""


def _time(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S")


# --- the difference ---


def differences(want: State, have: State, people: Mapping[str, Any], cluster: str) -> list[Difference]:
    """What is not as the file has it. Objects of ours that the file no longer has are to be closed. Pure."""
    found = []
    for key in (key for key in want if key[0] == "qos" and key in have):
        owner = have[key]["Description"]
        if owner.startswith(f"{OURS} ") and owner != f"{OURS} {cluster}":
            advice = "rename it, or describe it there only"
            raise SlurmError(f"the QOS {key[1]} belongs to the cluster of '{owner}' in the same database: {advice}")
    for key, fields in {**want, **_closed(want, have, people, cluster)}.items():
        if key not in have:
            if key[0] != "default":  # comes with the user's first account
                found.append(Difference(key, "", "exists", "missing"))
            continue
        found += [Difference(key, name, value, have[key].get(name, "")) for name, value in fields.items()]
    for key, fields in have.items():
        if key[0] == "reservation" and key not in want and fields["Comment"] == OURS:
            found.append(Difference(key, "", "missing", "exists"))
    return [one for one in found if one.expected != one.actual]


def _closed(want: State, have: State, people: Mapping[str, Any], cluster: str) -> State:
    """What the file no longer has: teams, QOS of this cluster, former users, and users who left a team."""
    known = {user["name"] for key in ("users", "removed") for user in people[key]}
    closed: State = {}
    for key, fields in have.items():
        if key in want:
            continue
        if (key[0] == "account" and fields["Organization"] == OURS) or (
            key[0] == "qos" and fields["Description"] == f"{OURS} {cluster}"
        ):
            closed[key] = NORMAL_DEFAULTS if key == ("qos", NORMAL) else {"GrpSubmitJobs": "0"}
        elif key[0] == "user" and key[1] in known and have["account", key[2]]["Organization"] == OURS:
            closed[key] = {"MaxSubmitJobs": "0"}
    return closed


def in_words(key: Key) -> str:
    """A key as people read it."""
    return f"user {key[1]} in {key[2]}" if key[0] == "user" else f"{key[0].replace('default', 'user')} {key[1]}"


# --- the change ---


def commands(found: Sequence[Difference], want: State, cluster: str, slurm: tuple[int, int]) -> Iterator[list[str]]:
    """The commands that make the differences: what is missing first, each object's fields in one command. Pure."""
    comment = [f"Comment={OURS}"] if slurm >= (23, 2) else []  # 22.05: "Unknown parameter Comment"
    order = ("qos", "account", "user", "default", "reservation")
    for key in sorted({one.key for one in found}, key=lambda key: (order.index(key[0]), key)):
        mine = [one for one in found if one.key == key]
        fields = {one.field: (one.expected, one.actual) for one in mine if one.field}
        is_new = mine[0].actual == "missing"
        if key[0] == "reservation":
            values = want.get(key, {})
            if values and is_new:
                values = {"StartTime": "now", **values}
                yield ["scontrol", "create", "reservation", f"ReservationName={key[1]}", *_options(values), *comment]
            elif values:
                changed = {name: value for name, value in values.items() if name in fields}
                yield ["scontrol", "update", f"ReservationName={key[1]}", *_options(changed)]
            else:
                yield ["scontrol", "delete", f"ReservationName={key[1]}"]
        elif is_new:
            yield _creation(key, want, cluster)
        else:
            yield from _changes(key, fields, cluster)


def _options(fields: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in fields.items()]


def _creation(key: Key, want: State, cluster: str) -> list[str]:
    about = {"Cluster": cluster, "Account": key[-1]}
    if key[0] == "qos":
        about = {"Description": want[key]["Description"]}
    elif key[0] == "account":
        about = {"Cluster": cluster, "Description": f"{OURS} team", "Organization": OURS}
    # Without name= sacctmgr takes some names, such as set, for its own words.
    return ["sacctmgr", "-i", "add", key[0], f"name={key[1]}", *_options(about)]


def _changes(key: Key, fields: Mapping[str, tuple[str, str]], cluster: str) -> Iterator[list[str]]:
    entity = {"default": "user"}.get(key[0], key[0])
    where = [f"name={key[1]}", *([] if key[0] == "qos" else [f"cluster={cluster}"])]
    where += [f"account={key[2]}"] if key[0] == "user" else []
    values = dict(_set(name, *both) for name, both in fields.items())
    # Of the account, not of its association with the cluster.
    organization = values.pop("Organization", None)
    if organization:
        yield ["sacctmgr", "-i", "modify", "account", "where", f"name={key[1]}", "set", f"Organization={organization}"]
    if values:
        yield ["sacctmgr", "-i", "modify", entity, "where", *where, "set", *_options(values)]


def _set(field: str, expected: str, actual: str) -> tuple[str, str]:
    if field == "MaxWall" and expected:
        return field, str(int(expected) // 60)  # minutes
    if "TRES" in field:
        names = {part.partition("=")[0] for part in f"{expected},{actual}".split(",") if part}
        new = dict(part.partition("=")[::2] for part in expected.split(",") if part)
        return field, ",".join(f"{name}={new.get(name, NONE)}" for name in sorted(names))
    return field, expected if expected or field in LISTS else NONE


def _version() -> tuple[int, int]:
    major, minor = call("scontrol", "--version").split()[-1].split(".")[:2]
    return int(major), int(minor)


def apply(people: Mapping[str, Any], cluster: str, cluster_user: str) -> list[str]:
    """Make the differences; returns what could not be made. What is new gets its fields in the second round."""
    failed: list[str] = []
    slurm = _version()
    for _ in range(2):
        want, found = _compare(people, cluster, cluster_user)
        failed = []
        for command in commands(found, want, cluster, slurm) if found else ():
            try:
                call(*command)
            except SlurmError as error:
                failed.append(str(error))
    return failed or [str(one) for one in _compare(people, cluster, cluster_user)[1]]


def _compare(people: Mapping[str, Any], cluster: str, user: str) -> tuple[State, list[Difference]]:
    want = wanted(people, cluster, user, datetime.now(timezone.utc))  # noqa: UP017 - Python 3.9
    return want, differences(want, existing(cluster), people, cluster)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("people", type=Path)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--plan", action="store_true")
    mode.add_argument("--apply", action="store_true")
    given = parser.parse_args()
    try:
        people: dict[str, Any] = {"users": [], "removed": [], "teams": [], "qos": [], "reservations": []}
        people.update(json.loads(given.people.read_text("utf-8")))
        user = json.loads(Path(SETTINGS).read_text("utf-8"))["cluster"]["user"]
        config = call("scontrol", "show", "config")
        cluster = next(line.split("=")[1].strip() for line in config.splitlines() if line.startswith("ClusterName"))
        found = _compare(people, cluster, user)[1]
        problems = apply(people, cluster, user) if given.apply and found else []
    except (OSError, ValueError, KeyError, SlurmError) as error:
        reason = str(error) if isinstance(error, SlurmError) else f"{given.people} or {SETTINGS}: {error!r}"
        sys.stderr.write(f"shares: {reason}\n")
        return 2
    print(json.dumps({"changes": [str(one) for one in found], "problems": problems}))
    sys.stderr.writelines(f"shares: {line}\n" for line in problems)
    return 2 if problems else int(given.plan and bool(found))


if __name__ == "__main__":
    sys.exit(main())
