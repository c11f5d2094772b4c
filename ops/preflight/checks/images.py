"""The nodes' images: ParallelCluster's own for the operating system, or the ids that the file names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops import pcluster_subprocess
from ops.preflight.aws import code_of
from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question
from settings.instances import instance_types

CHECK = "images"
_ASKED = "ec2:DescribeImages"


def check(question: Question) -> Iterator[Line]:
    """The official image where some node takes it, and each image of one's own."""
    cluster = question.environment.cluster
    users: dict[str | None, list[str]] = defaultdict(list)
    users[cluster.head_node.ami].append("head node")
    for queue in cluster.queues:
        users[queue.ami].append(f"queue {queue.name}")
    facts = instance_types().get(cluster.head_node.instance_type)
    architecture = facts.architecture if facts else "x86_64"
    known = pcluster_subprocess.images(cluster.os, architecture)
    for image, names in users.items():
        told = ", ".join(names)
        yield (
            _official(question, known, architecture, told)
            if image is None
            else _own(question, known, architecture, image, told)
        )


def _official(question: Question, known: pcluster_subprocess.Images, architecture: str, users: str) -> Line:
    os_name = question.environment.cluster.os
    # As the package itself looks: pcluster.aws.ec2, get_official_image_id.
    found = list(
        question.aws.items(
            "ec2",
            "describe_images",
            "Images",
            Owners=["amazon"],
            Filters=[{"Name": "name", "Values": [known.pattern]}, {"Name": "state", "Values": ["available"]}],
            IncludeDeprecated=True,
        )
    )
    newest = max(found, key=lambda image: str(image.get("CreationDate", "")), default=None)
    return Line(
        CHECK,
        f"official image for {users}",
        _ASKED,
        f"{newest['ImageId']} {newest['Name']}" if newest else f"none in {question.environment.region}",
        f"{known.pattern}, owner amazon: {os_name}, {architecture}",
        Verdict.OK if newest else Verdict.FAULT,
        "" if newest else "take another cluster.os, or build an image of your own and name it as ami",
    )


def _own(question: Question, known: pcluster_subprocess.Images, architecture: str, image_id: str, users: str) -> Line:
    wanted = f"available, {architecture}, tag {known.tag} = {known.version}"
    try:
        images = question.aws.call("ec2", "describe_images", ImageIds=[image_id])["Images"]
    except ClientError as error:
        if not code_of(error).startswith("InvalidAMIID"):
            raise
        images = []
    subject = f"image {image_id} for {users}"
    if not images:
        todo = "correct the id, share the image with the account, or copy it to the region"
        return Line(CHECK, subject, _ASKED, "no such image here", wanted, Verdict.FAULT, todo)
    image = images[0]
    version = next((tag["Value"] for tag in image.get("Tags", []) if tag["Key"] == known.tag), None)
    found = f"{image.get('State')}, {image.get('Architecture')}, " + (
        f"version {version}" if version else f"no tag {known.tag}"
    )
    if image.get("State") != "available" or image.get("Architecture") != architecture:
        return Line(CHECK, subject, _ASKED, found, wanted, Verdict.FAULT, "take an image that is")
    if version is None:
        todo = f"make sure that it was built for ParallelCluster {known.version}; tags of others' images do not show"
        return Line(CHECK, subject, _ASKED, found, wanted, Verdict.WARNING, todo)
    right = version == known.version
    todo = "" if right else f"build it again with ParallelCluster {known.version}"
    return Line(CHECK, subject, _ASKED, found, wanted, Verdict.OK if right else Verdict.FAULT, todo)
