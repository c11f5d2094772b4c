"""The deployed accounting database: its rotation with the function's own role, and its line in status."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.ops.deployment.deployed import Deployed

pytestmark = pytest.mark.e2e

STEPS = ("createSecret", "setSecret", "testSecret", "finishSecret")


def test_rotation_as_secrets_manager_asks_for_it(deployment: Deployed) -> None:
    """The emulated Secrets Manager starts no rotation, so the test sends the steps, for a version that it made."""
    secrets, functions, rds = (deployment.client(name) for name in ("secretsmanager", "lambda", "rds"))
    configured = deployment.configuration()["Scheduling"]["SlurmSettings"]["Database"]
    secret, name = configured["PasswordSecretArn"], configured["Uri"].partition(".")[0]
    [function] = [
        item["FunctionName"]
        for page in functions.get_paginator("list_functions").paginate()
        for item in page["Functions"]
        if "AccountingRotation" in item["FunctionName"]
    ]
    old, token, password = secrets.get_secret_value(SecretId=secret)["SecretString"], str(uuid4()), "n" * 40
    secrets.put_secret_value(
        SecretId=secret, ClientRequestToken=token, SecretString=password, VersionStages=["AWSPENDING"]
    )
    for step in STEPS:
        payload = json.dumps({"Step": step, "SecretId": secret, "ClientRequestToken": token})
        answer = functions.invoke(FunctionName=function, Payload=payload)
        assert "FunctionError" not in answer, (step, answer["Payload"].read())
        current = secrets.get_secret_value(SecretId=secret)["SecretString"]
        assert current == (password if step == "finishSecret" else old), step
    [cluster] = rds.describe_db_clusters(DBClusterIdentifier=name)["DBClusters"]
    assert cluster["Status"] == "available" and cluster["DeletionProtection"]


def test_status_lists_the_database(deployment: Deployed) -> None:
    done = deployment.local.run("status")
    assert "local-accounting" in done.stdout and "aurora-mysql 8.0.mysql_aurora.3.10.4" in done.stdout
