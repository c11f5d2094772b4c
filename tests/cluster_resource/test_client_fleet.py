"""The client's calls about fleet, nodes and version, against the server that replays the API's answers."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cluster_resource.api import ApiError, ApiUnknownError
from cluster_resource.client import HttpClusterApi
from tests.cluster_resource.replay import DRY_RUN, TIME, Server

FLEET = {"status": "STOPPED", "lastStatusUpdatedTime": TIME}
INSTANCE = {
    "instanceId": "i-0123456789abcdef1",
    "instanceType": "p5.48xlarge",
    "launchTime": TIME,
    "nodeType": "ComputeNode",
    "privateIpAddress": "10.0.0.11",
    "queueName": "gpu",
    "state": "running",
}
FIRST_PAGE = {"instances": [INSTANCE, INSTANCE], "nextToken": "more"}
LAST_PAGE = {"instances": [INSTANCE]}
IMAGES = {
    "images": [
        {
            "architecture": "x86_64",
            "amiId": "ami-0123456789abcdef0",
            "name": "n",
            "os": "ubuntu2204",
            "version": "3.16.1",
        }
    ]
}


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ("DescribeComputeFleetResponseContent", FLEET),
        ("DescribeClusterInstancesResponseContent", FIRST_PAGE),
        ("ListOfficialImagesResponseContent", IMAGES),
    ],
)
def test_the_replayed_answers_have_the_shapes_of_the_genuine_api(schema: str, answer: dict[str, Any]) -> None:
    root = Path(__file__).parents[2] / "parallelcluster" / ".venv" / "lib"
    path = next(root.glob("python3*/site-packages/pcluster/api/openapi/openapi.yaml"))
    components = yaml.load(path.read_text(), yaml.CSafeLoader)["components"]
    jsonschema.validate(answer, {"$ref": f"#/components/schemas/{schema}", "components": components})


def test_the_fleet_is_read_and_asked_for(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, FLEET)]
    assert api.fleet("local") == "STOPPED"
    api.request_fleet("local", running=True)
    api.request_fleet("local", running=False)
    assert [(item[0], item[1], item[4]) for item in server.requests] == [
        ("GET", "/prod/v3/clusters/local/computefleet", None),
        ("PATCH", "/prod/v3/clusters/local/computefleet", {"status": "START_REQUESTED"}),
        ("PATCH", "/prod/v3/clusters/local/computefleet", {"status": "STOP_REQUESTED"}),
    ]


def test_a_request_to_the_fleet_whose_outcome_is_unknown_is_not_repeated(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(504, {"message": "Endpoint request timed out"})]
    with pytest.raises(ApiUnknownError):
        api.request_fleet("local", running=False)
    assert server.methods == ["PATCH"]


def test_compute_nodes_are_counted_over_all_pages(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, FIRST_PAGE), (200, LAST_PAGE)]
    assert api.compute_nodes("local") == 3
    assert server.requests[1][2] == {"region": "us-east-1", "nodeType": "ComputeNode", "nextToken": "more"}


def test_the_version_is_that_of_the_official_images(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, IMAGES), (200, {"images": []})]
    assert api.api_version("ubuntu2204") == "3.16.1"
    assert server.requests[0][2] == {"region": "us-east-1", "os": "ubuntu2204"}
    assert api.api_version("") is None


def test_a_creation_is_tried_out(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(412, DRY_RUN)]
    with pytest.raises(ApiError) as answer:
        api.create("local", "x", dry_run=True)
    assert answer.value.http_status == 412 and server.requests[0][2]["dryrun"] == "true"
