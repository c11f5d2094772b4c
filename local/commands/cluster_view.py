"""What the genuine ParallelCluster API says of the cluster, asked as any client of it would."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local.commands.session import aws
from ops.problem import Problem

if TYPE_CHECKING:
    from local.commands.session import Session
    from local.emulator.launch import Emulator

TIMEOUT_S = 60


@dataclass(frozen=True)
class ClusterView:
    """A cluster as the API describes it, with the configuration that it was made from."""

    name: str
    status: str
    version: str
    fleet: str
    head_id: str
    head_type: str
    head_state: str
    head_address: str
    configuration: Mapping[str, Any]


def read(session: Session, world: Emulator) -> ClusterView:
    """Describe the environment's cluster; Problem where there is none."""
    name = session.environment.cluster_name
    ask = _asker(session, world)
    body = ask(f"/v3/clusters/{name}")
    fleet = ask(f"/v3/clusters/{name}/computefleet")
    head = body.get("headNode", {})
    with urllib.request.urlopen(body["clusterConfiguration"]["url"], timeout=TIMEOUT_S) as answer:  # noqa: S310
        configuration = yaml.safe_load(answer)
    return ClusterView(
        name=name,
        status=body["clusterStatus"],
        version=body["version"],
        fleet=fleet["status"],
        head_id=head.get("instanceId", "none"),
        head_type=head.get("instanceType", ""),
        head_state=head.get("state", "absent"),
        head_address=head.get("privateIpAddress", ""),
        configuration=configuration,
    )


def _asker(session: Session, world: Emulator) -> Any:  # noqa: ANN401 - a closure over the signed request
    url, role = _api_of(session, world)
    account = aws(world)
    keys = account.client("sts").assume_role(RoleArn=role, RoleSessionName="trainyard-local")["Credentials"]
    credentials = Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    region = session.environment.region

    def ask(path: str) -> dict[str, Any]:
        request = AWSRequest(method="GET", url=f"{url}{path}?region={region}")
        SigV4Auth(credentials, "execute-api", region).add_auth(request)
        prepared = urllib.request.Request(str(request.url), headers=dict(request.headers))  # noqa: S310
        try:
            with urllib.request.urlopen(prepared, timeout=TIMEOUT_S) as answer:  # noqa: S310
                body: dict[str, Any] = json.load(answer)
                return body
        except urllib.error.HTTPError as refusal:
            if refusal.code == 404:
                raise Problem(
                    f"There is no cluster {session.environment.cluster_name!r} in the emulated AWS. "
                    f"Create it with: make up ENV={session.file.stem}"
                ) from refusal
            text = refusal.read().decode(errors="replace")[:500]
            raise Problem(f"The ParallelCluster API answered HTTP {refusal.code} to GET {path}: {text}") from refusal

    return ask


def _api_of(session: Session, world: Emulator) -> tuple[str, str]:
    """Invoke URL and user role, from the outputs of the API's nested stack."""
    client = aws(world).client("cloudformation")
    for page in client.get_paginator("describe_stacks").paginate():
        for stack in page["Stacks"]:
            outputs = {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}
            if "ParallelClusterApiInvokeUrl" in outputs:
                return outputs["ParallelClusterApiInvokeUrl"], outputs["ParallelClusterApiUserRole"]
    raise Problem(f"No ParallelCluster API is deployed. Deploy it with: make up ENV={session.file.stem}")
