"""FSx for Lustre, its ties to the buckets, and FSx for OpenZFS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Match

from tests.constructs.stacks_of import Stacks, environment, only, synthesize

LUSTRE: dict[str, Any] = {
    "name": "training",
    "mount": "/fsx",
    "capacity_gib": 2400,
    "throughput": 500,
    "maintenance_window": "2:05:00",
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
        {
            "name": "home",
            "mount": "/home",
            "quota_gib": 100,
            "snapshots": {"every_hours": 6, "keep": 3},
        },
        {"name": "shared", "mount": "/shared", "compression": "zstd"},
    ],
}


@pytest.fixture(scope="module")
def made() -> Stacks:
    return synthesize(environment(storage={"lustre": [LUSTRE], "openzfs": OPENZFS}))


@pytest.fixture(scope="module")
def deleted() -> Stacks:
    return synthesize(
        environment(storage={"lustre": [LUSTRE], "openzfs": OPENZFS}, retention={"file_systems": "delete"})
    )


def file_system(stacks: Stacks, kind: str) -> Mapping[str, Any]:
    return only(stacks.storage, "AWS::FSx::FileSystem", FileSystemType=kind)


def lustre_configuration(**changes: object) -> dict[str, Any]:
    stacks = synthesize(environment(storage={"lustre": [{**LUSTRE, "associations": [], **changes}]}))
    configuration: dict[str, Any] = file_system(stacks, "LUSTRE")["Properties"]["LustreConfiguration"]
    return configuration


def test_lustre_is_persistent_and_of_the_size_and_speed_asked_for(made: Stacks) -> None:
    properties = file_system(made, "LUSTRE")["Properties"]
    assert properties["StorageCapacity"] == 2400
    assert (
        properties["LustreConfiguration"].items()
        >= {
            "DeploymentType": "PERSISTENT_2",
            "PerUnitStorageThroughput": 500,
            "DataCompressionType": "LZ4",
            "EfaEnabled": False,
            "MetadataConfiguration": {"Mode": "AUTOMATIC"},
            "WeeklyMaintenanceStartTime": "2:05:00",
            "AutomaticBackupRetentionDays": 0,
        }.items()
    )


def test_lustre_options() -> None:
    configuration = lustre_configuration(
        compression="none",
        efa=True,
        metadata_iops=12000,
        capacity_gib=38400,
        backups={"days": 3, "window": "03:30"},
    )
    assert (
        configuration.items()
        >= {
            "DataCompressionType": "NONE",
            "EfaEnabled": True,
            "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 12000},
            "AutomaticBackupRetentionDays": 3,
            "DailyAutomaticBackupStartTime": "03:30",
        }.items()
    )


def test_lustre_logs_failed_imports_and_exports_to_a_group_fsx_may_write(made: Stacks) -> None:
    group = only(made.storage, "AWS::Logs::LogGroup", LogGroupName="/aws/fsx/unit-storage")
    assert group["Properties"]["RetentionInDays"] == 14
    log = file_system(made, "LUSTRE")["Properties"]["LustreConfiguration"]["LogConfiguration"]
    assert log["Level"] == "WARN_ERROR"
    # The name of the group, without the ":*" of its streams.
    assert log["Destination"]["Fn::Join"][1][-1]["Ref"].startswith("LustreLogs")


def association(stacks: Stacks, path: str) -> dict[str, Any]:
    properties: dict[str, Any] = only(stacks.data_links, "AWS::FSx::DataRepositoryAssociation", FileSystemPath=path)[
        "Properties"
    ]
    return properties


def test_imports_come_by_themselves_and_at_once(made: Stacks) -> None:
    properties = association(made, "/data")
    assert properties["S3"] == {"AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]}}
    assert properties["BatchImportMetaDataOnCreate"] is True
    assert properties["DataRepositoryPath"]["Fn::Join"][1][-1] == "/data/"


def test_exports_go_out_by_themselves(made: Stacks) -> None:
    properties = association(made, "/out/results")
    assert properties["S3"] == {"AutoExportPolicy": {"Events": ["NEW", "CHANGED"]}}
    assert properties["BatchImportMetaDataOnCreate"] is False


def test_an_association_without_events_is_left_to_the_users(made: Stacks) -> None:
    assert "S3" not in association(made, "/manual")


def test_order_of_associations_does_not_matter(made: Stacks) -> None:
    reversed_lustre = {**LUSTRE, "associations": LUSTRE["associations"][::-1]}
    other = synthesize(environment(storage={"lustre": [reversed_lustre], "openzfs": OPENZFS}))
    assert other.data_links.to_json()["Resources"] == made.data_links.to_json()["Resources"]


def test_openzfs_is_of_the_size_and_speed_asked_for(made: Stacks) -> None:
    properties = file_system(made, "OPENZFS")["Properties"]
    assert properties["StorageCapacity"] == 128
    assert (
        properties["OpenZFSConfiguration"].items()
        >= {
            "DeploymentType": "SINGLE_AZ_HA_2",
            "ThroughputCapacity": 640,
            "AutomaticBackupRetentionDays": 7,
        }.items()
    )


def test_root_volume_is_read_only(made: Stacks) -> None:
    root = file_system(made, "OPENZFS")["Properties"]["OpenZFSConfiguration"]["RootVolumeConfiguration"]
    assert root["ReadOnly"] is True


def test_volumes_have_their_quotas_and_compression(made: Stacks) -> None:
    home = only(made.storage, "AWS::FSx::Volume", Name="home")["Properties"]["OpenZFSConfiguration"]
    shared = only(made.storage, "AWS::FSx::Volume", Name="shared")["Properties"]["OpenZFSConfiguration"]
    assert home["StorageCapacityQuotaGiB"] == 100
    assert shared["DataCompressionType"] == "ZSTD"
    assert "StorageCapacityQuotaGiB" not in shared


def test_nfs_is_exported_to_the_vpc_alone(made: Stacks) -> None:
    exports = [volume["Properties"] for volume in made.storage.find_resources("AWS::FSx::Volume").values()]
    root = file_system(made, "OPENZFS")["Properties"]["OpenZFSConfiguration"]["RootVolumeConfiguration"]
    for configuration in [root, *(export["OpenZFSConfiguration"] for export in exports)]:
        [export] = configuration["NfsExports"]
        assert [client["Clients"] for client in export["ClientConfigurations"]] == ["10.0.0.0/16"]


def test_file_systems_are_kept_by_default(made: Stacks) -> None:
    for kind in ("AWS::FSx::FileSystem", "AWS::FSx::Volume"):
        made.storage.all_resources(kind, {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"})


def test_deletion_is_a_choice_and_a_replacement_still_keeps_the_old_one(deleted: Stacks) -> None:
    for kind in ("AWS::FSx::FileSystem", "AWS::FSx::Volume"):
        deleted.storage.all_resources(kind, {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Retain"})


def test_snapshots_do_not_stop_a_deletion_that_was_asked_for(made: Stacks, deleted: Stacks) -> None:
    options = ["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"]
    deleted.storage.all_resources_properties("AWS::FSx::Volume", {"OpenZFSConfiguration": {"Options": options}})
    made.storage.all_resources_properties("AWS::FSx::Volume", {"OpenZFSConfiguration": {"Options": Match.absent()}})


def test_volumes_with_snapshots_have_a_schedule(made: Stacks) -> None:
    schedule = only(made.storage, "AWS::Scheduler::Schedule")["Properties"]
    assert schedule["ScheduleExpression"] == "rate(6 hours)"
    sent = "".join(part for part in schedule["Target"]["Input"]["Fn::Join"][1] if isinstance(part, str))
    assert '"keep": 3' in sent
    assert "<aws.scheduler.scheduled-time>" in sent


def test_snapshot_function_may_delete_only_what_its_schedule_made(made: Stacks) -> None:
    statements = [
        statement
        for policy in made.storage.find_resources("AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == "fsx:DeleteSnapshot"
    ]
    assert len(statements) == 1
    assert statements[0]["Condition"] == {"StringEquals": {"aws:ResourceTag/trainyard:scheduled-snapshot": "true"}}


def test_without_snapshots_there_is_no_function() -> None:
    storage = synthesize(
        environment(storage={"openzfs": {"capacity_gib": 64, "volumes": [{"name": "home", "mount": "/home"}]}})
    ).storage
    storage.resource_count_is("AWS::Lambda::Function", 0)


def test_volume_names_hold_nothing_that_fsx_refuses() -> None:
    volumes = [{"name": "shared-code", "mount": "/code"}]
    storage = synthesize(environment(storage={"openzfs": {"capacity_gib": 64, "volumes": volumes}})).storage
    assert only(storage, "AWS::FSx::Volume")["Properties"]["Name"] == "shared_code"
