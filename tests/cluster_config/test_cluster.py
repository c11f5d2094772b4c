"""Everything but queues as it is rendered. The goldens show what the shipped environments set."""

from __future__ import annotations

import pytest

from tests.cluster_config.builder import environment, rendered
from tests.cluster_config.references import ENTRY_SCRIPT
from trainyard.cluster_config.rendering import LONG_GPU_CHECK, merged
from trainyard.cluster_settings import cluster_settings

HEALTH_CHECK = [
    {"HealthCheckProgram": "/opt/trainyard/current/scans/node-health.sh"},
    {"HealthCheckInterval": "300"},
    {"HealthCheckNodeState": "ANY,CYCLE"},
]
STORAGE = {
    "lustre": [{"name": "data", "mount": "/fsx1", "capacity_gib": 1200}],
    "openzfs": {"capacity_gib": 64, "volumes": [{"name": "home", "mount": "/home"}]},
}


def test_head_node() -> None:
    default = rendered()["HeadNode"]
    own = {"key_name": "operators", "ami": "ami-0123456789abcdef0"}
    head = rendered(cluster={"head_node": own, "os": "alinux2023"}, tags={"a": "b"})["HeadNode"]
    assert head["Ssh"] == {"AllowedIps": "127.0.0.1/32", "KeyName": "operators"}
    assert head["Image"] == {"CustomAmi": "ami-0123456789abcdef0"}
    # They can never change while the cluster exists.
    assert head["CustomActions"] == default["CustomActions"]
    assert "Image" not in default


