"""`cluster/people.json`: users, groups, teams, qualities of service and reservations, for the programs of
cluster_assets/people. A change of it is applied to a running cluster, without an update.
"""

from __future__ import annotations

from settings.model import Environment

PEOPLE = "cluster/people.json"


def cluster_people(environment: Environment) -> dict[str, object] | None:
    """The content of `cluster/people.json`, or None for an environment that has none of it."""
    people = environment.people
    if not (people.file or people.directory or environment.teams or environment.qos or environment.reservations):
        return None
    content = people.content.model_dump(mode="json")
    directory = people.directory
    return {
        "schema": 1,
        # An environment without a file leaves the nodes' users as they are.
        "has_users": people.file is not None,
        **content,
        # Of a directory the nodes only look whether it answers: ParallelCluster configures SSSD.
        "directory": directory and directory.model_dump(include={"address", "ca_certificate", "verify"}),
        "teams": [team.model_dump(mode="json") for team in environment.teams],
        "qos": [qos.model_dump(mode="json") for qos in environment.qos],
        "reservations": [reservation.model_dump(mode="json") for reservation in environment.reservations],
        "models": [{"name": model.name, "team": model.team} for model in environment.models],
    }
