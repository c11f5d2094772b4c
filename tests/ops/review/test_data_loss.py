"""Data that a change in place lets expire: each kind of retention lowered, which is destructive, and raised."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from ops.review.cluster import Cluster, Outcome
from ops.review.data_loss import data_disposition, expirations, is_shorter
from ops.review.resources import changes
from ops.review.stacks import Stack
from ops.review.verdict import Level, Verdict

BUCKET, REPOSITORY, LOGS = "AWS::S3::Bucket", "AWS::ECR::Repository", "AWS::Logs::LogGroup"
FILE_SYSTEM, SCHEDULE = "AWS::FSx::FileSystem", "AWS::Scheduler::Schedule"
DATABASE = "AWS::RDS::DBCluster"

Properties = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A change that expires data; the other way round it does not, but where `both` says so."""

    kind: str
    old: Properties
    new: Properties
    says: str
    both: bool = False


def rules(*found: Properties) -> Properties:
    return {"LifecycleConfiguration": {"Rules": [{"Status": "Enabled", **rule} for rule in found]}}


def versions(days: int, newer: int | None = None) -> Properties:
    more = {} if newer is None else {"NewerNoncurrentVersions": newer}
    return {"NoncurrentVersionExpiration": {"NoncurrentDays": days, **more}}


def images(number: int, tag: str = "any", kind: str = "imageCountMoreThan") -> Properties:
    selection = {"tagStatus": tag, "countType": kind, "countNumber": number, "countUnit": "days"}
    policy = {"rules": [{"rulePriority": 1, "selection": selection, "action": {"type": "expire"}}]}
    return {"LifecyclePolicy": {"LifecyclePolicyText": json.dumps(policy)}}


def backups(days: int | None, kind: str) -> Properties:
    return {f"{kind}Configuration": {} if days is None else {"AutomaticBackupRetentionDays": days}}


def snapshots(keep: int) -> Properties:
    return {"Target": {"Input": json.dumps({"volume_id": "${storage.Home.VolumeId}", "keep": keep})}}


ENABLED, SUSPENDED = ({"VersioningConfiguration": {"Status": status}} for status in ("Enabled", "Suspended"))
OFF = {"LifecycleConfiguration": {"Rules": [{"Status": "Disabled", "ExpirationInDays": 7}]}}

UNTIL, EARLIER = ({"ExpirationDate": f"2027-0{month}-01T00:00:00Z"} for month in (2, 1))
TAGGED: Properties = {"TagFilters": [{"Key": "a", "Value": "b"}]}
SINCE = ("untagged", "sinceImagePushed")


def after(days: int, prefix: str = "", **scope: Any) -> Properties:  # noqa: ANN401 - JSON
    return {"ExpirationInDays": days, **({"Prefix": prefix} if prefix else {}), **scope}


