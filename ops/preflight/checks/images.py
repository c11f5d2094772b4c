"""The nodes' images: ParallelCluster's official image for the operating system, or the ids in the file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops import pcluster_subprocess
from ops.preflight.aws import code_of
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict, judged
from settings.instances import instance_types

_CALL = "ec2:DescribeImages"


def check(context: CheckContext) -> Iterator[CheckResult]:
    """The official image if some node uses it, and each image id in the file."""
    cluster = context.environment.cluster
    users: dict[str | None, list[str]] = defaultdict(list)
    users[cluster.head_node.ami].append("head node")
    for queue in cluster.queues:
        users[queue.ami].append(f"queue {queue.name}")
    facts = instance_types().get(cluster.head_node.instance_type)
    architecture = facts.architecture if facts else "x86_64"
    known = pcluster_subprocess.images(cluster.os, architecture)
    for image, names in users.items():
        if image is None:
            yield _official(context, known, architecture, ", ".join(names))
        else:
            yield _own(context, known, architecture, image, ", ".join(names))


def _official(context: CheckContext, known: pcluster_subprocess.Images, architecture: str, users: str) -> CheckResult:
    # The same search as the package's own: pcluster.aws.ec2, get_official_image_id.
    filters = [{"Name": "name", "Values": [known.pattern]}, {"Name": "state", "Values": ["available"]}]
    found = context.aws.items(
        "ec2", "describe_images", "Images", Owners=["amazon"], Filters=filters, IncludeDeprecated=True
    )
    newest = max(found, key=lambda image: str(image.get("CreationDate", "")), default=None)
    shown = f"{newest['ImageId']} {newest['Name']}" if newest else f"none in {context.environment.region}"
    wanted = f"{known.pattern}, owner amazon: {context.environment.cluster.os}, {architecture}"
    todo = "choose another cluster.os, or build your own image and set its id as ami"
    return judged(f"official image for {users}", _CALL, shown, wanted, ok=newest is not None, todo=todo)


def _own(
    context: CheckContext, known: pcluster_subprocess.Images, architecture: str, image_id: str, users: str
) -> CheckResult:
    subject = f"image {image_id} for {users}"
    wanted = f"available, {architecture}, tag {known.tag} = {known.version}"
    try:
        image = context.aws.call("ec2", "describe_images", ImageIds=[image_id])["Images"][0]
    except (ClientError, IndexError) as error:
        if isinstance(error, ClientError) and not code_of(error).startswith("InvalidAMIID"):
            raise
        todo = "correct the id, share the image with the account, or copy it to the region"
        return judged(subject, _CALL, "no such image here", wanted, ok=False, todo=todo)
    version = next((tag["Value"] for tag in image.get("Tags", []) if tag["Key"] == known.tag), None)
    found = f"{image.get('State')}, {image.get('Architecture')}, "
    found += f"version {version}" if version else f"no tag {known.tag}"
    if image.get("State") != "available" or image.get("Architecture") != architecture:
        return judged(subject, _CALL, found, wanted, ok=False, todo=f"use an available image for {architecture}")
    if version is None:
        todo = f"make sure that it is for ParallelCluster {known.version}; tags of other accounts are not visible"
        return CheckResult(subject, _CALL, found, wanted, Verdict.WARNING, todo)
    todo = f"build it again with ParallelCluster {known.version}"
    return judged(subject, _CALL, found, wanted, ok=version == known.version, todo=todo)
