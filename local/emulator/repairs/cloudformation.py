"""Repairs of CloudFormation: change sets, exports, template addresses, order of creation, attributes."""

from __future__ import annotations

import re
from typing import Any

import yaml
from ministack.core.responses import get_account_id, get_region, request_scope
from ministack.services import ec2, iam, rds, s3
from ministack.services.cloudformation import (
    _exports,
    _stacks,
    changesets,
    drift,
    engine,
    handlers,
    helpers,
    provisioners,
    stacks,
)

_VIRTUAL_HOST = re.compile(r"^https://(?P<bucket>[a-z0-9.-]+)\.s3[.-][a-z0-9.-]*amazonaws\.com/(?P<key>[^?]+)")
_WAITS = "AWS::CloudFormation::WaitCondition"


def install() -> None:
    """Carry out the repairs."""
    _outputs_only()
    _exports_in_use()
    _template_url()
    _wait_conditions_last()
    _attributes()
    _instance_profile()
    _secret()
    _protected_database()
    _parents()
    _deletions_that_failed()
    # libyaml's parser takes a tenth of the time for ParallelCluster's templates.
    kept = {name: getattr(engine.CfnLoader, name) for name in ("yaml_constructors", "yaml_implicit_resolvers")}
    engine.CfnLoader = type("CfnLoader", (yaml.CSafeLoader,), kept)


class _Executable(list[Any]):
    """An empty list of resource changes that counts as a change."""

    def __bool__(self) -> bool:
        return True


def _outputs_only() -> None:
    # services/cloudformation/changesets.py: a change set that changes outputs only counts as no change; AWS executes
    # it, which is how one stack begins to export what another will import.
    original = changesets._diff_resources

    def diff(old: dict[str, Any], new: dict[str, Any], *rest: Any, **named: Any) -> Any:
        changes = original(old, new, *rest, **named)
        return changes if changes or old.get("Outputs") == new.get("Outputs") else _Executable()

    changesets._diff_resources = diff


def _exports_in_use() -> None:
    # services/cloudformation/stacks.py:213 lets an update drop or change an export that another stack imports.
    original = stacks._resolve_stack_outputs

    def resolve(*arguments: Any) -> Any:
        found, exports = original(*arguments)
        own = arguments[-1]
        for export, record in list(_exports.items()):
            if record["StackId"] != own or exports.get(export, {}).get("Value") == record["Value"]:
                continue
            verb = "update" if export in exports else "delete"
            for importer in _importers(export, own):
                raise ValueError(f"Cannot {verb} export {export} as it is in use by {importer}")
            if verb == "delete":
                del _exports[export]
        return found, exports

    stacks._resolve_stack_outputs = resolve


def _importers(export: str, own: str) -> list[str]:
    return [
        name
        for name, stack in _stacks.items()
        if stack.get("StackId") != own
        and not stack.get("StackStatus", "").startswith("DELETE_COMPLETE")
        and export in handlers._imported_export_names(stack, name)
    ]


def _template_url() -> None:
    # services/cloudformation/helpers.py:234 reads https://bucket.s3.region.amazonaws.com/key as if the bucket were the
    # path's first part, and finds no template in another account's bucket.
    original = helpers._resolve_document

    def resolve(params: dict[str, Any], body_key: str, url_key: str, label: str) -> Any:
        found = _VIRTUAL_HOST.match(helpers._p(params, url_key) or "")
        if not found:
            return original(params, body_key, url_key, label)
        params = {**params, url_key: [f"https://s3.amazonaws.com/{found['bucket']}/{found['key']}"]}
        with request_scope(s3._bucket_owner_account(found["bucket"]) or get_account_id(), get_region()):
            return original(params, body_key, url_key, label)

    helpers._resolve_document = resolve


def _wait_conditions_last() -> None:
    # services/cloudformation/engine.py:1379: resources are made one by one, so a wait condition can block what it
    # waits for. AWS makes them in parallel; here wait conditions and what depends on them come last.
    original = engine._topological_sort

    def sort(resources: dict[str, Any], conditions: dict[str, Any]) -> list[str]:
        order: list[str] = original(resources, conditions)
        late: set[str] = set()
        for name in order:
            definition = resources[name]
            if definition.get("Type") == _WAITS or engine._extract_deps(definition, set(order)) & late:
                late.add(name)
        return [name for name in order if name not in late] + [name for name in order if name in late]

    engine._topological_sort = stacks._topological_sort = changesets._topological_sort = sort