CASES = {
    "objects sooner": Case(
        BUCKET, rules(after(180, "logs/")), rules(after(7, "logs/")), "objects under logs/ expire after 7 days"
    ),
    "a rule added": Case(BUCKET, {}, rules(after(90)), "objects expire after 90 days"),
    "a rule switched on": Case(BUCKET, OFF, rules(after(7)), "objects expire after 7 days"),
    "a prefix added": Case(
        BUCKET, rules(after(7, "tmp/")), rules(after(7, "tmp/"), after(7, "data/")), "objects under data/"
    ),
    "a wider prefix": Case(
        BUCKET, rules(after(7, "logs/old/")), rules(after(7, "logs/")), "objects under logs/ expire"
    ),
    "a filter taken away": Case(BUCKET, rules(after(7, **TAGGED)), rules(after(7)), "objects expire after 7 days"),
    "another filter": Case(
        BUCKET,
        rules(after(7, ObjectSizeGreaterThan=5)),
        rules(after(7, ObjectSizeGreaterThan=6)),
        "(by a filter)",
        both=True,
    ),
    "an earlier date": Case(BUCKET, rules(UNTIL), rules(EARLIER), "expire on 2027-01-01"),
    "noncurrent versions sooner": Case(
        BUCKET, rules(versions(30)), rules(versions(1)), "noncurrent versions expire after 1 days"
    ),
    "fewer newer versions": Case(BUCKET, rules(versions(30, 5)), rules(versions(30, 2)), "but for 2 newer ones"),
    "no newer versions": Case(BUCKET, rules(versions(30, 1)), rules(versions(30)), "versions expire after 30 days"),
    "noncurrent versions sooner, by the older key": Case(
        BUCKET,
        rules({"NoncurrentVersionExpirationInDays": 30}),
        rules({"NoncurrentVersionExpirationInDays": 1}),
        "noncurrent versions expire after 1 days",
    ),
    "no versions any more": Case(BUCKET, ENABLED, SUSPENDED, "versioning is suspended"),
    "versions no longer asked for": Case(BUCKET, ENABLED, {}, "versioning is suspended"),
    "fewer images": Case(REPOSITORY, images(20), images(5), "images (any) expire beyond 5 of them"),
    "images sooner": Case(REPOSITORY, images(30, *SINCE), images(7, *SINCE), "images (untagged) expire after 7 days"),
    "images expire at all": Case(REPOSITORY, {}, images(20), "images (any)"),
    "other images": Case(REPOSITORY, images(5, "untagged"), images(5), "images (any)", both=True),
    "backups of Lustre": Case(FILE_SYSTEM, backups(30, "Lustre"), backups(7, "Lustre"), "7 days instead of 30"),
    "no backups of Lustre": Case(FILE_SYSTEM, backups(7, "Lustre"), backups(None, "Lustre"), "0 days instead of 7"),
    "backups of OpenZFS": Case(FILE_SYSTEM, backups(None, "OpenZFS"), backups(7, "OpenZFS"), "7 days instead of 30"),
    "backups of a database": Case(DATABASE, {"BackupRetentionPeriod": 14}, {}, "kept for 1 days"),
    "logs": Case(LOGS, {"RetentionInDays": 90}, {"RetentionInDays": 7}, "logs are kept for 7 days instead of 90"),
    "logs that were kept": Case(LOGS, {}, {"RetentionInDays": 365}, "365 days instead of forever"),
    "snapshots": Case(SCHEDULE, snapshots(7), snapshots(3), "3 snapshots are kept instead of 7"),
}


def between(kind: str, old: Properties, new: Properties) -> Verdict:
    def side(properties: Properties) -> dict[str, Stack]:
        template = {"Resources": {"It": {"Type": kind, "Properties": properties}}}
        return {"storage": Stack("storage", "dev-storage", "us-east-1", template)}

    return Verdict("dev", "before", Cluster("", Outcome.NONE), tuple(changes(side(old), side(new))), (), ())


@pytest.mark.parametrize("name", CASES)
def test_lowered_is_destructive_and_raised_is_safe(name: str) -> None:
    case = CASES[name]
    verdict = between(case.kind, case.old, case.new)
    assert verdict.level is Level.DESTRUCTIVE
    [reason] = verdict.reasons
    assert case.says in reason.text
    [change] = verdict.data
    assert any(case.says in line for line in change.expires)
    back = between(case.kind, case.new, case.old)
    assert back.level is (Level.DESTRUCTIVE if case.both else Level.SAFE)
    assert expirations(case.kind, case.new, case.new) == ()


VOLUME = "AWS::FSx::Volume"
EMPTIED = [{"Key": "a", "Value": "b"}, {"Key": "aws-cdk:auto-delete-objects", "Value": "true"}]
KEPT = "kept outside of the stack, which no longer uses it"
HELD = "kept where the {} holds {} (CloudFormation cannot delete it then); else deleted"


