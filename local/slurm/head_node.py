"""The head node's boot as far as it goes without ParallelCluster's AMI: user data, cfn-init, custom actions.

User data and metadata come from ParallelCluster's own template. `root/head` imitates what the AMI brings (README.md).
LAB_COOKBOOK, a clone of aws/aws-parallelcluster-cookbook, runs its fetch_and_run instead of a stand-in.
"""

from __future__ import annotations

import email
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from local.slurm.bootstrap import BUCKETS, LIMIT_S
from local.slurm.laboratory import Laboratory
from ops.problem import Problem
from trainyard import parallelcluster

FOLDER = "/opt/parallelcluster"
DNA = f"{FOLDER}/tmp/dna.json"  # noqa: S108 - a node's, for root alone
METADATA = "/etc/lab/stack-metadata.json"
INIT = "AWS::CloudFormation::Init"
LAB_COOKBOOK = "LAB_COOKBOOK"
_ENVIRONMENT = "cookbooks/aws-parallelcluster-environment"
_EXECUTOR = f"{_ENVIRONMENT}/files/custom_action_executor/custom_action_executor.py"
_FETCH_AND_RUN = f"{_ENVIRONMENT}/templates/custom_actions/fetch_and_run.erb"
# cloud-init's unit has no User=, so systemd sets none of these (systemd.exec(5), "Environment variables").
_WITHOUT = [word for name in ("HOME", "USER", "LOGNAME", "SHELL") for word in ("-u", name)]


def boot(
    laboratory: Laboratory, user_data: str, metadata: Mapping[str, Any], configuration: Mapping[str, Any]
) -> dict[str, str]:
    """Boot the head node; returns the signal to CloudFormation: Status, Reason, and the address `to` which it goes.

    Args:
        laboratory: a running one, whose assets are published.
        user_data: of the head node's launch template, with its functions resolved, not in base64.
        metadata: of the launch template, as CloudFormation's DescribeStackResource answers it.
        configuration: the cluster's, as the ParallelCluster API keeps it.

    Raises:
        Problem: the user data has a part that the laboratory does not know, or no signal was sent.
    """
    dna = json.loads(metadata[INIT]["deployConfigFiles"]["files"][DNA]["content"])["cluster"]
    stored = laboratory.path(f"{BUCKETS}/{dna['cluster_s3_bucket']}/{dna['cluster_config_s3_key']}")
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.write_text(json.dumps(configuration))
    laboratory.write(METADATA, json.dumps(metadata), user="root")
    laboratory.write(DNA, "{}", user="root")  # the folder is the AMI's
    laboratory.write(
        f"{FOLDER}/.bootstrapped", f"aws-parallelcluster-cookbook-{parallelcluster.version()}\n", user="root"
    )
    if clone := os.environ.get(LAB_COOKBOOK):
        _install(laboratory, Path(clone), dna)
    signal = laboratory.path("/var/log/cfn-signal.json")
    signal.unlink(missing_ok=True)
    log = ""
    for number, part in enumerate(email.message_from_string(user_data).get_payload()):
        kind, text = part.get_content_type(), part.get_payload()
        if not text.strip():
            continue  # after the last boundary
        if kind == "text/cloud-config":
            text = "\n".join(["#!/bin/sh", *yaml.safe_load(text)["bootcmd"], ""])
        elif kind not in ("text/cloud-boothook", "text/x-shellscript"):
            raise Problem(f"the user data has a part of type {kind}; the laboratory knows cloud-config and scripts")
        script = f"/var/lib/cloud/scripts/part-{number:03d}"
        laboratory.write(script, text, user="root", mode=0o700)
        log = laboratory.run(["env", *_WITHOUT, script], user="root", check=False, timeout=LIMIT_S).stderr
    if not signal.is_file():
        raise Problem(f"the head node sent no signal: {log[-2000:]}")
    found: dict[str, str] = json.loads(signal.read_text())
    return found


def _install(laboratory: Laboratory, clone: Path, dna: Mapping[str, Any]) -> None:
    """Put fetch_and_run and its program from a clone of the cookbook in the place of the stand-in."""
    values = {
        "cookbook_virtualenv_path": "/usr/local/lib/lab/cookbook",
        "@cluster_name": dna["stack_name"],
        "@scheduler": dna["scheduler"],
        "node['cluster']['scripts_dir']": f"{FOLDER}/scripts",
        "node['cluster']['cluster_config_path']": f"{FOLDER}/shared/cluster-config.yaml",
        "node['cluster']['etc_dir']": "/etc/parallelcluster",
        **{f"node['cluster']['{name}']": str(value) for name, value in dna.items()},
    }
    script = (clone / _FETCH_AND_RUN).read_text(encoding="utf-8")
    script = re.sub(r"<%= *(.+?) *%>", lambda match: values.get(match[1], ""), script)
    laboratory.write("/etc/parallelcluster/cfnconfig", "", user="root")
    laboratory.write(f"{FOLDER}/scripts/fetch_and_run", script, user="root", mode=0o755)
    program = (clone / _EXECUTOR).read_text(encoding="utf-8")
    laboratory.write(f"{FOLDER}/scripts/custom_action_executor.py", program, user="root", mode=0o755)
