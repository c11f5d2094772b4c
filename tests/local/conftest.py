"""One emulator for the tests of this folder, on free ports."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from local.emulator import launch
from tests.e2e.conftest import free_ports

ACCOUNT = "111122223333"
REGION = "us-west-2"
RESERVATION = "cr-0123456789abcdef0"


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[launch.Emulator]:
    """A running emulator with one reservation."""
    state = tmp_path_factory.mktemp("emulator")
    seeds = {
        "capacity_reservations": [
            {
                "id": RESERVATION,
                "instance_type": "p5.48xlarge",
                "zone_id": "usw2-az1",
                "count": 2,
                "type": "capacity-block",
            }
        ],
        "ssm_parameters": {"/given/before": "yes"},
    }
    port = free_ports()
    running = launch.start(state, ACCOUNT, REGION, port, port + 1, seeds)
    yield running
    launch.stop(state)


@pytest.fixture(scope="session")
def aws(emulator: launch.Emulator) -> boto3.Session:
    """boto3 as the account's own key; clients still need the endpoint, see `client`."""
    return boto3.Session(aws_access_key_id=emulator.account, aws_secret_access_key="local", region_name=emulator.region)
