"""A month of records in the genuine database of a laboratory, written by SQL: October 2026, 744 hours.

Two p5.48xlarge (8 GPUs, 192 CPUs) and one c7i.xlarge (4 CPUs). The figures that follow are in test_usage.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from local.slurm import Laboratory
from local.slurm.slurm import DATABASE

SINCE, UNTIL = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
# Slurm's numbers of job states (slurm.h, enum job_states).
RUNNING, COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL, PREEMPTED = 1, 3, 4, 5, 6, 7, 8
PENDING = 0
UBUNTU, ADA, GRACE = 1000, 1001, 1002
# Of `sacctmgr show event format=stateraw`: IDLE+CLOUD+POWERED_DOWN, and IDLE+DRAIN.
POWERED_DOWN, DRAINED = 4226, 514
NO_TASK = 4294967294


def at(text: str) -> int:
    """Seconds since 1970 of `MM-DD HH:MM` in UTC."""
    return int(datetime.strptime(f"2026-{text}+0000", "%Y-%m-%d %H:%M%z").timestamp())


def job(  # noqa: PLR0917 - the rows of a table
    number: int, user: int, team: str, state: int, begin: str, end: str, nodes: str, gpus: int, cpus: int,
    *, name: str = "train", comment: str = "", suspended: int = 0, count: int = 1,
) -> str:  # fmt: skip
    """An INSERT of one record of a job."""
    start, stop = (at(text) if text else 0 for text in (begin, end))
    tres = f"1={cpus},4={count},5={cpus}" + (f",@gpu={gpus}" if gpus else "")
    values = {
        **{"id_job": number, "id_user": user, "id_group": user, "account": team or None, "state": state},
        **{"time_submit": start or at("10-02 00:00"), "time_eligible": start or at("10-02 00:00")},
        **{"time_start": start, "time_end": stop, "time_suspended": suspended, "job_name": name},
        **{"derived_es": comment or None, "nodelist": nodes or None, "nodes_alloc": count, "tres_alloc": tres},
        **{"cpus_req": cpus, "id_assoc": 0, "id_resv": 0, "id_wckey": 0, "id_qos": 1, "het_job_id": 0},
        **{"het_job_offset": NO_TASK, "state_reason_prev": 0, "`partition`": "gpu", "priority": 1},
    }
    return insert("job", values)


def event(node: str, state: int, begin: int, end: int, reason: str) -> str:
    """An INSERT of a node's event, or of the cluster's with an empty node."""
    return insert(
        "event",
        {"node_name": node, "state": state, "time_start": begin, "time_end": end, "reason": reason, "tres": "1=192"},
    )


def insert(table: str, values: dict[str, object]) -> str:
    """An INSERT into a table of the cluster `local`."""
    shown = ("NULL" if v is None else str(v) if isinstance(v, int) else _quoted(str(v)) for v in values.values())
    return f"INSERT INTO local_{table}_table ({', '.join(values)}) VALUES ({', '.join(shown)});"  # noqa: S608 - of this file


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    if "@gpu" in escaped:
        before, after = escaped.split("@gpu")
        return f"CONCAT('{before}', @gpu, '{after}')"
    return f"'{escaped}'"


def sql(laboratory: Laboratory, statements: Iterable[str]) -> str:
    """Run SQL in the database, with @gpu as the id of gres/gpu."""
    text = f"USE {DATABASE};\nSELECT id INTO @gpu FROM tres_table WHERE type='gres' AND name='gpu';\n"
    return laboratory.run(
        ["mariadb", "--batch"], node="aws", user="root", stdin=text + "\n".join(statements), timeout=120
    ).stdout


P1, P2, BOTH, CPU = "gpu-dy-p5-1", "gpu-dy-p5-2", "gpu-dy-p5-[1-2]", "cpu-dy-c7i-1"
HOSTILE = "=cmd|' /C calc'!A1\n999\x1froot\x1fvision<script>alert(1)</script>"
JOBS = (
    job(1, ADA, "vision", COMPLETED, "10-01 00:00", "10-03 00:00", BOTH, 16, 384, comment="experiment=vision", count=2),
    job(2, ADA, "vision", NODE_FAIL, "10-04 00:00", "10-04 06:00", P1, 8, 192, name="vision"),
    job(2, ADA, "vision", COMPLETED, "10-04 08:00", "10-04 18:00", P1, 8, 192, name="vision"),
    job(3, GRACE, "speech", FAILED, "10-05 00:00", "10-05 12:00", P1, 2, 48),
    job(4, GRACE, "speech", CANCELLED, "10-05 00:00", "10-05 12:00", P1, 4, 96),
    job(5, ADA, "vision", TIMEOUT, "10-31 12:00", "11-01 06:00", P2, 8, 192),
    job(6, ADA, "vision", COMPLETED, "10-10 00:00", "10-10 10:00", P2, 8, 192, suspended=2 * 3600),
    job(7, GRACE, "speech", PREEMPTED, "10-12 00:00", "10-12 05:00", P2, 8, 192),
    job(8, UBUNTU, "", RUNNING, "10-31 20:00", "", P1, 8, 192, name=HOSTILE),
    job(9, ADA, "vision", PENDING, "", "", "", 8, 192),
    job(10, ADA, "vision", COMPLETED, "10-15 00:00", "10-15 08:00", P1, 0, 48),
    job(11, GRACE, "speech", COMPLETED, "09-30 22:00", "10-01 02:00", CPU, 0, 2),
    job(12, ADA, "vision", COMPLETED, "09-20 00:00", "09-21 00:00", P1, 8, 192),
)


def fill(laboratory: Laboratory) -> None:
    """Write the month. The cluster's own records, of today, begin when its powered-down nodes end here."""
    today = int(sql(laboratory, ["SELECT MIN(time_start) FROM local_event_table;"]).split()[-1])
    september = at("09-01 00:00")
    sql(
        laboratory,
        (
            *JOBS,
            event("", 0, september, today, "Cluster Registered TRES"),
            event(P1, POWERED_DOWN, at("10-20 00:00"), at("10-30 00:00"), "Powered down"),
            event(P2, DRAINED, at("10-09 12:00"), at("10-10 12:00"), "trainyard: xid"),
            event(CPU, POWERED_DOWN, at("10-01 02:30"), today, "Powered down"),
            event("cpu-dy-c7i-2", POWERED_DOWN, september, today, "Powered down"),
        ),
    )


