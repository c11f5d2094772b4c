"""The head node's boot: user data and cfn-init metadata of ParallelCluster's real template builder, with their
functions resolved by the emulator's CloudFormation; what the AMI brings is imitated (local/slurm/README.md).
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from local.slurm import Laboratory, bootstrap, head_node
from settings import Environment
from settings.model.cluster import Hook
from tests.cluster_config.references import references
from tests.slurm.conftest import ROOT, plan_of, start
from trainyard import cluster_bundle
from trainyard.cluster_config import render

RECIPES = ("init", "config", "finalize")
HANDLE = "https://cloudformation-waitcondition.example/handle"
# What the API does with a configuration: the one with all defaults, which it stores for the nodes; and the template.
BUILD = """
import copy, json, sys
from pcluster.models.s3_bucket import S3Bucket
from pcluster.schemas.cluster_schema import ClusterSchema
from pcluster.templates.cdk_builder import CDKTemplateBuilder
from parallelcluster.account import account_for
from parallelcluster.aws import answered
given = json.load(sys.stdin)
name = given["name"]
with answered(account_for(given["configuration"], given["account"])):
    cluster = ClusterSchema(cluster_name=name).load(given["configuration"])
    stored = ClusterSchema(cluster_name=name).dump(copy.deepcopy(cluster))
    bucket = S3Bucket(service_name=name, stack_name=name, artifact_directory=name, name="cluster-artifacts")
    template, _ = CDKTemplateBuilder().build_cluster_template(cluster, bucket, name)
json.dump([template["Resources"], stored], sys.stdout)
"""
RESOLVE = """
import json, sys
from ministack.core.responses import set_request_region
from ministack.services.cloudformation.engine import _resolve_refs
given = json.load(sys.stdin)
set_request_region(given["region"])
found = _resolve_refs(given["value"], given["resources"], {}, {}, {}, given["name"], given["id"])
json.dump(found, sys.stdout)
"""


def launch_template(environment: Environment, assets_bucket: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """User data, metadata and stored configuration of an environment's head node."""
    name, account, region = environment.cluster_name, environment.account, environment.region
    configuration = json.dumps(render(environment, references(environment))).replace("example-assets", assets_bucket)
    given = {
        "name": name,
        "configuration": json.loads(configuration),
        "account": {"zone_id": environment.network.zone},
    }
    resources, stored = _run("parallelcluster", BUILD, given)
    template = resources["HeadNodeLaunchTemplate"]
    # Without a nested stack's id, the values of its outputs are empty instead of errors.
    existing = [one for one, about in resources.items() if about["Type"] != "AWS::CloudFormation::Stack"]
    ids = {one: HANDLE if "WaitConditionHandle" in one else one.lower() for one in existing}
    request = {
        "region": region,
        "name": name,
        "id": f"arn:aws:cloudformation:{region}:{account}:stack/{name}/1",
        "value": {
            # The argument of Fn::Base64, which EC2 decodes again.
            "user_data": template["Properties"]["LaunchTemplateData"]["UserData"]["Fn::Base64"],
            "metadata": template["Metadata"],
        },
        "resources": {one: {"PhysicalResourceId": physical} for one, physical in ids.items()},
    }
    made: dict[str, Any] = _run("local", RESOLVE, request)
    return made["user_data"], made["metadata"], stored


def _run(project: str, program: str, given: dict[str, Any]) -> Any:  # noqa: ANN401 - as JSON has it
    line = [str(ROOT / project / ".venv" / "bin" / "python"), "-c", program]
    done = subprocess.run(line, cwd=ROOT, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_user_data_runs_the_bootstrap_and_signals(own_lab: Laboratory, tmp_path: Path) -> None:
    plan = plan_of(1)
    template = launch_template(plan.environment, plan.buckets["assets"])
    signals = []

    def prepare() -> None:
        bootstrap.publish(own_lab)
        signals.append(head_node.boot(own_lab, *template))

    start(own_lab, plan, prepare)
    assert signals == [{"Status": "SUCCESS", "Reason": "HeadNode setup complete", "to": HANDLE}]
    log = own_lab.path("/var/log/cfn-init.log").read_text()
    assert re.findall(r"Running config (\S+)", log) == [
        *("deployConfigFiles", "chefPrepEnv", "shellRunPreInstall"),
        *("chefConfig", "shellRunPostInstall", "chefFinalize"),
    ]
    recipes = own_lab.path("/var/log/chef-client.log").read_text().splitlines()
    assert recipes == [f"cinc-client (simulated): aws-parallelcluster-entrypoints::{one}" for one in RECIPES]
    node = json.loads(own_lab.path("/etc/chef/dna.json").read_text())["cluster"]
    assert (node["node_type"], node["region"], node["stack_name"], node["cluster_user"]) == (
        *("HeadNode", plan.environment.region, plan.environment.cluster_name, plan.user),
    )
    # What makes a node a compute node for the bootstrap.
    assert not {"scheduler_queue_name", "scheduler_compute_resource_name"} & set(node)
    ran = own_lab.path("/var/log/trainyard/bootstrap.log").read_text()
    assert ran.count("role head-configured, assets") == ran.count("role head-configured is done") == 1
    commands = own_lab.path("/var/log/cfn-init-cmd.log").read_text()
    first, between, last = (commands.index(words) for words in (RECIPES[1], "role head-configured is done", RECIPES[2]))
    assert first < between < last

    # A hook that fails, and what the stack's event says.
    content = "#!/usr/bin/env bash\necho 'no licence server answers' >&2\nexit 3\n"
    (tmp_path / "licences.sh").write_text(content)
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    failing = Hook(role="head-configured", when="after", script="licences.sh", sha256=sha256)
    failing.read(tmp_path)
    bucket = own_lab.path(f"{bootstrap.BUCKETS}/{plan.buckets['assets']}")
    cluster_bundle.stage(cluster_bundle.build(hooks=(failing,)), bucket)

    signal = head_node.boot(own_lab, *template)
    assert (signal["Status"], signal["to"]) == ("FAILURE", HANDLE)
    message, reason = signal["Reason"].splitlines()
    assert message.startswith("fetch_and_run - Failed to execute OnNodeConfigured script 1, return code: 70. ")
    assert reason == (
        f"trainyard: hook licences.sh of role head-configured on {plan.head.name}: "
        "exit status 3: no licence server answers"
    )
