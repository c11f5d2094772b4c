"""`cluster/people.json`: users, groups, teams, qualities of service and reservations, for the programs of
cluster_assets/people. A change of it is applied to a running cluster, without an update.
"""

from __future__ import annotations

from settings.model import Environment
from settings.prices import node_prices
from settings.shares import is_shared, shares
from settings.stacks import topic_arn

PEOPLE = "cluster/people.json"


def cluster_people(environment: Environment) -> dict[str, object] | None:
    """The content of `cluster/people.json`, or None for an environment that has none of it."""
    people = environment.people
    if not (people.file or people.directory or is_shared(environment)):
        return None
    content = people.content.model_dump(mode="json")
    directory = people.directory
    return {
        "schema": 1,
        # An environment without a file leaves the nodes' users as they are.
        "has_users": people.file is not None,
        **content,
        # Nodes only check the directory: ParallelCluster configures SSSD.
        "directory": directory and directory.model_dump(include={"address", "ca_certificate", "verify"}),
        **shares(environment),
        **_budgets(environment),
    }


def _budgets(environment: Environment) -> dict[str, object]:
    """What the head node needs to know when a team's budget is used up."""
    if not any(team.monthly_usd for team in environment.teams):
        return {}
    return {"budgets": {"hourly": node_prices(environment), "topic_arn": topic_arn(environment)}}
