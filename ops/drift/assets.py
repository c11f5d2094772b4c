"""The bundle that is published for the nodes, compared with the version that the cluster was deployed with.

A node runs whatever bundle `cluster/current.json` names, so a bundle put there by hand runs on every node that starts.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ops.drift.cluster import KIND
from ops.drift.deployed_stack import DeployedStack
from ops.drift.findings import Finding
from ops.drift.values import Values
from ops.intrinsics import UNKNOWN
from ops.review.structure import ABSENT
from trainyard.cluster_bundle import ENTRY, PREFIX, SETTINGS

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

PART = "assets"
DEPLOYMENT = "Custom::CDKBucketDeployment"
ADVICE = "Publish the deployed version again; cdk deploy cluster does so only if its resource changes (docs/drift.md)."

_POINTER = f"{PREFIX}/current.json"
_GONE = ("NoSuchKey", "404", "NoSuchBucket")


def check(client: S3Client, stack: DeployedStack, values: Values) -> Iterator[Finding]:
    """Differences between the assets bucket and the deployed version.

    Raises:
        ClientError: S3 denies access.
    """
    bucket = next(
        (values.properties(item, stack).get("DestinationBucketName", UNKNOWN) for item in stack.of(DEPLOYMENT)), UNKNOWN
    )
    version = next(
        (
            properties["AssetsVersion"]
            for item in stack.of(KIND)
            if "AssetsVersion" in (properties := values.properties(item, stack))
        ),
        UNKNOWN,
    )
    if bucket is UNKNOWN or version is UNKNOWN:
        return

    def finding(key: str, path: str, expected: object, actual: object) -> Finding:
        return Finding(PART, f"s3://{bucket}/{key}", path, expected, actual, ADVICE)

    pointer = _pointer(_content(client, bucket, _POINTER))
    for path, expected in (("sha256", version), ("settings", SETTINGS)):
        if pointer.get(path) != expected:
            yield finding(_POINTER, path, expected, pointer.get(path, ABSENT))
    key = f"{PREFIX}/bundles/{version}.tar"
    bundle = _content(client, bucket, key)
    if bundle is None:
        yield finding(key, "", "exists", "deleted")
        return
    checksum = hashlib.sha256(bundle).hexdigest()
    if checksum != version:
        yield finding(key, "sha256", version, checksum)
        return
    entry = _content(client, bucket, f"{PREFIX}/{ENTRY}")
    wanted = _member(bundle, ENTRY)
    if entry != wanted:
        yield finding(f"{PREFIX}/{ENTRY}", "sha256", _digest(wanted), _digest(entry))


def _content(client: S3Client, bucket: str, key: str) -> bytes | None:
    try:
        return client.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _GONE:
            return None
        raise


def _pointer(content: bytes | None) -> Mapping[str, Any]:
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _member(archive: bytes, name: str) -> bytes | None:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as bundle:
        member = bundle.extractfile(name)
        return member.read() if member else None


def _digest(content: bytes | None) -> object:
    return ABSENT if content is None else hashlib.sha256(content).hexdigest()
