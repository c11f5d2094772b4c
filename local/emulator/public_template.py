"""The stand-in for the public template of the ParallelCluster API.

The genuine one is at https://<region>-aws-parallelcluster.s3.<region>.amazonaws.com/parallelcluster/<version>/api/
parallelcluster-api.yaml and cannot be used here: it runs the API from a container image in Lambda. This one
is at the same address in the emulator's S3, with the same parameters and outputs. In front of the API is a REST API of
API Gateway with the same authorization: AWS_IAM on every method, and a resource policy that denies everyone but the API
user role. Behind it, instead of the Lambda, runs the genuine API code on loopback.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ministack.core.responses import get_region
from ministack.services import s3

TEMPLATE = Path(__file__).parent / "parallelcluster-api.yaml"


def install(version: str, api_urls: Mapping[str, str], gateway_url: str) -> None:
    """Put the template where the public one is, in the current region.

    `api_urls` is where the genuine API of each account listens, `gateway_url` where the emulator does.
    """
    body = TEMPLATE.read_text()
    apis = json.dumps({account: {"Url": url} for account, url in api_urls.items()})
    for name, value in (("__VERSION__", version), ("__APIS__", apis), ("__GATEWAY_URL__", gateway_url)):
        body = body.replace(name, value)
    bucket = f"{get_region()}-aws-parallelcluster"
    key = f"parallelcluster/{version}/api/parallelcluster-api.yaml"
    s3._create_bucket(bucket, b"")
    s3._put_object(bucket, key, body.encode(), {"content-type": "application/x-yaml"})
