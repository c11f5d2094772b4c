"""FSx in CloudFormation, in IAM, and as a service: each resource type calls the operation that AWS would call."""

from __future__ import annotations

import json
from typing import Any

from ministack.core import iam_actions
from ministack.services import tagging
from ministack.services.cloudformation import _stacks, engine, stacks

from local.emulator import service
from local.emulator.cloudformation.provide import Made, Properties, provide
from local.emulator.fsx import records
from local.emulator.fsx.operations import OPERATIONS, settle
from local.emulator.service import ApiError, service_model

# The key of a request that names its resource; the first that is there counts.
_NAMED = ("SnapshotId", "AssociationId", "VolumeId", "FileSystemId")
# A creation is authorized on every resource of its kind. CreateSnapshot is authorized on the volume: the snapshot to
# come, which AWS checks too, has no id yet.
_CREATED = {"CreateFileSystem": "file-system/*", "CreateVolume": "volume/*"}
# A description names a list of ids, and is authorized on its kind: ParallelCluster's policies, which work, grant FSx on
# arn:aws:fsx:<region>:<account>:* and not on *.
_DESCRIBED = {"DescribeFileSystems": "file-system/*", "DescribeVolumes": "volume/*"}


def install() -> None:
    """Add the service and its types."""
    service.provide("fsx", "fsx", OPERATIONS, "BadRequest")
    _authorization()
    _Type("FileSystem", "FileSystem", records.FILE_SYSTEMS).install()
    _Type("DataRepositoryAssociation", "Association", records.ASSOCIATIONS).install()
    _Type("Volume", "Volume", records.VOLUMES).install()


class _Type:
    """A resource type: `answer` is the record's key in the operations' answers, and with Id the id's."""

    def __init__(self, name: str, answer: str, store: Any) -> None:
        self._name, self._answer, self._id, self._store = name, answer, f"{answer}Id", store

    def install(self) -> None:
        provide(f"AWS::FSx::{self._name}", self._create, self._delete, self._update)

    def _do(self, verb: str, request: Properties) -> Properties:
        operation = f"{verb}{self._name}"
        shape = service_model("fsx").operation_model(operation).input_shape
        return service.perform("fsx", OPERATIONS, operation, _typed(request, shape), "BadRequest")

    def _attributes(self, record: Properties) -> Properties:
        key = record[self._id]
        return {
            "Id": key,
            self._id: key,
            "ResourceARN": record["ResourceARN"],
            "DNSName": record.get("DNSName", ""),
            "LustreMountName": record.get("LustreConfiguration", {}).get("MountName", ""),
            "RootVolumeId": record.get("OpenZFSConfiguration", {}).get("RootVolumeId", ""),
        }

    def _create(self, logical_id: str, properties: Properties, stack: str) -> Made:
        if self._store is records.ASSOCIATIONS:
            settle(_created_before(logical_id, stack))
        record = self._do("Create", properties)[self._answer]
        if record["Lifecycle"] == "FAILED":
            del self._store[record[self._id]]
            raise ApiError("BadRequest", record["FailureDetails"]["Message"])
        return record[self._id], self._attributes(record)

    def _update(self, physical_id: str, old: Properties, new: Properties) -> Properties:
        changed = {key: value for key, value in new.items() if old.get(key) != value}
        record = self._do("Update", {self._id: physical_id, **changed})[self._answer]
        record["Tags"] = [{"Key": str(t["Key"]), "Value": str(t["Value"])} for t in new.get("Tags", [])]
        return self._attributes(record)

    def _delete(self, physical_id: str, properties: Properties) -> None:
        if physical_id in self._store:
            options = properties.get("OpenZFSConfiguration", {}).get("Options")
            more = {"OpenZFSConfiguration": {"Options": options}} if options else {}
            self._do("Delete", {self._id: physical_id, **more})


def _created_before(logical_id: str, stack: str) -> list[str]:
    """Physical ids of what the template lets CloudFormation wait for before it creates this resource.

    ministack creates resources one by one; AWS creates all at the same time that do not depend on each other.
    """
    record = _stacks[stack]
    resources = engine._parse_template(record["_template_body"])["Resources"]
    names = stacks._with_dependencies([logical_id], resources, set(resources)) - {logical_id}
    return [record["_resources"][name]["PhysicalResourceId"] for name in names if name in record["_resources"]]


def _typed(value: Any, shape: Any) -> Any:
    """CloudFormation's scalars ("1200", "true") in the types of the API's model; what the model lacks is left out."""
    if shape.type_name == "structure" and isinstance(value, dict):
        return {key: _typed(entry, shape.members[key]) for key, entry in value.items() if key in shape.members}
    if shape.type_name == "list" and isinstance(value, list):
        return [_typed(entry, shape.member) for entry in value]
    if shape.type_name in {"integer", "long"} and isinstance(value, str):
        return int(value)
    if shape.type_name == "boolean" and isinstance(value, str):
        return value.lower() == "true"
    return value


def _resource(operation: str, request: Properties, prefix: str) -> str:
    """The ARN that a request is authorized on, or * for operations without resources."""
    if operation in _CREATED:
        return prefix + _CREATED[operation]
    if request.get("ResourceARN"):
        return str(request["ResourceARN"])
    for key in _NAMED:
        if isinstance(request.get(key), str):
            try:
                return str(records.get(key, request[key])["ResourceARN"])
            except ApiError:
                return f"{prefix}*/{request[key]}"
    return prefix + _DESCRIBED[operation] if operation in _DESCRIBED else "*"


def _authorization() -> None:
    extract_others, tags_elsewhere = iam_actions.extract_resource_arn, tagging.resource_tags

    def extract(name: str, method: str, path: str, headers: dict[str, str], body: bytes, *rest: Any) -> Any:
        if name != "fsx":
            return extract_others(name, method, path, headers, body, *rest)
        try:
            request = json.loads(body or b"{}")
        except json.JSONDecodeError:
            return "*"
        _query, region, account = rest
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        return _resource(operation, request, f"arn:aws:fsx:{region}:{account}:")

    def tags(resource_arn: str) -> Any:
        if not resource_arn.startswith("arn:aws:fsx:"):
            return tags_elsewhere(resource_arn)
        try:
            return {tag["Key"]: tag["Value"] for tag in records.tagged(resource_arn)["Tags"]}
        except ApiError:
            return {}

    iam_actions.extract_resource_arn = extract
    tagging.resource_tags = tags
