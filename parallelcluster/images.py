"""How the installed package looks for its official images, and how it marks images of its users:

    parallelcluster/.venv/bin/python -m parallelcluster.images OS ARCHITECTURE

Prints a JSON object: `version`; `pattern`, of the official images' names; `tag`, the key of the tag in which an image
names its version. Exit status: 0 answered; 2 wrong use.
"""

from __future__ import annotations

import argparse
import json
import sys

from pcluster.aws.ec2 import Ec2Client
from pcluster.constants import OS_TO_IMAGE_NAME_PART_MAP, PCLUSTER_VERSION_TAG
from pcluster.utils import get_installed_version

parser = argparse.ArgumentParser(prog="python -m parallelcluster.images")
parser.add_argument("os", choices=OS_TO_IMAGE_NAME_PART_MAP)
parser.add_argument("architecture")
options = parser.parse_args()
answer = {
    "version": get_installed_version(),
    "pattern": f"{Ec2Client._get_official_image_name_prefix(options.os, options.architecture)}*",
    "tag": PCLUSTER_VERSION_TAG,
}
json.dump(answer, sys.stdout)
