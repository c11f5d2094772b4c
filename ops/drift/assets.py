"""The bundle that is published for the nodes, compared with the version that the cluster was deployed with.

A node runs whatever bundle `cluster/current.json` names, so a bundle put there by hand runs on every node that starts.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from cluster_resource.client import json_object
from ops.drift.deployed_stack import DeployedStack
from ops.drift.findings import Finding
from ops.drift.values import Values
from ops.intrinsics import UNKNOWN
from ops.review.cluster import TYPE
from ops.review.structure import ABSENT
from trainyard.cluster_bundle import ENTRY, PREFIX, SETTINGS, Bundle

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

PART = "assets"
DEPLOYMENT = "Custom::CDKBucketDeployment"
ADVICE = "Publish the deployed version again; cdk deploy cluster does so only if its resource changes (docs/drift.md)."

_POINTER = f"{PREFIX}/current.json"
_GONE = ("NoSuchKey", "404", "NoSuchBucket")


def check(client: S3Client, stack: DeployedStack, values: Values) -> Iterator[Finding]:
    """Differences between the assets bucket and the deployed version. Raises ClientError where S3 denies access."""
    properties: dict[str, Any] = {}
    for resource in stack.of(DEPLOYMENT, TYPE):
        properties |= values.properties(resource, stack)
    bucket, version = (properties.get(key, UNKNOWN) for key in ("DestinationBucketName", "AssetsVersion"))
    if UNKNOWN in (bucket, version):
        return

    def finding(key: str, path: str, expected: object, actual: object) -> Finding:
        return Finding(PART, f"s3://{bucket}/{key}", path, expected, actual, ADVICE)

    pointer = json_object(_content(client, bucket, _POINTER))
    for path, expected in (("sha256", version), ("settings", SETTINGS)):
        if pointer.get(path) != expected:
            yield finding(_POINTER, path, expected, pointer.get(path, ABSENT))
    key = Bundle(b"", version).key
    bundle = _content(client, bucket, key)
    if bundle is None:
        yield finding(key, "", "exists", "deleted")
        return
    checksum = _digest(bundle)
    if checksum != version:
        yield finding(key, "sha256", version, checksum)
        return
    with tarfile.open(fileobj=io.BytesIO(bundle), mode="r:") as archive:
        member = archive.extractfile(ENTRY)
        wanted = member.read() if member else None
    entry = _content(client, bucket, f"{PREFIX}/{ENTRY}")
    if entry != wanted:
        yield finding(f"{PREFIX}/{ENTRY}", "sha256", _digest(wanted), _digest(entry))


def _content(client: S3Client, bucket: str, key: str) -> bytes | None:
    try:
        return client.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _GONE:
            return None
        raise


def _digest(content: bytes | None) -> object:
    return ABSENT if content is None else hashlib.sha256(content).hexdigest()
