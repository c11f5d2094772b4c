"""A week of seven teams on 80 nodes, scheduled as Slurm schedules: utilisation, waiting times, what each team got.

    python scripts/benchmarks/shares/simulate.py > scripts/benchmarks/shares/results.json

Sources: Slurm's documentation "Fair Tree Fairshare Algorithm" (fair_tree.html) and "Multifactor Priority Plugin", and
slurm.conf(5) of 24.11: decay and running usage every PriorityCalcPeriod, priorities from trainyard's own weights,
backfill that delays no job of a higher priority. tests/shares compares ranks and order with a real slurmctld.
Not simulated: start of instances, failures, preemption, placement (a job takes any free nodes, all of each).
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard.cluster_config.shares import PARAMETERS

HOUR = 3600
WEEK = 168 * HOUR
CALCULATION_S = 300  # PriorityCalcPeriod
HALF_LIFE_S = 7 * 24 * HOUR  # PriorityDecayHalfLife
WINDOW_S, TESTED = 24 * HOUR, 500  # bf_window, bf_max_job_test
OLDEST_S = 7 * 24 * HOUR  # PriorityMaxAge
NODES = 80
TEAMS = {f"model{number}": 14 if number == 7 else 11 for number in range(1, 8)}
"""The nodes of each model (environments/jakarta-80xp5e.yaml), which are the shares of their teams."""
SEEDS = range(1, 6)
EAGER = {"model1": 5.0, "model2": 2.0}
"""Factor by team, 1 for the others: a team asks for at least factor x 1.3 times its share."""


@dataclass
class Account:
    """A team: its shares, and the decayed usage of each of its users in node seconds."""

    shares: int
    usage: dict[str, float] = field(default_factory=dict)


@dataclass
class Job:
    """A job on whole nodes; times in seconds."""

    team: str
    user: str
    nodes: int
    runs: float
    limit: float
    submitted: float
    started: float = -1.0


def fair_tree(accounts: Mapping[str, Account]) -> dict[tuple[str, str], float]:
    """The fair-share factor of each (team, user): 1 for the first in rank, 1/n for the last of n."""

    def level(shares: float, all_shares: float, usage: float, all_usage: float) -> float:
        used = usage / all_usage if all_usage else 0.0
        return shares / all_shares / used if used else float("inf")

    total, shares = sum(sum(one.usage.values()) for one in accounts.values()), sum(a.shares for a in accounts.values())
    ranked = sorted(
        ((level(one.shares, shares, sum(one.usage.values()), total), name) for name, one in accounts.items()),
        key=lambda pair: -pair[0],
    )
    users: list[tuple[str, str]] = []
    for _, name in ranked:
        usage = accounts[name].usage
        order = sorted(usage, key=lambda user: -level(1, len(usage), usage[user], sum(usage.values())))
        users += [(name, user) for user in order]
    return {key: (len(users) - rank) / len(users) for rank, key in enumerate(users)}


def priority(job: Job, factors: Mapping[tuple[str, str], float], now: float) -> float:
    """As priority/multifactor, with one quality of service."""
    age = min((now - job.submitted) / OLDEST_S, 1.0)
    fair = factors[job.team, job.user] * int(PARAMETERS["PriorityWeightFairshare"])
    return fair + age * int(PARAMETERS["PriorityWeightAge"])


def starting(pending: Sequence[Job], running: Iterable[Job], free: int, now: float) -> list[Job]:
    """The jobs that start now, of `pending` in order of priority: backfill keeps the starts of all jobs before."""
    smallest = min((job.nodes for job in pending), default=NODES + 1)
    if free < smallest:
        return []
    events = sorted((job.started + job.limit, job.nodes) for job in running)
    profile = [[now, free]]  # free nodes from each time on
    for time, nodes in events:
        if time <= profile[-1][0]:
            profile[-1][1] += nodes
        else:
            profile.append([time, profile[-1][1] + nodes])
    started = []
    for job in pending:
        first = _earliest(profile, job)
        if profile[first][0] > now + WINDOW_S:
            continue
        if first == 0:
            started.append(job)
        _reserve(profile, first, job)
        if profile[0][1] < smallest:
            break
    return started


def _earliest(profile: Sequence[Sequence[float]], job: Job) -> int:
    """Index of the first time from which the job's nodes are free for its limit."""
    first = 0
    for index, (_, nodes) in enumerate(profile):
        if profile[index][0] >= profile[first][0] + job.limit:
            break
        if nodes < job.nodes:
            first = index + 1
    return first


