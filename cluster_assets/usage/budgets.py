"""budgets.py --settings FILE --people FILE --folder FOLDER: alerts at 50, 80 and 100 % of each team's monthly budget.

Runs every hour on the head node (trainyard-budgets.timer), as root, who alone has the instance's credentials. What a
team has used since the first of the month, in UTC, is its node hours times the prices of people.json. Each level is
published once a month; an alert that fails is tried again in the next hour. The standard library only, Python 3.9.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import periodic
import usage

LEVELS = (100, 80, 50)


def spent(report: dict[str, Any], hourly: dict[str, Any]) -> tuple[dict[str, float], set[str]]:
    """USD of each team, and the teams with node hours whose price is unknown."""
    amounts: dict[str, float] = defaultdict(float)
    partial = set()
    for team, _, _, _, resource, _, _, node_hours in report["rows"]:
        price = hourly.get(resource)
        amounts[team] += node_hours * (price or 0)
        if price is None and node_hours:
            partial.add(team)
    return amounts, partial


def message(team: str, level: int, amount: float, budget: float, *, month: str, partial: bool) -> tuple[str, str]:
    """Subject and text of an alert."""
    shown = f"{'at least ' if partial else ''}${amount:,.0f} of ${budget:,.0f}"
    text = f"The team {team} has used {shown} since {month}-01 (UTC): {amount / budget:.0%} of its budget.\n"
    text += "Nothing was stopped. Who used it: trainyard cost ENV --since " + f"{month}-01 --by user"
    return f"{team}: {level} % of the monthly budget", text


def publish(topic: str, region: str, subject: str, text: str) -> bool:
    """Whether the message was published."""
    line = ["aws", "sns", "publish", "--region", region, "--topic-arn", topic, "--subject", subject, "--message", text]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        sys.stderr.write(f"not published, again in an hour: {subject}: {done.stderr.strip()[-500:]}\n")
    return not done.returncode


def check(settings: dict[str, Any], people: dict[str, Any], folder: Path, now: float) -> int:
    """Publish what is due; returns the number of alerts."""
    budgets = {team["name"]: team["monthly_usd"] for team in people.get("teams", ()) if team.get("monthly_usd")}
    if not budgets:
        return 0
    about = people["budgets"]
    begin = datetime.fromtimestamp(now, timezone.utc).replace(day=1, hour=0, minute=0, second=0)  # noqa: UP017 - Python 3.9
    month, file = f"{begin:%Y-%m}", folder / "budgets.json"
    known = periodic.read(file)
    sent: dict[str, int] = known.get("sent", {}) if known.get("month") == month else {}
    amounts, partial = spent(usage.collect(settings, (begin.timestamp(), now)), about["hourly"])
    published = 0
    for team, budget in budgets.items():
        level = next((level for level in LEVELS if 100 * amounts[team] >= level * budget), 0)
        if level <= sent.get(team, 0):
            continue
        subject, text = message(team, level, amounts[team], budget, month=month, partial=team in partial)
        if publish(about["topic_arn"], settings["region"], subject, text):
            sent[team], published = level, published + 1
    periodic.write(file, {"month": month, "sent": sent})
    return published


if __name__ == "__main__":
    periodic.main("Alerts about the budgets of teams.", check)
