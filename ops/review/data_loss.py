"""What happens to data: of a resource that is replaced or removed, and of one whose retention is lowered in place."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]

KEPT = "kept"
LOST = "lost"

_KEEPING = {"Retain", "RetainExceptOnCreate"}
EMPTIED = {"Key": "aws-cdk:auto-delete-objects", "Value": "true"}
"""Tag of the buckets that the CDK's function empties. Source: aws-cdk-lib, aws-s3, Bucket.autoDeleteObjects."""

_BACKUPS = "AutomaticBackupRetentionDays"
# Days that FSx keeps backups where a template does not say.
_FSX = {"LustreConfiguration": 0, "OpenZFSConfiguration": 30, "OntapConfiguration": 30, "WindowsConfiguration": 30}

_SCOPE = ("TagFilters", "ObjectSizeGreaterThan", "ObjectSizeLessThan")
_EXPIRING = {
    "ExpirationInDays": "objects{} expire after {} days",
    "ExpirationDate": "objects{} expire on {}",
    "NoncurrentVersionExpirationInDays": "noncurrent versions{} expire after {} days",
}
_NONCURRENT = "noncurrent versions{} expire after {} days, but for {} newer ones"


def data_disposition(was: Json, now: Json | None) -> str:
    """What happens to the data of a replaced or removed (`now` is None) resource; begins with KEPT or LOST.

    A removal follows the DeletionPolicy that is deployed. A replacement follows the UpdateReplacePolicy; where the
    change itself sets another one, the worse of the two counts.
    """
    key = "DeletionPolicy" if now is None else "UpdateReplacePolicy"
    policies = {side.get(key) for side in (was, now) if side is not None}
    if policies <= _KEEPING:
        return f"{KEPT} outside of the stack, which no longer uses it"
    if policies <= {*_KEEPING, "Snapshot"}:
        return f"{KEPT} as a snapshot only"
    kind, properties = str(was["Type"]), was.get("Properties", {})
    if kind == "AWS::S3::Bucket":
        if EMPTIED in (properties.get("Tags") or ()):
            return f"{LOST}: the bucket is emptied and deleted"
        return f"{KEPT} where the bucket holds objects (CloudFormation cannot delete it then); else deleted"
    if kind == "AWS::ECR::Repository" and properties.get("EmptyOnDelete") is not True:
        return f"{KEPT} where the repository holds images (CloudFormation cannot delete it then); else deleted"
    in_cluster = kind == "AWS::RDS::DBInstance" and "DBClusterIdentifier" in properties
    return f"{KEPT} in its cluster, if that is kept" if in_cluster else LOST


def expirations(kind: str, was: Json, now: Json) -> tuple[str, ...]:
    """What expires sooner under the properties `now` than under `was`, in words. References must be resolved."""
    find = {
        "AWS::S3::Bucket": _of_bucket,
        "AWS::ECR::Repository": _of_repository,
        "AWS::FSx::FileSystem": _of_file_system,
        "AWS::RDS::DBCluster": _of_database,
        "AWS::Logs::LogGroup": _of_log_group,
        "AWS::Scheduler::Schedule": _of_snapshots,
    }.get(kind)
    return tuple(find(was, now)) if find else ()


def is_shorter(was: object, now: object) -> bool:
    """Whether a retention is lowered; None keeps for ever. Values that cannot be compared count as lowered."""
    if now is None or was == now:
        return False
    return not (isinstance(was, int) and isinstance(now, int) and now > was)


def _of_database(was: Json, now: Json) -> Iterator[str]:
    days, before = (side.get("BackupRetentionPeriod", 1) for side in (now, was))
    if is_shorter(before, days):
        yield f"backups are kept for {days} days, and older ones are deleted"


def _of_bucket(was: Json, now: Json) -> Iterator[str]:
    before, after = _rules(was), _rules(now)
    for rule in after:
        for action, wording in _EXPIRING.items():
            if action in rule and not any(_covers(old, rule) and _sooner(old, rule, action) for old in before):
                yield wording.format(_where(rule), rule[action])
        if (versions := _versions(rule)) and not any(
            _covers(old, rule) and _keeps_less(old, versions) for old in before
        ):
            yield _NONCURRENT.format(_where(rule), *versions)
    statuses = [side.get("VersioningConfiguration", {}).get("Status") for side in (was, now)]
    if statuses[0] == "Enabled" and statuses[1] != "Enabled":
        yield "versioning is suspended: what is overwritten or deleted is lost"


