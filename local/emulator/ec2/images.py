"""The official ParallelCluster images.

They are answers only: from a registered image ministack would try to boot a container.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from ministack.core.responses import get_region
from ministack.services import ec2

from local.emulator.service import ApiError
from local.emulator.wire import matches, read, write

# The official image names: aws-parallelcluster-<version>-<name part>-<architecture>-<build date>. Rocky Linux has
# no official image. Root volumes are 35 GiB, as in the published images.
NAME_PARTS = ("amzn2023-hvm", "ubuntu-2204-lts-hvm", "ubuntu-2404-lts-hvm", "rhel8-hvm", "rhel9-hvm")
ARCHITECTURES = ("x86_64", "arm64")
ROOT_VOLUME_GIB = 35
OWNER = "247102896272"
BUILT = "2026-07-14T09:30:00.000Z"

MISSING: set[str] = set()
"""Patterns of names of official images that the region lacks, as seeds said."""


def official(version: str) -> dict[str, dict[str, Any]]:
    """The official images of a ParallelCluster version in the current region, by image id."""
    found = {}
    for part in NAME_PARTS:
        for architecture in ARCHITECTURES:
            name = f"aws-parallelcluster-{version}-{part}-{architecture}-202607140930"
            if any(fnmatchcase(name, pattern) for pattern in MISSING):
                continue
            image_id = "ami-" + hashlib.sha256(f"{get_region()}/{name}".encode()).hexdigest()[:17]
            found[image_id] = _image(image_id, name, architecture)
    return found


def _image(image_id: str, name: str, architecture: str) -> dict[str, Any]:
    """What ParallelCluster, the preflight and filters read of an image."""
    volume = {"VolumeSize": ROOT_VOLUME_GIB, "VolumeType": "gp3", "SnapshotId": image_id.replace("ami-", "snap-")}
    return {
        "ImageId": image_id,
        "Name": name,
        "Description": name,
        "State": "available",
        "OwnerId": OWNER,
        "ImageOwnerAlias": "amazon",
        "Public": True,
        "Architecture": architecture,
        "RootDeviceName": "/dev/xvda",
        "CreationDate": BUILT,
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": volume}],
    }


def install(version: str) -> Callable[[str], dict[str, Any] | None]:
    """Answer DescribeImages for the official images; everything else stays with ministack.

    Returns the look-up of one image by id, for RunInstances.
    """
    original = ec2._ACTION_MAP["DescribeImages"]

    def describe(params: dict[str, Any]) -> Any:
        request = read("DescribeImages", params)
        ours = official(version)
        ids = request.get("ImageIds", [])
        names = [
            value for wanted in request.get("Filters", []) if wanted["Name"] == "name" for value in wanted["Values"]
        ]
        if not (any(image_id in ours for image_id in ids) or any("aws-parallelcluster" in name for name in names)):
            return original(params)
        owners = set(request.get("Owners", []))
        try:
            found = [
                image
                for image in ours.values()
                if (not ids or image["ImageId"] in ids)
                and (not owners or owners & {OWNER, "amazon"})
                and matches(request, {**image, "OwnerAlias": image["ImageOwnerAlias"], "IsPublic": image["Public"]})
            ]
        except ApiError as error:
            return ec2._error(error.code, error.message, error.status)
        return write("DescribeImages", {"Images": found})

    ec2._ACTION_MAP["DescribeImages"] = describe
    return lambda image_id: official(version).get(image_id)
