"""The figures that the rules take from elsewhere: the tables of data, and ParallelCluster's own constants."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import settings
from settings.instances import instance_types, region_families
from settings.rules import compute, file_systems, names, slurm
from settings.rules.network import ENDPOINTS, RESERVED_BY_AWS, address_needs, zone_prefix

ROOT = Path(settings.__file__).parent.parent
PCLUSTER = ROOT / "parallelcluster" / ".venv" / "bin" / "python"

ASK = """
import json
import re
from pcluster import constants as c
from pcluster.validators import cluster_validators as v, slurm_settings_validator as s
from pcluster.aws.common import AWSClientError
import inspect, re
source = inspect.getsource(v.SharedStorageMountDirValidator)
folders = re.findall(r'"(/[^"]*)"', source.split("reserved_directories")[1])
deny = s.SLURM_SETTINGS_DENY_LIST["SlurmConf"]
print(json.dumps(dict(
    accounting_name=c.PCLUSTER_NAME_MAX_LENGTH_SLURM_ACCOUNTING, name=c.PCLUSTER_NAME_MAX_LENGTH,
    queue_name=v.NAME_MAX_LENGTH, storage_name=v.SHARED_STORAGE_NAME_MAX_LENGTH, queues=c.MAX_NUMBER_OF_QUEUES,
    compute=c.MAX_NUMBER_OF_COMPUTE_RESOURCES_PER_CLUSTER, fsx=c.MAX_EXISTING_STORAGE_COUNT["fsx"],
    lustre=c.FSX_SSD_THROUGHPUT,
    folders=[f for f in folders if len(f) > 1], deny=deny["Global"], deny_accounting=deny["Accounting"],
    oses=c.SUPPORTED_OSES, private=c.PRIVATE_OSES)))
"""


def test_the_figures_are_those_of_the_pinned_parallelcluster() -> None:
    done = subprocess.run([PCLUSTER, "-W", "ignore", "-c", ASK], capture_output=True, text=True, check=True)
    its = json.loads(done.stdout)
    schema = settings.Environment.model_json_schema()["$defs"]
    cluster = schema["Cluster"]["properties"]
    assert its["accounting_name"] == names.MAX_CLUSTER_NAME_WITH_ACCOUNTING
    assert its["name"] == cluster["name"]["anyOf"][0]["maxLength"]
    assert its["queue_name"] == schema["Queue"]["properties"]["name"]["maxLength"]
    assert its["queue_name"] == schema["Compute"]["properties"]["name"]["maxLength"]
    assert its["storage_name"] == schema["Lustre"]["properties"]["name"]["maxLength"]
    assert its["queues"] == cluster["queues"]["maxItems"]
    assert its["compute"] == compute.MAX_COMPUTE_RESOURCES
    assert its["fsx"] == file_systems.MAX_EXISTING
    persistent = {name: list(tiers) for name, tiers in file_systems.LUSTRE_MB_S.items() if name != "SCRATCH_2"}
    assert its["lustre"] == persistent
    assert set(its["deny"]) == slurm.DENIED
    assert set(its["deny_accounting"]) == slurm.DENIED_WITH_ACCOUNTING
    assert set(its["oses"]) == set(cluster["os"]["enum"])
    assert all(os.startswith("rocky") for os in its["private"])
    allowed = [f for f in its["folders"] if f not in file_systems.RESERVED and not f.startswith(file_systems.SEALED)]
    assert allowed == []


def test_the_types_that_matter_are_as_aws_states_them() -> None:
    types = instance_types()
    p5 = types["p5.48xlarge"]
    assert (p5.vcpus, p5.memory_mib, p5.gpus, p5.gpu, p5.efa_interfaces) == (192, 2048 * 1024, 8, "H100", 32)
    assert types["p5e.48xlarge"].gpu == types["p5en.48xlarge"].gpu == "H200"
    assert types["p5en.48xlarge"].efa_interfaces == 16
    assert types["g5.8xlarge"].gpus == 1
    assert not types["c7i.xlarge"].efa_interfaces
    assert types["m7g.xlarge"].architecture == "arm64"
    assert types["m7i.xlarge"].architecture == "x86_64"
    assert not any(name.startswith("mac") for name in types)


def test_addresses_that_a_cluster_needs(edit: Callable[[Mapping[str, object]], Path]) -> None:
    for efa, addresses_of_a_node in ((True, 1), (False, 32)):
        environment = settings.load(edit({"cluster.login_nodes.count": 3, "cluster.queues.0.compute.0.efa": efa}))
        assert address_needs(environment) == {
            "compute nodes": 4 * addresses_of_a_node + 2,
            "head node": 1,
            "login nodes and their load balancer": 4,
            "Lustre servers": 2 + 3,
            "OpenZFS": 1,
            "accounting database": 0,
            "monitoring host": 0,
            "endpoints": ENDPOINTS,
            "reserved by AWS": RESERVED_BY_AWS,
        }


@pytest.mark.parametrize(
    ("region", "prefix"),
    [
        ("us-east-1", "use1"),
        ("us-west-2", "usw2"),
        ("ap-southeast-3", "apse3"),
        ("ap-northeast-1", "apne1"),
        ("eu-central-1", "euc1"),
        ("eu-south-2", "eus2"),
        ("us-gov-west-1", "usgw1"),
        ("us-est-1", None),
        ("us--1", None),
    ],
)
def test_zone_ids_begin_as_their_region_is_called(region: str, prefix: str | None) -> None:
    assert zone_prefix(region) == prefix


def test_every_known_region_has_a_zone_prefix() -> None:
    assert [region for region in region_families() if zone_prefix(region) is None] == []
