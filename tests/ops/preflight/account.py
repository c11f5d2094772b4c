"""An AWS account for the checks: answers from plain records, validated by botocore's model of each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from ops.preflight.aws import Aws, Denied, action_of
from ops.preflight.context import CheckContext, deployed
from ops.preflight.results import CheckResult
from settings import Environment
from settings.instances import instance_types
from trainyard.pipeline.actions import PREFLIGHT

ACCOUNT, ZONE = "123456789012", "use1-az4"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RESERVATION, SECOND = "cr-0123456789abcdef0", "cr-0123456789abcdef1"
GROUP = f"arn:aws:resource-groups:us-east-1:{ACCOUNT}:group/odcr"
MODELS = botocore.session.get_session()
Answer = dict[str, Any]


def _operation(service: str, method: str) -> Any:  # noqa: ANN401 - botocore's
    model = MODELS.get_service_model(service)
    return next(model.operation_model(name) for name in model.operation_names if xform_name(name) == method)


def refusal(code: str, message: str, operation: str) -> ClientError:
    """An error as botocore raises it."""
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


def reservation(**other: Any) -> Answer:  # noqa: ANN401 - any field
    """Two p5.48xlarge, active, free."""
    return {
        "CapacityReservationId": RESERVATION,
        "OwnerId": ACCOUNT,
        "InstanceType": "p5.48xlarge",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZoneId": ZONE,
        "Tenancy": "default",
        "TotalInstanceCount": 2,
        "AvailableInstanceCount": 2,
        "State": "active",
        "StartDate": NOW - timedelta(days=1),
        "ReservationType": "default",
        **other,
    }


def unstarted_block(state: str = "scheduled", nodes: int = 2) -> Answer:
    """A capacity block before its start, which has its size only in a tag."""
    tag = {"Key": "aws:ec2capacityreservation:incrementalRequestedQuantity", "Value": str(nodes)}
    counts = {"TotalInstanceCount": 0, "AvailableInstanceCount": 0, "Tags": [tag]}
    return reservation(ReservationType="capacity-block", State=state, StartDate=NOW + timedelta(days=3), **counts)


def instance(instance_type: str, *, cluster: str = "", **other: Any) -> Answer:  # noqa: ANN401 - any field
    """A running instance; a node of `cluster` if one is named."""
    tags = [{"Key": "parallelcluster:cluster-name", "Value": cluster}] if cluster else []
    return {"InstanceId": "i-0123456789abcdef0", "InstanceType": instance_type, "Tags": tags, **other}


def lustre(name: str, capacity: int, deployment: str = "PERSISTENT_2", throughput: int = 125) -> Answer:
    """A Lustre file system as FSx describes it."""
    configuration = {"DeploymentType": deployment, "PerUnitStorageThroughput": throughput}
    return {
        "FileSystemId": name, "FileSystemType": "LUSTRE", "StorageCapacity": capacity, "Lifecycle": "AVAILABLE",
        "LustreConfiguration": configuration,
    }  # fmt: skip


def openzfs(name: str, throughput: int = 160) -> Answer:
    """An OpenZFS file system as FSx describes it."""
    configuration = {"DeploymentType": "SINGLE_AZ_HA_2", "ThroughputCapacity": throughput}
    return {
        "FileSystemId": name, "FileSystemType": "OPENZFS", "StorageCapacity": 64, "Lifecycle": "AVAILABLE",
        "OpenZFSConfiguration": configuration,
    }  # fmt: skip


@dataclass
class Account(Aws):
    """What the account has. `quotas` are values by code, `stacks` resources (type, logical, physical id) by name."""

    quotas: dict[str, float] = field(default_factory=dict)
    quota_names: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, float] = field(default_factory=dict)
    reservations: list[Answer] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)
    instances: list[Answer] = field(default_factory=list)
    file_systems: list[Answer] = field(default_factory=list)
    volumes: list[Answer] = field(default_factory=list)
    vpcs: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    nat_gateways: list[str] = field(default_factory=list)
    subnets: dict[str, Answer] = field(default_factory=dict)
    offers: dict[str, list[str]] = field(default_factory=dict)
    images: list[Answer] = field(default_factory=list)
    buckets: dict[str, str] = field(default_factory=dict)  # an HTTP status, or a region, by name
    repositories: dict[str, str] = field(default_factory=dict)  # the environment in the tag, or empty, by name
    log_groups: list[str] = field(default_factory=list)
    workspaces: list[str] = field(default_factory=list)
    teams: list[str] = field(default_factory=list)
    identity_centers: list[str] = field(default_factory=list)
    zones: dict[str, str] = field(default_factory=dict)  # the state by zone id
    engines: dict[str, str] = field(default_factory=dict)  # the family by engine and version
    stacks: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    emulated: bool = False

    def call(self, service: str, operation: str, **arguments: Any) -> Answer:  # noqa: ANN401 - boto3's
        model = _operation(service, operation)
        report = ParamValidator().validate(arguments, model.input_shape)
        assert not report.has_errors(), report.generate_report()
        action = action_of(service, operation)
        assert action in PREFLIGHT, f"{action} is not among the permissions"
        self.asked.add(action)
        if action in self.denied:
            raise Denied(action)
        answer: Answer = getattr(self, f"_{operation}")(**arguments)
        assert set(answer) <= set(model.output_shape.members), f"{operation} answers no {set(answer)}"
        return answer

    def items(self, service: str, operation: str, key: str, **arguments: Any) -> Iterator[Answer]:  # noqa: ANN401
        yield from self.call(service, operation, **arguments)[key]

    def _list_service_quotas(self, ServiceCode: str) -> Answer:  # noqa: N803 - AWS's
        return {"Quotas": self._listed(self.quotas)} if ServiceCode else {}

    def _list_aws_default_service_quotas(self, ServiceCode: str) -> Answer:  # noqa: N803
        return {"Quotas": self._listed(self.defaults)} if ServiceCode else {}

    def _listed(self, values: Mapping[str, float]) -> list[Answer]:
        names = self.quota_names
        return [{"QuotaCode": code, "QuotaName": names.get(code, code), "Value": values[code]} for code in values]

    def _describe_repositories(self, repositoryNames: list[str]) -> Answer:  # noqa: N803
        [name] = repositoryNames
        if name not in self.repositories:
            raise refusal("RepositoryNotFoundException", f"{name} does not exist", "DescribeRepositories")
        return {"repositories": [{"repositoryArn": f"arn:aws:ecr:us-east-1:{ACCOUNT}:repository/{name}"}]}

    def _list_tags_for_resource(self, resourceArn: str) -> Answer:  # noqa: N803
        owner = self.repositories[resourceArn.partition("/")[2]]
        return {"tags": [{"Key": "trainyard:environment", "Value": owner}] if owner else []}

    def _describe_log_groups(self, logGroupNamePrefix: str) -> Answer:  # noqa: N803
        return {"logGroups": [{"logGroupName": n} for n in self.log_groups if n.startswith(logGroupNamePrefix)]}

    def _describe_slack_workspaces(self) -> Answer:
        return {"SlackWorkspaces": [{"SlackTeamId": name, "SlackTeamName": "of a team"} for name in self.workspaces]}

    def _list_microsoft_teams_configured_teams(self) -> Answer:
        return {"ConfiguredTeams": [{"TenantId": "of a tenant", "TeamId": name} for name in self.teams]}

    def _list_instances(self) -> Answer:
        return {"Instances": [{"InstanceArn": name} for name in self.identity_centers]}

    def _describe_capacity_reservations(self) -> Answer:
        return {"CapacityReservations": self.reservations}

    def _list_group_resources(self, Group: str) -> Answer:  # noqa: N803
        if Group not in self.groups:
            raise refusal("NotFoundException", f"Cannot find group: {Group}", "ListGroupResources")
        arn = f"arn:aws:ec2:us-east-1:{ACCOUNT}:capacity-reservation"
        return {"ResourceIdentifiers": [{"ResourceArn": f"{arn}/{name}"} for name in self.groups[Group]]}

    def _describe_instances(self, Filters: Any) -> Answer:  # noqa: N803, ANN401
        assert Filters[0]["Name"] == "instance-state-name"
        return {"Reservations": [{"Instances": self.instances}] if self.instances else []}

    def _describe_instance_types(self, Filters: Any) -> Answer:  # noqa: N803, ANN401
        known = {name: instance_types()[name].vcpus for name in Filters[0]["Values"] if name in instance_types()}
        return {"InstanceTypes": [{"InstanceType": n, "VCpuInfo": {"DefaultVCpus": v}} for n, v in known.items()]}

    def _describe_instance_type_offerings(self, LocationType: str, Filters: Any) -> Answer:  # noqa: N803, ANN401
        assert LocationType == "availability-zone-id"
        offers = [(name, zone) for name in Filters[0]["Values"] for zone in self.offers.get(name, [])]
        return {"InstanceTypeOfferings": [{"InstanceType": name, "Location": zone} for name, zone in offers]}

    def _describe_file_systems(self) -> Answer:
        return {"FileSystems": self.file_systems}

    def _describe_volumes(self) -> Answer:
        return {"Volumes": self.volumes}

    def _describe_vpcs(self) -> Answer:
        return {"Vpcs": [{"VpcId": name} for name in self.vpcs]}

    def _describe_addresses(self) -> Answer:
        return {"Addresses": [{"PublicIp": name} for name in self.addresses]}

    def _describe_nat_gateways(self) -> Answer:
        common = {"State": "available", "SubnetId": "subnet-0"}
        return {"NatGateways": [{"NatGatewayId": name, **common} for name in self.nat_gateways]}

    def _describe_subnets(self, Filters: Any = None, SubnetIds: Any = None) -> Answer:  # noqa: N803, ANN401
        if Filters:
            return {"Subnets": [{"SubnetId": "subnet-0"}] if self.nat_gateways else []}
        if SubnetIds[0] not in self.subnets:
            raise refusal("InvalidSubnetID.NotFound", f"The subnet ID '{SubnetIds[0]}' does not exist", "x")
        return {"Subnets": [{"SubnetId": SubnetIds[0], **self.subnets[SubnetIds[0]]}]}

    def _describe_availability_zones(self, Filters: Any) -> Answer:  # noqa: N803, ANN401
        assert Filters[0]["Name"] == "zone-id"
        zones = [zone for zone in Filters[0]["Values"] if zone in self.zones]
        return {"AvailabilityZones": [{"ZoneId": zone, "State": self.zones[zone]} for zone in zones]}

    def _describe_db_engine_versions(self, Engine: str, EngineVersion: str) -> Answer:  # noqa: N803
        family = self.engines.get(f"{Engine} {EngineVersion}")
        return {"DBEngineVersions": [{"DBParameterGroupFamily": family}] if family else []}

    def _describe_images(self, **arguments: Any) -> Answer:  # noqa: ANN401
        if "ImageIds" in arguments:
            found = [image for image in self.images if image["ImageId"] in arguments["ImageIds"]]
            if not found:
                raise refusal("InvalidAMIID.NotFound", "The image id does not exist", "DescribeImages")
            return {"Images": found}
        [pattern] = next(item["Values"] for item in arguments["Filters"] if item["Name"] == "name")
        return {"Images": [image for image in self.images if fnmatchcase(image.get("Name", ""), pattern)]}

    def _head_bucket(self, Bucket: str, ExpectedBucketOwner: str) -> Answer:  # noqa: N803
        assert ExpectedBucketOwner == ACCOUNT
        status = self.buckets.get(Bucket, "404")
        if status in ("301", "403", "404"):
            raise refusal(status, "", "HeadBucket")
        return {} if status == "200" else {"BucketRegion": status}

    def _list_stack_resources(self, StackName: str) -> Answer:  # noqa: N803
        if StackName not in self.stacks:
            raise refusal("ValidationError", f"Stack with id {StackName} does not exist", "ListStackResources")
        keys = ("ResourceType", "LogicalResourceId", "PhysicalResourceId")
        stack = [dict(zip(keys, resource, strict=True)) for resource in self.stacks[StackName]]
        return {"StackResourceSummaries": [{**item, "ResourceStatus": "CREATE_COMPLETE"} for item in stack]}

    def _list_exports(self) -> Answer:
        return {"Exports": []}


def context(account: Account, environment: Environment) -> CheckContext:
    """The context of a check of an environment in an account."""
    return CheckContext(environment, Path("environment.yaml"), account, tuple(deployed(account, environment)), NOW)


def results(
    check: Callable[[CheckContext], Iterator[CheckResult]], account: Account, environment: Environment
) -> list[CheckResult]:
    """What a check of an environment finds in an account."""
    return list(check(context(account, environment)))


def by_quota(found: list[CheckResult]) -> dict[str, CheckResult]:
    """Results by the quota's code, which the subject ends with."""
    return {result.subject.rpartition("(")[2].rstrip(")"): result for result in found}
