"""The verdicts against the real ParallelCluster API: a dry run of each edit of `local`, on a cluster of `make up`.

With the fleet running and then stopped. Edits that name what the emulated AWS does not have are left out: the API's
validators would refuse them before its update policies are asked.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local.commands.session import aws
from local.emulator import launch
from ops import pcluster_subprocess
from tests.cluster_config.references import references
from tests.ops.review.edits import CLUSTER, load
from trainyard.cluster_config import render

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("review-api")]

ROOT = Path(__file__).parents[3]
UP_LIMIT_S = 900
FLEET_LIMIT_S = 120
EDITS = {name: edit for name, edit in CLUSTER.items() if edit.emulated and edit.file == "local" and not edit.before}


@dataclass(frozen=True)
class Api:
    """The ParallelCluster API of the deployment, and the configuration that the cluster `local` has."""

    url: str
    region: str
    keys: Credentials
    configuration: dict[str, Any]

    def __call__(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        data = json.dumps(body).encode() if body is not None else None
        request = AWSRequest(method, self.url + path, data=data, headers={"Content-Type": "application/json"})
        SigV4Auth(self.keys, "execute-api", self.region).add_auth(request)
        sent = urllib.request.Request(  # noqa: S310 - the world's address
            str(request.url), data=data, method=method, headers=dict(request.headers)
        )
        try:
            with urllib.request.urlopen(sent, timeout=60) as answer:  # noqa: S310
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def accepts(self, configuration: dict[str, Any]) -> bool | str:
        """The dry run of an update: 412 accepts; 400 refuses, or finds no changes; 500 where a policy fails.

        What else is answered, as to a configuration that is invalid in itself, comes back in words.
        """
        body = {"clusterConfiguration": json.dumps(configuration)}
        status, answer = self("PUT", f"/v3/clusters/local?dryrun=true&region={self.region}", body)
        if status == 412:
            return True
        if "No changes found" in str(answer.get("message")):
            return True
        judged = status == 500 or (status == 400 and "updateValidationErrors" in answer)
        return False if judged else f"HTTP {status}: {answer}"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    state = tmp_path_factory.mktemp("review") / "state"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = [sys.executable, "-m", "cli", "up", "local", "--state", str(state), "--port", str(port), "--no-hello"]
    try:
        result = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=UP_LIMIT_S, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        world = launch.find(state)
        assert world is not None
        session = aws(world)
        outputs = {
            item["OutputKey"]: item["OutputValue"]
            for stack in session.client("cloudformation").describe_stacks()["Stacks"]
            for item in stack.get("Outputs", [])
        }
        keys = session.client("sts").assume_role(
            RoleArn=outputs["ParallelClusterApiUserRole"], RoleSessionName="review"
        )["Credentials"]
        credentials = Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
        asked = Api(outputs["ParallelClusterApiInvokeUrl"], world.region, credentials, {})
        _, told = asked("GET", f"/v3/clusters/local?region={world.region}")
        with urllib.request.urlopen(told["clusterConfiguration"]["url"], timeout=60) as answer:  # noqa: S310
            configuration = yaml.safe_load(answer)
        yield Api(asked.url, asked.region, credentials, configuration)
    finally:
        launch.stop(state)


@pytest.fixture(scope="module")
def steps(api: Api, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pcluster_subprocess.Step]:
    """Each edit as a step from the configuration that the cluster has, with the ids of the world."""
    folder = tmp_path_factory.mktemp("edits")
    base = load("local", (), folder)
    rendered = render(base, references(base))
    real = ids(rendered, api.configuration)
    owner = [tag for tag in api.configuration["Tags"] if tag["Key"] == "trainyard:owner"]
    found: dict[str, pcluster_subprocess.Step] = {}
    for name, edit in EDITS.items():
        new = edit.new(folder)
        text = json.dumps(render(new, references(new)))
        for example in sorted(real, key=len, reverse=True):
            text = text.replace(example, real[example])
        wanted = json.loads(text)
        wanted["Tags"] += owner
        found[name] = ("local", api.configuration, wanted)
    return found


def ids(example: Any, real: Any) -> dict[str, str]:  # noqa: ANN401 - JSON
    """What the world has for each id of the rendered example."""
    if isinstance(example, dict):
        return {old: new for key, item in example.items() for old, new in ids(item, real[key]).items()}
    if isinstance(example, list):
        return {old: new for item, its in zip(example, real, strict=False) for old, new in ids(item, its).items()}
    return {example: real} if isinstance(example, str) and example != real else {}


@pytest.mark.parametrize("fleet", ["running", "stopped"])
def test_the_dry_run_agrees_on_every_edit(fleet: str, api: Api, steps: dict[str, pcluster_subprocess.Step]) -> None:
    if fleet == "stopped":
        stop(api)
    answers = pcluster_subprocess.compare_configurations(steps)
    said = {name: api.accepts(dict(new)) for name, (_, _, new) in steps.items()}
    assert said == {name: answer["accepted"][fleet] for name, answer in answers.items()}
    assert len(said) >= 25


def stop(api: Api) -> None:
    path = f"/v3/clusters/local/computefleet?region={api.region}"
    status, answer = api("PATCH", path, {"status": "STOP_REQUESTED"})
    assert status == 200, answer
    deadline = time.monotonic() + FLEET_LIMIT_S
    while time.monotonic() < deadline:
        if api("GET", path)[1].get("status") == "STOPPED":
            return
        time.sleep(1)
    raise AssertionError("the fleet does not stop")