@pytest.mark.parametrize(
    ("kind", "policy", "properties", "says"),
    [
        (VOLUME, "Retain", {}, KEPT),
        (VOLUME, "RetainExceptOnCreate", {}, KEPT),
        (VOLUME, "Snapshot", {}, "kept as a snapshot only"),
        (VOLUME, "Delete", {}, "lost"),
        (VOLUME, None, None, "lost"),
        (BUCKET, "Retain", {"Tags": EMPTIED}, KEPT),
        (BUCKET, "Delete", None, HELD.format("bucket", "objects")),
        (BUCKET, "Delete", {"Tags": EMPTIED[:1]}, HELD.format("bucket", "objects")),
        (BUCKET, "Delete", {"Tags": EMPTIED}, "lost: the bucket is emptied and deleted"),
        (REPOSITORY, "Delete", None, HELD.format("repository", "images")),
        (REPOSITORY, "Delete", {"EmptyOnDelete": True}, "lost"),
        (DATABASE, "Snapshot", {}, "kept as a snapshot only"),
        ("AWS::RDS::DBInstance", None, {"DBClusterIdentifier": "unit"}, "kept in its cluster, if that is kept"),
        ("AWS::RDS::DBInstance", None, {}, "lost"),
    ],
)
def test_a_removal_follows_the_deployed_policy(
    kind: str, policy: str | None, properties: Properties | None, says: str
) -> None:
    given = {"DeletionPolicy": policy, "Properties": properties}
    resource = {"Type": kind, "UpdateReplacePolicy": "Snapshot", **{k: v for k, v in given.items() if v is not None}}
    assert data_disposition(resource, None) == says


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Retain", "Retain", KEPT),
        ("Retain", "RetainExceptOnCreate", KEPT),
        ("Retain", "Snapshot", "kept as a snapshot only"),
        ("Retain", None, "lost"),
        (None, "Retain", "lost"),
    ],
)
def test_a_replacement_follows_the_worse_policy(old: str | None, new: str | None, says: str) -> None:
    was, now = ({"Type": VOLUME, **({"UpdateReplacePolicy": policy} if policy else {})} for policy in (old, new))
    assert data_disposition({**was, "DeletionPolicy": "Retain"}, now) == says


def test_retention() -> None:
    assert all(is_shorter(was, now) for was, now in ((7, 6), (None, 7), ("7", 8)))
    assert not any(is_shorter(was, now) for was, now in ((7, 7), (7, 8), (7, None), (None, None)))


def of_text(text: object) -> Properties:
    return {"LifecyclePolicy": {"LifecyclePolicyText": text}}


@pytest.mark.parametrize(
    ("kind", "old", "new", "says"),
    [
        # Lifecycle policies and inputs of schedules that cannot be read.
        (REPOSITORY, of_text("x"), of_text("x"), ()),
        (REPOSITORY, of_text("x"), of_text("y"), ("images (y) expire after None ",)),
        (REPOSITORY, {}, of_text({"Ref": "Parameter"}), ()),
        (SCHEDULE, {}, {"Target": {"Input": "not JSON"}}, ()),
        (SCHEDULE, {"Target": {"Input": "[]"}}, snapshots(3), ()),
        ("AWS::SNS::Topic", {}, {"RetentionInDays": 1}, ()),
        # Rules that delete nothing more.
        (BUCKET, {}, OFF, ()),
        (BUCKET, rules(after(7)), rules(after(7), after(9, "a/")), ()),
        (BUCKET, rules(), rules({"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}), ()),
        (BUCKET, rules(), rules({"Transitions": [{"StorageClass": "GLACIER", "TransitionInDays": 1}]}), ()),
        (BUCKET, rules(), rules({"ExpiredObjectDeleteMarker": True}), ()),
        (BUCKET, ENABLED, {**ENABLED, **rules()}, ()),
        (BUCKET, ENABLED, SUSPENDED, ("versioning is suspended: what is overwritten or deleted is lost",)),
        # A configuration that one side lacks.
        (FILE_SYSTEM, backups(7, "Lustre"), {}, ("backups are kept for 0 days instead of 7",)),
        (FILE_SYSTEM, {}, backups(7, "OpenZFS"), ("backups are kept for 7 days instead of 30",)),
    ],
)
def test_expirations(kind: str, old: Properties, new: Properties, says: tuple[str, ...]) -> None:
    assert expirations(kind, old, new) == says


@pytest.mark.parametrize("key", ["tagPrefixList", "tagPatternList"])
def test_images_are_named_by_their_tags(key: str) -> None:
    selection = {"tagStatus": "tagged", key: ["a", "b"], "countType": "imageCountMoreThan", "countNumber": 5}
    policy = {"rules": [{"selection": selection, "action": {"type": "expire"}}, {"selection": selection}]}
    says = ("images (a, b) expire beyond 5 of them",)
    assert expirations(REPOSITORY, {}, of_text(json.dumps(policy))) == says
