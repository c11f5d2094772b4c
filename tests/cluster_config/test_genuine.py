"""The real ParallelCluster package on rendered configurations: schema, validators, template builder.

All configurations go through one process of parallelcluster/.venv (`make setup` makes it): its imports are slow.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from settings import Environment
from settings.rules.parallelcluster import known_keys
from tests.cluster_config.bad_configurations import BAD
from tests.cluster_config.builder import GPU, environment
from tests.cluster_config.references import environments, references
from tests.settings.conftest import apply_edits
from trainyard.cluster_config import render

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "parallelcluster" / ".venv" / "bin" / "python"

# One process for all: under xdist the tests that share it go to one worker.
pytestmark = pytest.mark.xdist_group("genuine-parallelcluster")

EXPECTED_WARNINGS = {
    # Session Manager needs no key pair.
    "KeyPairValidator": "If you do not specify a key pair",
    # The reservation decides the placement of its instances; the warning is for ODCRs without a placement group.
    "EfaPlacementGroupValidator": "This is expected when using a capacity reservation with its own placement group",
    # Asked for in the file: monitoring.detailed.
    "DetailedMonitoringValidator": "Detailed Monitoring is enabled",
}

FEATURES: dict[str, Environment] = {
    "own-database": environment(cluster={"slurm": {"accounting": True}}),
    "every-feature": environment(
        people={
            "directory": {
                "domain": "dc=corp,dc=example,dc=com",
                "address": "ldaps://ldap.corp.example.com:636,ldaps://ldap2.corp.example.com",
                "read_user": "cn=reader,dc=corp,dc=example,dc=com",
                "password_secret_arn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:ldap-abcdef",
                "ca_certificate": "/etc/ssl/certs/ca-certificates.crt",
                "access_filter": "(memberOf=cn=cluster,dc=corp,dc=example,dc=com)",
                "sssd": {"ldap_schema": "rfc2307", "ldap_id_mapping": False, "entry_cache_timeout": 300},
            }
        },
        teams=[{"name": "nlp", "share": 2}, {"name": "vision"}],
        qos=[{"name": "urgent", "preempts": ["normal"]}],
        storage={
            "lustre": [{"name": "data", "mount": "/fsx1", "capacity_gib": 1200}],
            "openzfs": {"capacity_gib": 64, "volumes": [{"name": "home", "mount": "/home"}]},
        },
        cluster={
            "os": "ubuntu2404",
            "head_node": {"subnet": "public", "key_name": "operators", "ami": "ami-0123456789abcdef0"},
            "login_nodes": {"count": 11, "subnet": "public"},
            "permissions_boundary": "arn:aws:iam::123456789012:policy/boundary",
            "slurm": {
                "memory_scheduling": True,
                "scaling": "greedy-all-or-nothing",
                "queue_update": "TERMINATE",
                "settings": {"MessageTimeout": 60, "SchedulerParameters": "bf_continue"},
                "accounting": {
                    "uri": "db.example.com:3306",
                    "user": "slurm",
                    "password_secret_arn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:slurm-abcdef",
                    "database": "jobs",
                },
            },
            "queues": [
                {
                    "name": "block",
                    "capacity": {"type": "capacity-block", "reservation": "cr-0123456789abcdef0"},
                    "compute": [{**GPU, "min": 2, "max": 2}],
                },
                {
                    "name": "group",
                    "capacity": {
                        "type": "odcr",
                        "reservation_group": "arn:aws:resource-groups:us-east-1:123456789012:group/odcr",
                    },
                    "ami": "ami-0123456789abcdef1",
                    "compute": [{**GPU, "name": "p5-odcr"}],
                },
                {
                    "name": "spot",
                    "capacity": {"type": "spot"},
                    "compute": [{"name": "c7i-c6i", "instance_types": ["c7i.xlarge", "c6i.xlarge"], "max": 10}],
                },
            ],
        },
    ),
    # Without a way out there is no Route 53 either: names come from EC2.
    "endpoints-only": environment(
        network={"zone": "use1-az4", "egress": "endpoints-only"},
        storage={"lustre": [{"name": "data", "mount": "/fsx", "capacity_gib": 1200}]},
        cluster={"queues": [{"name": "gpu", "compute": [GPU]}], "login_nodes": {"count": 1}},
    ),
}

OWN_ACCESS = {
    "policies": [
        "arn:aws:iam::123456789012:policy/parallelcluster/team",
        "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess",
    ],
    "security_groups": ["sg-0123456789abcdef0"],
}
# Every key for what an environment file cannot describe.
FEATURES["open-shape"] = environment(
    storage={
        "lustre": [{"name": "data", "mount": "/fsx", "capacity_gib": 1200}],
        "existing": [
            {"name": "old", "mount": "/old", "id": "fs-0123456789abcdef0"},
            {"name": "homes", "mount": "/home", "id": "fsvol-0123456789abcdef0"},
        ],
    },
    cluster={
        "queues": [{"name": "gpu", "compute": [GPU], **OWN_ACCESS}],
        "login_nodes": {"count": 1, **OWN_ACCESS},
        "head_node": OWN_ACCESS,
    },
    parallelcluster={
        "HeadNode": {"DisableSimultaneousMultithreading": True, "Ssh": {"AllowedIps": "10.0.0.0/8"}},
        "LoginNodes": {"Pools": [{"Name": "login", "Ssh": {"AllowedIps": "10.0.0.0/8"}}]},
        "Scheduling": {
            "SlurmSettings": {"Dns": {"UseEc2Hostnames": True, "DisableManagedDns": True}},
            "SlurmQueues": [{"Name": "gpu", "ComputeResources": [{"Name": "p5", "StaticNodePriority": 5}]}],
        },
        "DeploymentSettings": {"DefaultUserHome": "Local"},
        "DevSettings": {"Timeouts": {"HeadNodeBootstrapTimeout": 2400}},
    },
)

GOOD = {**environments(), **FEATURES}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the check says of each configuration."""
    folder = tmp_path_factory.mktemp("configurations")
    account: dict[str, Any] = {}
    for name, built in GOOD.items():
        account[name] = {"zone_id": built.network.zone}
        if built.cluster.head_node.subnet == "public":
            account[name]["public_subnet_ids"] = ["subnet-public00000000000"]
        _write(folder, name, render(built, references(built)))
    local = GOOD["local"]
    for name, bad in BAD.items():
        configuration = json.loads(json.dumps(render(local, references(local))))
        apply_edits(configuration, bad.edits)
        account[name] = {"zone_id": local.network.zone, **bad.account}
        _write(folder, name, configuration)
    (folder / "account").write_text(json.dumps(account), "utf-8")
    files = sorted(str(path) for path in folder.glob("*.json"))
    done = _check(*files, "--account", str(folder / "account"))
    assert done.returncode == 1 and done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _write(folder: Path, name: str, configuration: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps(configuration), "utf-8")