def _rules(properties: Json) -> list[Json]:
    rules = properties.get("LifecycleConfiguration", {}).get("Rules", [])
    return [rule for rule in rules if rule.get("Status") == "Enabled"]


def _covers(old: Json, rule: Json) -> bool:
    """Whether an old rule holds for all that `rule` holds for."""
    filters = {key: old[key] for key in _SCOPE if key in old}
    return _prefix(rule).startswith(_prefix(old)) and all(rule.get(key) == value for key, value in filters.items())


def _prefix(rule: Json) -> str:
    return str(rule.get("Prefix") or "")


def _where(rule: Json) -> str:
    where = f" under {_prefix(rule)}" if _prefix(rule) else ""
    return f"{where} (by a filter)" if any(key in rule for key in _SCOPE) else where


def _sooner(old: Json, rule: Json, action: str) -> bool:
    """Whether the old rule deletes as early as `rule`, or earlier. Dates are ISO 8601, which sorts as text."""
    before, after = old.get(action), rule[action]
    if isinstance(before, str) and isinstance(after, str):
        return before <= after
    return action in old and not is_shorter(before, after)


def _versions(rule: Json) -> tuple[object, object] | None:
    """Days, and how many newer versions are kept beyond them."""
    found = rule.get("NoncurrentVersionExpiration")
    return (found.get("NoncurrentDays"), found.get("NewerNoncurrentVersions", 0)) if found else None


def _keeps_less(old: Json, versions: tuple[object, object]) -> bool:
    """Whether the old rule deletes all that one with `versions` deletes."""
    before = _versions(old)
    return before is not None and not any(is_shorter(*pair) for pair in zip(before, versions, strict=True))


def _of_repository(was: Json, now: Json) -> Iterator[str]:
    before = _lifecycle(was)
    for selection, count in _lifecycle(now):
        if not any(selection == other and not is_shorter(number, count) for other, number in before):
            tags = selection.get("tagPrefixList") or selection.get("tagPatternList") or [selection.get("tagStatus")]
            named = ", ".join(str(tag) for tag in tags)
            if selection.get("countType") == "imageCountMoreThan":
                yield f"images ({named}) expire beyond {count} of them"
            else:
                yield f"images ({named}) expire after {count} {selection.get('countUnit', '')}"


def _lifecycle(properties: Json) -> list[tuple[dict[str, Any], object]]:
    """What each rule that deletes selects, and its number."""
    text = properties.get("LifecyclePolicy", {}).get("LifecyclePolicyText")
    if not isinstance(text, str):
        return []
    try:
        rules = json.loads(text)["rules"]
    except (ValueError, KeyError, TypeError):
        # Another text that cannot be read is another rule.
        return [({"tagStatus": text[:80]}, None)]
    return [
        (
            {key: value for key, value in rule["selection"].items() if key != "countNumber"},
            rule["selection"]["countNumber"],
        )
        for rule in rules
        if rule.get("action", {}).get("type") == "expire"
    ]


def _of_file_system(was: Json, now: Json) -> Iterator[str]:
    for key, default in _FSX.items():
        if key in was or key in now:
            old, new = (side.get(key, {}).get(_BACKUPS, default) for side in (was, now))
            if is_shorter(old, new):
                yield f"backups are kept for {new} days instead of {old}"


def _of_log_group(was: Json, now: Json) -> Iterator[str]:
    old, new = was.get("RetentionInDays"), now.get("RetentionInDays")
    if is_shorter(old, new):
        yield f"logs are kept for {new} days instead of {'forever' if old is None else old}"


def _of_snapshots(was: Json, now: Json) -> Iterator[str]:
    """The project's own schedule of OpenZFS snapshots, whose function deletes all but the newest."""
    old, new = (_kept(side) for side in (was, now))
    if old is not None and is_shorter(old, new):
        yield f"{new} snapshots are kept instead of {old}"


def _kept(properties: Json) -> object:
    try:
        return json.loads(properties["Target"]["Input"])["keep"]
    except (ValueError, KeyError, TypeError):
        return None