def _reserve(profile: list[list[float]], first: int, job: Job) -> None:
    end = profile[first][0] + job.limit
    last = first
    while last < len(profile) and profile[last][0] < end:
        last += 1
    if last == len(profile) or profile[last][0] > end:
        profile.insert(last, [end, profile[last - 1][1]])
    for index in range(first, last):
        profile[index][1] -= job.nodes


def workload(seed: int, longest: int) -> list[Job]:
    """Jobs of a week: one node to the model's nodes, an eighth of `longest` to `longest` hours, limits above that."""
    chance = random.Random(seed)  # noqa: S311 - a workload
    jobs = []
    for team, nodes in TEAMS.items():
        wanted = EAGER.get(team, 1.0) * 1.3 * nodes * WEEK
        asked = 0.0
        while asked < wanted:
            size = chance.choice((1, 2, 2, 4, 4, 8, nodes))
            runs = chance.uniform(longest / 8, longest) * HOUR
            # A third waits at the start of the week; the rest comes evenly, also in the last hours.
            at = 0.0 if asked < wanted / 3 else chance.uniform(0, 0.9) * WEEK
            jobs.append(Job(team, f"user{chance.randint(1, 3)}", size, runs, runs * chance.uniform(1.1, 2), at))
            asked += size * runs
    return sorted(jobs, key=lambda job: job.submitted)


def simulate(jobs: Sequence[Job], *, fair: bool) -> dict[str, float]:
    """Run the week; returns the node hours of each team. Sets `started` of the jobs."""
    accounts = {team: Account(shares, {f"user{i}": 0.0 for i in (1, 2, 3)}) for team, shares in TEAMS.items()}
    used = dict.fromkeys(TEAMS, 0.0)
    coming, pending, running, free = list(jobs), [], list[Job](), NODES
    for step in range(WEEK // CALCULATION_S):
        now = float(step * CALCULATION_S)
        for job in running:
            seconds = min(CALCULATION_S, now - job.started, max(job.started + job.runs - (now - CALCULATION_S), 0.0))
            accounts[job.team].usage[job.user] += job.nodes * seconds
            used[job.team] += job.nodes * seconds
        for account in accounts.values():
            for user in account.usage:
                account.usage[user] *= 0.5 ** (CALCULATION_S / HALF_LIFE_S)
        free += sum(job.nodes for job in running if job.started + job.runs <= now)
        running = [job for job in running if job.started + job.runs > now]
        while coming and coming[0].submitted <= now:
            pending.append(coming.pop(0))
        factors = fair_tree(accounts)
        if fair:
            pending.sort(key=lambda job: (-priority(job, factors, now), job.submitted))
        for job in starting(pending[:TESTED], running, free, now):
            job.started = now
            free -= job.nodes
            running.append(job)
            pending.remove(job)
    return {team: seconds / HOUR for team, seconds in used.items()}


def report(seed: int, longest: int, *, fair: bool) -> dict[str, object]:
    """The results of one week."""
    jobs = workload(seed, longest)
    hours = simulate(jobs, fair=fair)
    total = sum(hours.values())
    teams = {}
    for team, nodes in TEAMS.items():
        waits = [(job.started - job.submitted) / HOUR for job in jobs if job.team == team and job.started >= 0]
        share, got = nodes / NODES, hours[team] / total
        teams[team] = {
            "share_percent": round(100 * share, 2),
            "got_percent": round(100 * got, 2),
            "off_by_percent_of_share": round(100 * (got / share - 1), 2),
            "asked_of_share": round(EAGER.get(team, 1.0) * 1.3, 2),
            "jobs_started": len(waits),
            "median_wait_hours": round(statistics.median(waits), 2),
            "p95_wait_hours": round(statistics.quantiles(waits, n=20)[-1], 2),
        }
    return {"seed": seed, "utilisation_percent": round(100 * total / (NODES * 168), 2), "teams": teams}


def main() -> int:
    """Five weeks each; 1 if a team of the advised policy (jobs of at most 4 hours) misses its share by over 5 %."""
    weeks = {
        f"shares, jobs up to {hours} h": [report(seed, hours, fair=True) for seed in SEEDS] for hours in (4, 8, 16)
    }
    weeks["first come, first served, jobs up to 8 h"] = [report(seed, 8, fair=False) for seed in SEEDS]
    print(json.dumps({"nodes": NODES, "hours": 168, "parameters": PARAMETERS, "weeks": weeks}, indent=1))
    return int(max(map(worst, weeks["shares, jobs up to 4 h"])) > 5)


def worst(week: Mapping[str, Any]) -> float:
    """The largest deviation of a team from its share, in per cent of the share."""
    return max(abs(float(team["off_by_percent_of_share"])) for team in week["teams"].values())


if __name__ == "__main__":
    sys.exit(main())