def _check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PYTHON), "-m", "parallelcluster.check", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", GOOD)
def test_good_configurations_pass(reports: dict[str, Any], name: str) -> None:
    report = reports[name]
    assert report["schema"] == {}
    assert [message for message in report["messages"] if message["level"] == "ERROR"] == []
    assert report["ok"]


@pytest.mark.parametrize("name", GOOD)
def test_no_warning_comes_unexpected(reports: dict[str, Any], name: str) -> None:
    unexpected = [
        message
        for message in reports[name]["messages"]
        if EXPECTED_WARNINGS.get(message["type"], "\0") not in message["message"]
    ]
    assert unexpected == []


@pytest.mark.parametrize("name", GOOD)
def test_the_template_has_the_cluster(reports: dict[str, Any], name: str) -> None:
    cluster = GOOD[name].cluster
    resources = reports[name]["resources"]
    nodes = sum(len(queue.compute) for queue in cluster.queues) + (1 if cluster.login_nodes else 0)
    assert resources["AWS::EC2::LaunchTemplate"] == 1 + nodes
    assert resources["AWS::CloudFormation::WaitCondition"] >= 1
    assert resources.get("AWS::CloudWatch::Dashboard", 0) == int(cluster.monitoring.dashboard)


@pytest.mark.parametrize("name", BAD)
def test_bad_configurations_fail(reports: dict[str, Any], name: str) -> None:
    bad, report = BAD[name], reports[name]
    assert not report["ok"]
    assert report["resources"] == {}
    if bad.validator is None:
        assert bad.says in json.dumps(report["schema"])
    else:
        errors = [m["message"] for m in report["messages"] if (m["level"], m["type"]) == ("ERROR", bad.validator)]
        assert any(bad.says in error for error in errors), report["messages"]


def test_the_rules_know_the_keys_of_the_pinned_package() -> None:
    """After a new version: the command in parallelcluster/keys.py."""
    done = subprocess.run([str(PYTHON), "-m", "parallelcluster.keys"], cwd=ROOT, capture_output=True, check=True)
    assert json.loads(done.stdout) == known_keys()


@pytest.mark.parametrize("name", GOOD)
def test_the_keys_of_every_configuration_are_known(name: str) -> None:
    def strange(given: Any, wanted: Any) -> list[str]:  # noqa: ANN401 - JSON
        if isinstance(given, dict) and isinstance(wanted, dict):
            return [key for key, value in given.items() if key not in wanted or strange(value, wanted[key])]
        return [key for item in given for key in strange(item, wanted[0])] if isinstance(given, list) else []

    assert strange(render(GOOD[name], references(GOOD[name])), known_keys()) == []


def test_wrong_use_has_its_own_messages(tmp_path: Path) -> None:
    _write(tmp_path, "cluster", {"Image": {"Os": "ubuntu2204"}})
    (tmp_path / "other").write_text(json.dumps({"another": {}}), "utf-8")
    configuration = str(tmp_path / "cluster.json")
    for arguments, message in (
        ([str(tmp_path / "absent.json")], "cannot be read"),
        ([configuration, "--account", str(tmp_path / "other")], "names another; allowed are cluster"),
        ([configuration], "has no Region"),
    ):
        done = _check(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
