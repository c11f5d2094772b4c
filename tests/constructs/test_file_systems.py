"""FSx for Lustre, its associations with the buckets, and FSx for OpenZFS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Match

from tests.constructs.stacks_of import Stacks, allowed, only, synthesize

pytestmark = pytest.mark.xdist_group("constructs-file-systems")

LUSTRE: dict[str, Any] = {
    "name": "training",
    "mount": "/fsx",
    "capacity_gib": 2400,
    "throughput": 500,
    "associations": [
        {"path": "/data", "bucket": "data", "prefix": "data/"},
        {
            "path": "/out/results",
            "bucket": "checkpoints",
            "prefix": "results/",
            "import_events": [],
            "export_events": ["new", "changed"],
        },
        {"path": "/manual", "bucket": "data", "prefix": "manual/", "import_events": []},
    ],
}
OPENZFS: dict[str, Any] = {
    "capacity_gib": 128,
    "throughput": 640,
    "volumes": [
        {"name": "home", "mount": "/home", "quota_gib": 100, "snapshots": {"every_hours": 6, "keep": 3}},
        {"name": "shared-code", "mount": "/shared", "compression": "zstd"},
    ],
}


@pytest.fixture(scope="module")
def made() -> Stacks:
    return synthesize(storage={"lustre": [LUSTRE], "openzfs": OPENZFS})


def file_system(stacks: Stacks, kind: str) -> Mapping[str, Any]:
    return only(stacks.storage, "AWS::FSx::FileSystem", FileSystemType=kind)


def test_lustre_options() -> None:
    lustre = {
        **LUSTRE,
        "associations": [],
        "compression": "none",
        "efa": True,
        "metadata_iops": 12000,
        "capacity_gib": 38400,
        "backups": {"days": 3, "window": "03:30"},
        "maintenance_window": "2:05:00",
    }
    properties = file_system(synthesize(storage={"lustre": [lustre]}), "LUSTRE")["Properties"]
    assert properties["StorageCapacity"] == 38400
    expected = {
        "DataCompressionType": "NONE",
        "EfaEnabled": True,
        "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 12000},
        "PerUnitStorageThroughput": 500,
        "AutomaticBackupRetentionDays": 3,
        "DailyAutomaticBackupStartTime": "03:30",
        "WeeklyMaintenanceStartTime": "2:05:00",
    }
    assert properties["LustreConfiguration"].items() >= expected.items()


@pytest.mark.parametrize(
    ("deployment", "absent"),
    [
        ("PERSISTENT_1", {"MetadataConfiguration", "EfaEnabled"}),
        (
            "SCRATCH_2",
            {"MetadataConfiguration", "EfaEnabled", "PerUnitStorageThroughput", "AutomaticBackupRetentionDays"},
        ),
    ],
)
def test_older_deployment_types_get_only_their_own_options(deployment: str, absent: set[str]) -> None:
    lustre = {**LUSTRE, "deployment": deployment, "throughput": 200}
    properties = file_system(synthesize(storage={"lustre": [lustre]}), "LUSTRE")["Properties"]
    assert properties["LustreConfiguration"]["DeploymentType"] == deployment
    assert not absent & set(properties["LustreConfiguration"])


def test_lustre_logs_failed_imports_and_exports_to_a_group_fsx_may_write(made: Stacks) -> None:
    only(made.storage, "AWS::Logs::LogGroup", LogGroupName="/aws/fsx/unit-storage", RetentionInDays=14)
    log = file_system(made, "LUSTRE")["Properties"]["LustreConfiguration"]["LogConfiguration"]
    # The name of the group, without the ":*" of its streams.
    assert log["Destination"]["Fn::Join"][1][-1]["Ref"].startswith("LustreLogs")


@pytest.mark.parametrize(
    ("path", "policies", "imports"),
    [
        ("/data", {"AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]}}, True),
        ("/out/results", {"AutoExportPolicy": {"Events": ["NEW", "CHANGED"]}}, False),
        ("/manual", None, False),
    ],
)
def test_associations(made: Stacks, path: str, policies: object, imports: bool) -> None:
    properties = only(made.data_links, "AWS::FSx::DataRepositoryAssociation", FileSystemPath=path)["Properties"]
    assert properties.get("S3") == policies
    assert properties["BatchImportMetaDataOnCreate"] is imports


def test_a_bucket_outside_of_the_environment_is_linked_and_not_changed() -> None:
    links = [{"path": "/in", "bucket": "s3://team-data", "prefix": "sets/"}]
    other = synthesize(storage={"lustre": [{**LUSTRE, "associations": links}], "openzfs": OPENZFS})
    found = only(other.data_links, "AWS::FSx::DataRepositoryAssociation")["Properties"]
    assert found["DataRepositoryPath"] == "s3://team-data/sets/"
    assert "team-data" not in str(other.storage.to_json())


def test_order_of_associations_does_not_matter(made: Stacks) -> None:
    reversed_lustre = {**LUSTRE, "associations": LUSTRE["associations"][::-1]}
    other = synthesize(storage={"lustre": [reversed_lustre], "openzfs": OPENZFS})
    assert other.data_links.to_json()["Resources"] == made.data_links.to_json()["Resources"]


def test_associations_of_one_file_system_wait_for_each_other() -> None:
    other = {**LUSTRE, "name": "other", "mount": "/other", "associations": LUSTRE["associations"][:1]}
    other["associations"] = [{**other["associations"][0], "prefix": "other/"}]
    links = synthesize(storage={"lustre": [LUSTRE, other]}).data_links
    found = links.find_resources("AWS::FSx::DataRepositoryAssociation")
    names = {item["Properties"]["FileSystemPath"]: key for key, item in found.items() if key.startswith("training")}
    training = {key: item.get("DependsOn", []) for key, item in found.items() if key.startswith("training")}
    assert training == {
        names["/data"]: [],
        names["/manual"]: [names["/data"]],
        names["/out/results"]: [names["/manual"]],
    }
    # File systems do not wait for each other.
    assert [item.get("DependsOn", []) for key, item in found.items() if key.startswith("other")] == [[]]


def test_openzfs_options(made: Stacks) -> None:
    properties = file_system(made, "OPENZFS")["Properties"]
    assert (properties["StorageCapacity"], properties["OpenZFSConfiguration"]["ThroughputCapacity"]) == (128, 640)
    home, shared = (
        # FSx takes no hyphen in names.
        only(made.storage, "AWS::FSx::Volume", Name=name)["Properties"]["OpenZFSConfiguration"]
        for name in ("home", "shared_code")
    )
    assert home["StorageCapacityQuotaGiB"] == 100
    assert shared["DataCompressionType"] == "ZSTD"
    assert "StorageCapacityQuotaGiB" not in shared


def test_nfs_is_exported_to_the_vpc_alone(made: Stacks) -> None:
    exports = [volume["Properties"] for volume in made.storage.find_resources("AWS::FSx::Volume").values()]
    root = file_system(made, "OPENZFS")["Properties"]["OpenZFSConfiguration"]["RootVolumeConfiguration"]
    for configuration in [root, *(export["OpenZFSConfiguration"] for export in exports)]:
        [export] = configuration["NfsExports"]
        assert [client["Clients"] for client in export["ClientConfigurations"]] == ["10.0.0.0/16"]


def test_deletion_is_a_choice_and_a_replacement_still_keeps_the_old_one(made: Stacks) -> None:
    deleted = synthesize(storage={"lustre": [LUSTRE], "openzfs": OPENZFS}, retention={"file_systems": "delete"})
    for stacks, policy in ((made, "RetainExceptOnCreate"), (deleted, "Delete")):
        for kind in ("AWS::FSx::FileSystem", "AWS::FSx::Volume"):
            stacks.storage.all_resources(kind, {"DeletionPolicy": policy, "UpdateReplacePolicy": "Retain"})
    # Snapshots would block a deletion.
    for stacks, options in ((made, Match.absent()), (deleted, ["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"])):
        stacks.storage.all_resources_properties("AWS::FSx::Volume", {"OpenZFSConfiguration": {"Options": options}})


def test_volumes_with_snapshots_have_a_schedule(made: Stacks) -> None:
    schedule = only(made.storage, "AWS::Scheduler::Schedule")["Properties"]
    assert schedule["ScheduleExpression"] == "rate(6 hours)"
    sent = "".join(part for part in schedule["Target"]["Input"]["Fn::Join"][1] if isinstance(part, str))
    assert '"keep": 3' in sent
    assert "<aws.scheduler.scheduled-time>" in sent
    [deletion] = allowed(made.storage)["fsx:DeleteSnapshot"]
    assert deletion["Condition"] == {"StringEquals": {"aws:ResourceTag/trainyard:scheduled-snapshot": "true"}}


def test_without_snapshots_there_is_no_function() -> None:
    openzfs = {"capacity_gib": 64, "volumes": [{"name": "home", "mount": "/home"}]}
    synthesize(storage={"openzfs": openzfs}).storage.resource_count_is("AWS::Lambda::Function", 0)
