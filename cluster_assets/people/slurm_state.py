"""What Slurm has: its accounts, users, QOS and reservations, for apply_shares.py.

Formats: sacctmgr(1) and scontrol(1), checked with Slurm 22.05 and 24.11.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence

PROGRAMS = "/opt/slurm/bin"
LIMIT_S = 120

Key = tuple[str, ...]
"""("qos", name), ("account", name), ("user", name, account), ("default", user) or ("reservation", name)."""
State = dict[Key, dict[str, str]]

QOS_COLUMNS = {
    "Description": "Descr", "Priority": "Priority", "GraceTime": "GraceTime", "Preempt": "Preempt",
    "MaxTRESPerAccount": "MaxTRESPA", "MaxTRESPerUser": "MaxTRESPU", "MaxJobsPerUser": "MaxJobsPU",
    "MaxWall": "MaxWall", "GrpSubmitJobs": "GrpSubmit",
}  # fmt: skip
ASSOCIATION_COLUMNS = {
    "Parent": "ParentName", "Fairshare": "Share", "GrpTRES": "GrpTRES", "GrpSubmitJobs": "GrpSubmit",
    "MaxSubmitJobs": "MaxSubmit", "QOS": "QOS", "DefaultQOS": "DefaultQOS",
}  # fmt: skip
RESERVATION_FIELDS = ("StartTime", "EndTime", "PartitionName", "NodeCnt", "Accounts", "Comment")
LISTS = ("Preempt", "QOS", "Accounts")
SECONDS = ("GraceTime", "MaxWall")


class SlurmError(Exception):
    """A command of Slurm failed; the message has the command and its output."""


def call(*words: str) -> str:
    """The output of a command of Slurm. Times are in UTC."""
    path = f"{PROGRAMS}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    try:
        done = subprocess.run(
            words, env={**os.environ, "PATH": path, "TZ": "UTC", "LC_ALL": "C"}, capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"{' '.join(words)}: {error}") from error
    if done.returncode:
        raise SlurmError(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def existing(cluster: str) -> State:
    """The state of Slurm's database and of slurmctld."""
    state: State = {}
    for name, *values in _table("qos", ["Name", *QOS_COLUMNS.values()]):
        state["qos", name] = {field: plain(field, value) for field, value in zip(QOS_COLUMNS, values)}  # noqa: B905 - Python 3.9
    organizations = dict(_table("account", ["Account", "Org"]))
    where = ["where", f"cluster={cluster}"]
    for account, user, *values in _table("assoc", ["Account", "User", *ASSOCIATION_COLUMNS.values()], *where):
        fields = {field: plain(field, value) for field, value in zip(ASSOCIATION_COLUMNS, values)}  # noqa: B905
        if user:
            state["user", user, account] = fields
        else:
            state["account", account] = {**fields, "Organization": organizations.get(account, "")}
    for user, account in _table("user", ["User", "DefaultAccount"], "withassoc", *where):
        state["default", user] = {"DefaultAccount": account}
    for line in call("scontrol", "-o", "show", "reservation").splitlines():
        words = dict(word.partition("=")[::2] for word in line.split())
        if "ReservationName" in words:
            state["reservation", words["ReservationName"]] = {
                field: plain(field, words.get(field, "")) for field in RESERVATION_FIELDS
            }
    return state


def _table(what: str, columns: Sequence[str], *where: str) -> Iterator[list[str]]:
    text = call("sacctmgr", "--parsable2", "--noheader", "show", what, *where, f"format={','.join(columns)}")
    for line in text.splitlines():
        yield line.split("|")


def plain(field: str, value: str) -> str:
    """A value in the form of `wanted`: lists sorted, times in seconds."""
    if field in SECONDS and value:
        days, _, clock = value.rpartition("-")
        hours, minutes, seconds = (int(part) for part in clock.split(":"))
        return str(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds)
    return names(value.split(",")) if field in LISTS and value else value


def names(given: Sequence[str]) -> str:
    """Names as one value."""
    return ",".join(sorted(set(given)))