def _attributes() -> None:
    # services/cloudformation/provisioners.py:7948 and :8146 leave out attributes that GetAtt can ask for.
    added = {
        "AWS::EC2::VPC": lambda key: {
            "CidrBlock": ec2._vpcs[key]["CidrBlock"],
            "CidrBlockAssociations": [],
            "Ipv6CidrBlocks": [],
        },
        "AWS::EC2::Subnet": lambda key: {
            name: ec2._subnets[key][name] for name in ("VpcId", "CidrBlock", "AvailabilityZoneId")
        },
    }
    for resource_type, attributes in added.items():
        handler = provisioners._RESOURCE_HANDLERS[resource_type]
        for step in ("create", "update"):

            def extended(*arguments: Any, original: Any = handler[step], more: Any = attributes) -> Any:
                physical_id, found = original(*arguments)
                return physical_id, {**(found or {}), **more(physical_id)}

            handler[step] = extended


def _instance_profile() -> None:
    # services/cloudformation/provisioners.py: Ref of AWS::IAM::InstanceProfile is its ARN; on AWS it is its name, which
    # launch templates pass on as {"IamInstanceProfile": {"Name": {"Ref": ...}}}.
    handler = provisioners._RESOURCE_HANDLERS["AWS::IAM::InstanceProfile"]
    create, update, delete = handler["create"], handler["update"], handler["delete"]

    def arn_of(name: str) -> str:
        return str(iam._instance_profiles.get(name, {}).get("Arn", name))

    def named(made: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        arn, attributes = made
        return arn.rpartition("/")[2], attributes

    handler |= {
        "create": lambda *given: named(create(*given)),
        "update": lambda physical_id, *given: named(update(arn_of(physical_id), *given)),
        "delete": lambda physical_id, *given: delete(arn_of(physical_id), *given),
    }


def _secret() -> None:
    # services/cloudformation/provisioners.py:6883: Ref of AWS::SecretsManager::Secret is its name; on AWS it is its
    # ARN, which has the name, a hyphen and six characters.
    handler = provisioners._RESOURCE_HANDLERS["AWS::SecretsManager::Secret"]
    create, update, delete = handler["create"], handler["update"], handler["delete"]

    def name_of(arn: str) -> str:
        return arn.rpartition(":secret:")[2][:-7]

    def with_arn(made: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        return made[1]["Arn"], made[1]

    handler |= {
        "create": lambda *given: with_arn(create(*given)),
        "update": lambda physical_id, *given: with_arn(update(name_of(physical_id), *given)),
        "delete": lambda physical_id, *given: delete(name_of(physical_id), *given),
    }
    read, properties = drift._DRIFT_READERS["AWS::SecretsManager::Secret"]
    drift._DRIFT_READERS["AWS::SecretsManager::Secret"] = (
        lambda physical_id, given: read(name_of(physical_id), given),
        properties,
    )


def _protected_database() -> None:
    # services/cloudformation/provisioners.py deletes an AWS::RDS::DBCluster whatever its DeletionProtection is; RDS
    # refuses.
    handler = provisioners._RESOURCE_HANDLERS["AWS::RDS::DBCluster"]
    original = handler["delete"]

    def delete(physical_id: str, properties: dict[str, Any]) -> None:
        if rds._clusters.get(physical_id, {}).get("DeletionProtection"):
            raise ValueError("Cannot delete protected Cluster, please disable deletion protection and try again.")
        original(physical_id, properties)

    handler["delete"] = delete


def _parents() -> None:
    # services/cloudformation/handlers.py:415: DescribeStacks leaves out ParentId, by which pcluster list-clusters
    # separates the nested stack of a cluster from a cluster.
    original = handlers._ACTION_HANDLERS["DescribeStacks"]

    def describe(params: dict[str, Any]) -> Any:
        status, headers, body = original(params)
        text = body.decode() if isinstance(body, bytes) else body
        for stack in list(_stacks.values()):
            if parent := stack.get("ParentId"):
                own = f"<StackId>{stack['StackId']}</StackId>"
                text = text.replace(own, f"{own}<ParentId>{parent}</ParentId><RootId>{stack['RootId']}</RootId>")
        return status, headers, text.encode()

    handlers._ACTION_HANDLERS["DescribeStacks"] = describe


def _deletions_that_failed() -> None:
    # services/cloudformation/changesets.py:597: CreateChangeSet accepts an update of a stack in DELETE_FAILED.
    # CloudFormation allows no update of it (User Guide, "Stack status codes", read on 2026-11-22).
    original = handlers._ACTION_HANDLERS["CreateChangeSet"]

    def create(params: dict[str, Any]) -> Any:
        stack = handlers._resolve_stack(helpers._p(params, "StackName"))
        if stack and stack["StackStatus"] == "DELETE_FAILED":
            reason = f"Stack:{stack['StackId']} is in DELETE_FAILED state and can not be updated."
            return helpers._error("ValidationError", reason)
        return original(params)

    handlers._ACTION_HANDLERS["CreateChangeSet"] = create