@pytest.mark.parametrize(
    ("region", "partition"), [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_session_manager_comes_in_the_partition_of_the_region(region: str, partition: str) -> None:
    assert rendered(region=region)["HeadNode"]["Iam"]["AdditionalIamPolicies"] == [
        {"Policy": f"arn:{partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"},
        {"Policy": "arn:aws:iam::123456789012:policy/parallelcluster-head"},
    ]


def test_login_nodes() -> None:
    login = {"name": "front", "count": 2, "subnet": "public", "grace_minutes": 5}
    assert rendered(cluster={"login_nodes": login})["LoginNodes"] == {
        "Pools": [
            {
                "Name": "front",
                "InstanceType": "m7i.xlarge",
                "Count": 2,
                "GracetimePeriod": 5,
                "Networking": {
                    "SubnetIds": ["subnet-public00000000000"],
                    "AdditionalSecurityGroups": ["sg-login000000000000"],
                },
                "Ssh": {"AllowedIps": "127.0.0.1/32"},
                "CustomActions": {
                    "OnNodeConfigured": {
                        "Script": ENTRY_SCRIPT,
                        "Args": ["example-assets", "login-configured", "us-east-1"],
                    }
                },
                "Iam": {
                    "AdditionalIamPolicies": [
                        {"Policy": "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"},
                        {"Policy": "arn:aws:iam::123456789012:policy/parallelcluster-login"},
                    ]
                },
            }
        ]
    }


def test_slurm_settings() -> None:
    slurm = {
        "scaledown_minutes": 30,
        "memory_scheduling": True,
        "queue_update": "TERMINATE",
        "scaling": "best-effort",
        "settings": {"SlurmctldTimeout": 300, "MessageTimeout": "60"},
    }
    scheduling = rendered(cluster={"slurm": slurm})["Scheduling"]
    assert scheduling["ScalingStrategy"] == "best-effort"
    assert scheduling["SlurmSettings"] == {
        "ScaledownIdletime": 30,
        "QueueUpdateStrategy": "TERMINATE",
        "EnableMemoryBasedScheduling": True,
        "CustomSlurmSettings": [{"SlurmctldTimeout": "300"}, {"MessageTimeout": "60"}, *HEALTH_CHECK],
    }


def test_nodes_check_their_health_unless_the_file_says_otherwise() -> None:
    assert rendered()["Scheduling"]["SlurmSettings"]["CustomSlurmSettings"] == HEALTH_CHECK
    own = rendered(cluster={"slurm": {"settings": {"healthcheckinterval": 0}}})["Scheduling"]["SlurmSettings"]
    assert own["CustomSlurmSettings"] == [
        {"healthcheckinterval": "0"},
        *(one for one in HEALTH_CHECK if "HealthCheckInterval" not in one),
    ]


@pytest.mark.parametrize(
    ("instance_type", "queue", "settings", "expected"),
    [
        ("p5.48xlarge", {}, {}, LONG_GPU_CHECK),
        ("g5.48xlarge", {}, {}, LONG_GPU_CHECK),
        ("g5.8xlarge", {}, {}, {}),
        ("p5.48xlarge", {"gpu_health_check": False}, {}, {}),
        ("p5.48xlarge", {}, {"batchstarttimeout": 900}, LONG_GPU_CHECK | {"BatchStartTimeout": "900"}),
    ],
)
def test_slurm_waits_for_the_check_of_eight_gpus(
    instance_type: str, queue: dict[str, object], settings: dict[str, int], expected: dict[str, str]
) -> None:
    compute = [{"name": "gpu", "instance_types": [instance_type], "max": 2}]
    queues = [{"name": "gpu", "compute": compute, **queue}]
    scheduling = rendered(cluster={"queues": queues, "slurm": {"settings": settings}})["Scheduling"]
    found = {k.lower(): v for one in scheduling["SlurmSettings"]["CustomSlurmSettings"] for k, v in one.items()}
    names = {name.lower(): name for name in LONG_GPU_CHECK}
    assert {names[name]: value for name, value in found.items() if name in names} == expected


def test_an_own_database_counts_gpus() -> None:
    """The parameter comes and goes with the database: slurmctld refuses it without slurmdbd."""
    for accounting, expected in ((True, ["gres/gpu"]), (False, []), (None, [])):
        settings = rendered(cluster={"slurm": {"accounting": accounting}})["Scheduling"]["SlurmSettings"]
        custom = [
            item["AccountingStorageTRES"] for item in settings["CustomSlurmSettings"] if "AccountingStorageTRES" in item
        ]
        assert custom == expected
        assert ("Database" in settings) is bool(expected)


def test_accounting() -> None:
    secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:slurm"
    accounting = {"uri": "db.example.com:3306", "user": "slurm", "password_secret_arn": secret}
    settings = rendered(cluster={"slurm": {"accounting": {**accounting, "database": "jobs"}}})["Scheduling"]
    assert settings["SlurmSettings"]["Database"] == {
        "Uri": "db.example.com:3306",
        "UserName": "slurm",
        "PasswordSecretArn": secret,
        "DatabaseName": "jobs",
    }


def test_a_directory_is_parallelclusters_own() -> None:
    directory = {
        "domain": "corp.example.com",
        "address": "ldaps://ldap.corp.example.com",
        "read_user": "cn=reader,dc=corp",
        "password_secret_arn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:ldap",
        "access_filter": "(a=b)",
        "sssd": {"ldap_schema": "rfc2307"},
    }
    assert "DirectoryService" not in rendered()
    assert rendered(people={"directory": directory})["DirectoryService"] == {
        "DomainName": "corp.example.com",
        "DomainAddr": "ldaps://ldap.corp.example.com",
        "PasswordSecretArn": directory["password_secret_arn"],
        "DomainReadOnlyUser": "cn=reader,dc=corp",
        "LdapTlsReqCert": "hard",
        "GenerateSshKeysForUsers": True,
        "LdapAccessFilter": "(a=b)",
        "AdditionalSssdConfigs": {"ldap_schema": "rfc2307"},
    }


def test_monitoring_keeps_logs_as_the_environment_says() -> None:
    monitoring = {"detailed": True, "log_days": 30, "dashboard": False, "alarms": False}
    assert rendered(cluster={"monitoring": monitoring}, retention={"logs": "delete"})["Monitoring"] == {
        "DetailedMonitoring": True,
        "Logs": {"CloudWatch": {"Enabled": True, "RetentionInDays": 30, "DeletionPolicy": "Delete"}},
        "Dashboards": {"CloudWatch": {"Enabled": False}},
        "Alarms": {"Enabled": False},
    }
    assert rendered()["Monitoring"]["Logs"]["CloudWatch"]["DeletionPolicy"] == "Retain"


def test_file_systems_by_id_without_other_keys() -> None:
    assert rendered(storage=STORAGE)["SharedStorage"] == [
        {
            "Name": "data",
            "MountDir": "/fsx1",
            "StorageType": "FsxLustre",
            "FsxLustreSettings": {"FileSystemId": "fs-data0000000000000"},
        },
        {
            "Name": "home",
            "MountDir": "/home",
            "StorageType": "FsxOpenZfs",
            "FsxOpenZfsSettings": {"VolumeId": "fsvol-00000000000000000"},
        },
    ]


def test_tags_are_sorted() -> None:
    assert rendered(tags={"team": "ml", "cost": "42"})["Tags"] == [
        {"Key": "cost", "Value": "42"},
        {"Key": "team", "Value": "ml"},
        {"Key": "trainyard:environment", "Value": "small"},
    ]


def test_keys_of_parallelclusters_own_are_merged_last() -> None:
    efs = {"Name": "efs", "MountDir": "/efs", "StorageType": "Efs", "EfsSettings": {"FileSystemId": "fs-1"}}
    queue = {"Name": "cpu", "AllocationStrategy": "prioritized", "ComputeResources": [{"Name": "c7i", "SpotPrice": 3}]}
    plain = rendered(storage=STORAGE)
    changed = rendered(
        storage=STORAGE,
        parallelcluster={
            "HeadNode": {"Ssh": {"AllowedIps": "10.0.0.0/8"}},
            "Scheduling": {"SlurmQueues": [queue]},
            "SharedStorage": [efs],
            "DeploymentSettings": {"DefaultUserHome": "Local"},
        },
    )
    assert changed["SharedStorage"] == [*plain["SharedStorage"], efs]
    assert changed["DeploymentSettings"] == {"DefaultUserHome": "Local"}
    assert changed["HeadNode"] == plain["HeadNode"] | {"Ssh": {"AllowedIps": "10.0.0.0/8"}}
    [before], [after] = (side["Scheduling"]["SlurmQueues"] for side in (plain, changed))
    computes = [before["ComputeResources"][0] | {"SpotPrice": 3}]
    assert after == before | {"AllocationStrategy": "prioritized", "ComputeResources": computes}


def test_other_lists_replace() -> None:
    assert merged({"Ids": ["a", "b"], "Kept": 1}, {"Ids": ["c"]}) == {"Ids": ["c"], "Kept": 1}


def test_further_policies_and_security_groups_follow_our_own() -> None:
    core = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
    own = {"policies": ["arn:aws:iam::123456789012:policy/parallelcluster-x", core], "security_groups": ["sg-01234567"]}
    head = rendered(cluster={"head_node": own})["HeadNode"]
    policies = [item["Policy"].rpartition("/")[2] for item in head["Iam"]["AdditionalIamPolicies"]]
    assert policies == ["AmazonSSMManagedInstanceCore", "parallelcluster-head", "parallelcluster-x"]
    assert head["Networking"]["AdditionalSecurityGroups"] == ["sg-head0000000000000", "sg-01234567"]


def test_existing_file_systems_are_mounted_by_their_ids() -> None:
    ids = {"fsx": "fs-0123456789abcdef0", "homes": "fsvol-0123456789abcdef0"}
    existing = [{"name": name, "mount": f"/{name}", "id": value} for name, value in ids.items()]
    lustre, openzfs = rendered(storage={"existing": existing})["SharedStorage"]
    assert lustre["FsxLustreSettings"] == {"FileSystemId": ids["fsx"]}
    assert openzfs["FsxOpenZfsSettings"] == {"VolumeId": ids["homes"]}
    built = environment(storage={"existing": existing})
    names = {"data_bucket": "d", "checkpoints_bucket": "c", "assets_bucket": "a"}
    given = cluster_settings(built, repository_uris={r.name: "u" for r in built.images.repositories}, **names)
    assert given["mounts"] == [
        {"name": "fsx", "path": "/fsx", "type": "lustre"},
        {"name": "homes", "path": "/homes", "type": "openzfs"},
    ]
    assert given["bases"] == {"lustre": "/fsx", "shared": "/homes"}