def many(laboratory: Laboratory, count: int) -> tuple[int, int]:
    """Write `count` jobs of 7 teams and 50 users, ten minutes apart from 2025-01-01; returns the window."""
    begin = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp())
    columns = (
        "id_job, id_user, id_group, account, state, time_submit, time_eligible, time_start, time_end, job_name,"
        " nodelist, nodes_alloc, tres_alloc, cpus_req, id_assoc, id_resv, id_wckey, id_qos, het_job_id,"
        " het_job_offset, state_reason_prev, `partition`, priority"
    )
    start = f"{begin} + seq * 600"
    values = (
        f"100000 + seq, 2000 + seq % 50, 100, CONCAT('team', seq % 7), IF(seq % 10 = 0, {FAILED}, {COMPLETED}),"
        f" {start}, {start}, {start}, {start} + 3600, CONCAT('model', seq % 7), CONCAT('gpu-dy-p5-', 1 + seq % 2), 1,"
        f" CONCAT('1=192,4=1,5=192,', @gpu, '=8'), 192, 0, 0, 0, 1, 0, {NO_TASK}, 0, 'gpu', 1"
    )
    insertion = f"INSERT INTO local_job_table ({columns}) SELECT {values} FROM seq_1_to_{count};"  # noqa: S608 - of this file
    sql(laboratory, [insertion])
    return begin, begin + (count + 7) * 600
