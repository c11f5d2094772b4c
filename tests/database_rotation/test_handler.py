"""The rotation against botocore's models of Secrets Manager and RDS, which check each request and answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from botocore.stub import ANY, Stubber

from database_rotation.handler import LENGTH, POLL_S, POLLS, Event, step
from tests.stubs import stubbed

if TYPE_CHECKING:
    from types_boto3_rds.client import RDSClient
    from types_boto3_secretsmanager.client import SecretsManagerClient

CLUSTER, OLD, NEW, PASSWORD = "unit-accounting", "o" * 32, "n" * 32, "p" * LENGTH
SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:Password-AbCdEf"
STAGES = {OLD: ["AWSCURRENT"], NEW: ["AWSPENDING"]}
PENDING = {"SecretId": SECRET, "VersionId": NEW, "VersionStage": "AWSPENDING"}


@dataclass
class Services:
    secrets: SecretsManagerClient
    rds: RDSClient
    of_secrets: Stubber
    of_rds: Stubber
    slept: float = 0

    def has(self, stages: dict[str, list[str]]) -> None:
        self.of_secrets.add_response("describe_secret", {"VersionIdsToStages": stages}, {"SecretId": SECRET})

    def describes(self, status: str, **pending: str) -> None:
        found = {"DBClusterIdentifier": CLUSTER, "Status": status, "PendingModifiedValues": pending}
        asked = {"DBClusterIdentifier": CLUSTER}
        self.of_rds.add_response("describe_db_clusters", {"DBClusters": [found]}, asked)

    def run(self, name: Any) -> None:  # noqa: ANN401 - a step, or what is none
        event: Event = {"Step": name, "SecretId": SECRET, "ClientRequestToken": NEW}
        step(event, self.secrets, self.rds, CLUSTER, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds


@pytest.fixture
def services() -> Iterator[Services]:
    with stubbed("secretsmanager") as (secrets, of_secrets), stubbed("rds") as (rds, of_rds):
        yield Services(secrets, rds, of_secrets, of_rds)


def test_creates_a_password_of_letters_and_digits(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    services.has(STAGES)
    services.of_secrets.add_client_error("get_secret_value", "ResourceNotFoundException", expected_params=PENDING)
    services.of_secrets.add_response(
        "put_secret_value",
        {},
        {"SecretId": SECRET, "ClientRequestToken": NEW, "SecretString": ANY, "VersionStages": ["AWSPENDING"]},
    )
    original = services.secrets.put_secret_value
    monkeypatch.setattr(services.secrets, "put_secret_value", lambda **given: (made.update(given), original(**given)))
    services.run("createSecret")
    assert made["SecretString"].isalnum() and len(made["SecretString"]) == LENGTH


def test_a_repeated_creation_keeps_the_password(services: Services) -> None:
    services.has(STAGES)
    services.of_secrets.add_response("get_secret_value", {"SecretString": PASSWORD}, PENDING)
    services.run("createSecret")


def test_sets_the_pending_password(services: Services) -> None:
    services.has(STAGES)
    services.of_secrets.add_response("get_secret_value", {"SecretString": PASSWORD}, PENDING)
    services.of_rds.add_response(
        "modify_db_cluster",
        {},
        {"DBClusterIdentifier": CLUSTER, "MasterUserPassword": PASSWORD, "ApplyImmediately": True},
    )
    services.run("setSecret")


def test_waits_until_rds_has_applied_it(services: Services) -> None:
    services.has(STAGES)
    services.describes("resetting-master-credentials", MasterUserPassword="****")
    services.describes("available", MasterUserPassword="****")
    services.describes("resetting-master-credentials")
    services.describes("available")
    services.run("testSecret")
    assert services.slept == 4 * POLL_S


def test_fails_if_rds_does_not_apply_it(services: Services) -> None:
    services.has(STAGES)
    for _ in range(POLLS):
        services.describes("available", MasterUserPassword="****")
    with pytest.raises(TimeoutError, match="unit-accounting is available"):
        services.run("testSecret")


def test_moves_the_stage(services: Services) -> None:
    services.has(STAGES)
    services.of_secrets.add_response(
        "update_secret_version_stage",
        {},
        {"SecretId": SECRET, "VersionStage": "AWSCURRENT", "MoveToVersionId": NEW, "RemoveFromVersionId": OLD},
    )
    services.run("finishSecret")


@pytest.mark.parametrize("name", ["createSecret", "setSecret", "testSecret", "finishSecret"])
def test_a_finished_rotation_changes_nothing(services: Services, name: str) -> None:
    services.has({NEW: ["AWSCURRENT", "AWSPENDING"]})
    services.run(name)


@pytest.mark.parametrize("stages", [{OLD: ["AWSCURRENT"]}, {OLD: ["AWSCURRENT"], NEW: ["AWSPREVIOUS"]}])
def test_a_version_that_is_not_pending_is_refused(services: Services, stages: dict[str, list[str]]) -> None:
    services.has(stages)
    with pytest.raises(ValueError, match="no stage AWSPENDING"):
        services.run("setSecret")


def test_an_unknown_step_is_refused(services: Services) -> None:
    services.has(STAGES)
    with pytest.raises(ValueError, match="'deleteSecret', not createSecret"):
        services.run("deleteSecret")
