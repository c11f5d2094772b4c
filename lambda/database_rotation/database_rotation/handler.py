"""Lambda handler: one step of Secrets Manager's rotation of the master password of an Aurora cluster.

The secret is the password as plain text, as ParallelCluster reads it. RDS sets the password, so that the function needs
no route to the database. Protocol: Secrets Manager user guide, "Lambda rotation functions".
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from secrets import choice
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Literal, TypedDict

import boto3

if TYPE_CHECKING:
    from types_boto3_rds.client import RDSClient
    from types_boto3_secretsmanager.client import SecretsManagerClient

LENGTH = 40
"""Of a password: Aurora MySQL accepts 8 to 41 characters (CreateDBCluster, MasterUserPassword)."""
POLL_S, POLLS = 10, 60


class Event(TypedDict):
    """What Secrets Manager sends. `ClientRequestToken` is the id of the new version."""

    Step: Literal["createSecret", "setSecret", "testSecret", "finishSecret"]
    SecretId: str
    ClientRequestToken: str


def handler(event: Event, context: object) -> None:  # noqa: ARG001 - the signature is Lambda's
    step(event, boto3.client("secretsmanager"), boto3.client("rds"), os.environ["CLUSTER"])


def step(
    event: Event,
    secrets: SecretsManagerClient,
    rds: RDSClient,
    cluster: str,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Carry out one step; each may be repeated.

    Raises:
        ValueError: the step is unknown, or the version is not the one that is being rotated in.
        TimeoutError: RDS has not applied the password after ten minutes. Secrets Manager tries again.
        ClientError: a call was refused.
    """
    secret, token = event["SecretId"], event["ClientRequestToken"]
    stages = secrets.describe_secret(SecretId=secret)["VersionIdsToStages"]
    if "AWSCURRENT" in stages.get(token, ()):
        return  # a repeated event of a finished rotation
    if "AWSPENDING" not in stages.get(token, ()):
        raise ValueError(f"version {token} of {secret} has no stage AWSPENDING: nothing is being rotated in")
    match event["Step"]:
        case "createSecret":
            _create(secrets, secret, token)
        case "setSecret":
            pending = secrets.get_secret_value(SecretId=secret, VersionId=token, VersionStage="AWSPENDING")
            password = pending["SecretString"]
            rds.modify_db_cluster(DBClusterIdentifier=cluster, MasterUserPassword=password, ApplyImmediately=True)
        case "testSecret":
            _wait(rds, cluster, sleep)
        case "finishSecret":
            [current] = [version for version, names in stages.items() if "AWSCURRENT" in names]
            secrets.update_secret_version_stage(
                SecretId=secret, VersionStage="AWSCURRENT", MoveToVersionId=token, RemoveFromVersionId=current
            )
        case other:
            raise ValueError(f"Step is {other!r}, not createSecret, setSecret, testSecret or finishSecret")


def _create(secrets: SecretsManagerClient, secret: str, token: str) -> None:
    try:
        secrets.get_secret_value(SecretId=secret, VersionId=token, VersionStage="AWSPENDING")
    except secrets.exceptions.ResourceNotFoundException:
        # slurmdbd.conf takes no #; letters and digits need no quoting anywhere.
        password = "".join(choice(ascii_letters + digits) for _ in range(LENGTH))
        secrets.put_secret_value(
            SecretId=secret, ClientRequestToken=token, SecretString=password, VersionStages=["AWSPENDING"]
        )


def _wait(rds: RDSClient, cluster: str, sleep: Callable[[float], None]) -> None:
    for _ in range(POLLS):
        sleep(POLL_S)  # first of all: RDS changes the status some seconds after the call
        [found] = rds.describe_db_clusters(DBClusterIdentifier=cluster)["DBClusters"]
        pending = found.get("PendingModifiedValues", {}).get("MasterUserPassword")
        if found["Status"] == "available" and not pending:
            return
    raise TimeoutError(f"{cluster} is {found['Status']} and has not applied its new password")
