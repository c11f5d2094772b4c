"""RunInstances as EC2 checks it, with launch templates, dry runs and real network interfaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ministack.services import ec2

from local.emulator.ec2 import catalogue, reservations
from local.emulator.service import ApiError
from local.emulator.wire import answers, call


def merge(request: dict[str, Any]) -> dict[str, Any]:
    """The request with its launch template's data; the request's own values win."""
    named = request.get("LaunchTemplate")
    if not named:
        return request
    key = "LaunchTemplateId" if named.get("LaunchTemplateId") else "LaunchTemplateName"
    template = next((found for found in ec2._launch_templates.values() if found[key] == named[key]), None)
    if template is None:
        message = f"The specified launch template does not exist: {named[key]}"
        raise ApiError("InvalidLaunchTemplateId.NotFound", message)
    wanted = str(named.get("Version", "$Default"))
    numbers = {"$Latest": template["LatestVersionNumber"], "$Default": template["DefaultVersionNumber"]}
    number = numbers.get(wanted, wanted)
    version = next((v for v in template["Versions"] if str(v["VersionNumber"]) == str(number)), None)
    if version is None:
        raise ApiError("InvalidLaunchTemplateId.VersionNotFound", f"Could not find launch template version {wanted}")
    return {**version["LaunchTemplateData"], **request}


def check(request: dict[str, Any], image_of: Callable[[str], dict[str, Any] | None]) -> dict[str, Any]:
    """Raise ApiError for what EC2 refuses before it launches anything; returns the subnet of the instance."""
    interfaces = request.get("NetworkInterfaces", [])
    subnet_id = request.get("SubnetId") or next((found for i in interfaces if (found := _subnet_of(i))), None)
    subnet: dict[str, Any] | None = ec2._subnets.get(subnet_id) if subnet_id else None
    if subnet is None:
        raise ApiError("InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist")
    kind = request.get("InstanceType", "")
    if kind not in catalogue.instance_types():
        raise ApiError("InvalidInstanceType", f"The instance type '{kind}' does not exist")
    if not catalogue.offered(kind, subnet["AvailabilityZoneId"]):
        raise ApiError(
            "Unsupported",
            f"Your requested instance type ({kind}) is not supported in your requested Availability Zone "
            f"({subnet['AvailabilityZone']}).",
        )
    image_id = request.get("ImageId", "")
    if image_of(image_id) is None:
        raise ApiError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
    groups = [*request.get("SecurityGroupIds", []), *(g for i in interfaces for g in i.get("Groups", []))]
    for group in groups:
        record = ec2._security_groups.get(group)
        if record is None:
            raise ApiError("InvalidGroup.NotFound", f"The security group '{group}' does not exist")
        if record["VpcId"] != subnet["VpcId"]:
            raise ApiError(
                "InvalidParameter", f"Security group {group} and subnet {subnet_id} belong to different networks."
            )
    _check_interfaces(kind, interfaces)
    _check_reservation(request, kind, subnet)
    return subnet


def _subnet_of(interface: dict[str, Any]) -> str | None:
    """The subnet that an interface asks for, or that the existing interface it names is in."""
    existing = interface.get("NetworkInterfaceId")
    if existing and existing not in ec2._network_interfaces:
        raise ApiError("InvalidNetworkInterfaceID.NotFound", f"The network interface '{existing}' does not exist")
    subnet_id: str | None = ec2._network_interfaces[existing]["SubnetId"] if existing else interface.get("SubnetId")
    return subnet_id


def _check_interfaces(kind: str, interfaces: list[dict[str, Any]]) -> None:
    network = catalogue.instance_types()[kind]["NetworkInfo"]
    cards = {int(i.get("NetworkCardIndex", 0)) for i in interfaces}
    if cards and max(cards) >= network["MaximumNetworkCards"]:
        raise ApiError(
            "InvalidParameterValue", f"{kind} has {network['MaximumNetworkCards']} network cards, not {max(cards) + 1}"
        )
    if any("efa" in i.get("InterfaceType", "") for i in interfaces) and not network.get("EfaSupported"):
        raise ApiError("UnsupportedOperation", f"{kind} does not support Elastic Fabric Adapter")
    if len(interfaces) > 1 and any(i.get("AssociatePublicIpAddress") for i in interfaces):
        raise ApiError(
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network "
            "interfaces.",
        )


def _reservation_of(request: dict[str, Any]) -> str | None:
    target = (request.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    return target.get("CapacityReservationId") or None


def _check_reservation(request: dict[str, Any], kind: str, subnet: dict[str, Any]) -> None:
    reservation = _reservation_of(request)
    if reservation is None:
        return
    record = reservations.get(reservation)
    wanted = {"InstanceType": kind, "AvailabilityZone": subnet["AvailabilityZone"], "State": "active"}
    for key, value in wanted.items():
        if record[key] != value:
            raise ApiError(
                "InvalidParameterValue",
                f"{record['CapacityReservationId']} has {key} {record[key]}, the request {value}",
            )


def install(image_of: Callable[[str], dict[str, Any] | None]) -> None:
    """Replace ministack's RunInstances (services/ec2.py:814), which checks nothing and has no dry run."""

    @answers("RunInstances")
    def run(request: dict[str, Any]) -> dict[str, Any]:
        merged = merge(request)
        subnet = check(merged, image_of)
        if request.get("DryRun"):
            raise ApiError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        first = (merged.get("NetworkInterfaces") or [{}])[0]
        groups = merged.get("SecurityGroupIds") or first.get("Groups") or _groups_of(first, subnet)
        profile = merged.get("IamInstanceProfile") or {}
        resolved = None
        if profile:
            resolved, error = ec2._resolve_iam_instance_profile(
                iam_arn=profile.get("Arn", ""), iam_name=profile.get("Name", ""), allow_missing=False
            )
            if error:
                raise ApiError("InvalidParameterValue", f"Invalid IAM Instance Profile {profile}")
        if wanted := _reservation_of(merged):
            reservations.take(wanted, int(request.get("MaxCount", 1)))
        made = ec2._launch_instances_internal(
            image_id=merged["ImageId"],
            instance_type=merged["InstanceType"],
            subnet_id=subnet["SubnetId"],
            count=request.get("MaxCount", 1),
            key_name=merged.get("KeyName", ""),
            user_data=merged.get("UserData", ""),
            sg_ids=groups,
            iam_profile=resolved,
        )
        specs = merged.get("TagSpecifications", [])
        tags = {t["Key"]: t["Value"] for s in specs if s.get("ResourceType") == "instance" for t in s["Tags"]}
        public = first.get("AssociatePublicIpAddress", subnet.get("MapPublicIpOnLaunch", False))
        reserved = _reservation_of(merged)
        lifecycle = (merged.get("InstanceMarketOptions") or {}).get("MarketType")
        for instance in made:
            _settle(instance, subnet, groups, public=bool(public), given=first.get("NetworkInterfaceId"))
            instance |= {"CapacityReservationId": reserved, "InstanceLifecycle": lifecycle}
            ec2._tags[instance["InstanceId"]] = [{"Key": key, "Value": value} for key, value in tags.items()]
        ids = [instance["InstanceId"] for instance in made]
        answer = call("DescribeInstances", InstanceIds=ids)
        return {"Instances": [i for reservation in answer["Reservations"] for i in reservation["Instances"]]}

    terminate = ec2._ACTION_MAP["TerminateInstances"]

    def terminate_with_interfaces(params: dict[str, Any]) -> Any:
        before = {key for key, record in ec2._instances.items() if record["State"]["Name"] != "terminated"}
        answer = terminate(params)
        gone = {key for key, record in ec2._instances.items() if record["State"]["Name"] == "terminated"}
        for key in gone & before:
            if ec2._instances[key].get("CapacityReservationId"):
                reservations.give_back(ec2._instances[key]["CapacityReservationId"])
        for key, interface in list(ec2._network_interfaces.items()):
            if (interface.get("Attachment") or {}).get("InstanceId") in gone:
                del ec2._network_interfaces[key]
        return answer

    ec2._ACTION_MAP["TerminateInstances"] = terminate_with_interfaces
    _add_purchase()


def _add_purchase() -> None:
    """Adds to DescribeInstances what ministack leaves out (services/ec2.py:4194): lifecycle and reservation."""
    original = ec2._instance_xml

    def extended(instance: dict[str, Any]) -> str:
        answer: str = original(instance)
        more = ""
        if instance.get("InstanceLifecycle") not in (None, "on-demand"):
            more += f"<instanceLifecycle>{instance['InstanceLifecycle']}</instanceLifecycle>"
        if instance.get("CapacityReservationId"):
            more += f"<capacityReservationId>{instance['CapacityReservationId']}</capacityReservationId>"
        head, end, _ = answer.rpartition("</item>")
        return f"{head}{more}{end}"

    ec2._instance_xml = extended


def _settle(
    instance: dict[str, Any], subnet: dict[str, Any], groups: list[str], *, public: bool, given: str | None
) -> None:
    """Give the instance a network interface, and the interface's address."""
    interface_id = given
    if interface_id is None:
        made = call("CreateNetworkInterface", SubnetId=subnet["SubnetId"], Groups=groups)
        interface_id = str(made["NetworkInterface"]["NetworkInterfaceId"])
    interface = ec2._network_interfaces[interface_id]
    interface |= {
        "Status": "in-use",
        "Attachment": {
            "AttachmentId": "eni-attach-" + interface_id[4:],
            "InstanceId": instance["InstanceId"],
            "DeviceIndex": 0,
            "Status": "attached",
            "AttachTime": instance["LaunchTime"],
        },
    }
    address = interface["PrivateIpAddress"]
    instance |= {
        "VpcId": subnet["VpcId"],
        "PrivateIpAddress": address,
        "PrivateDnsName": f"ip-{address.replace('.', '-')}.ec2.internal",
        "Placement": {"AvailabilityZone": subnet["AvailabilityZone"], "Tenancy": "default"},
    }
    if not public:
        instance |= {"PublicIpAddress": "", "PublicDnsName": ""}


def _groups_of(interface: dict[str, Any], subnet: dict[str, Any]) -> list[str]:
    """The groups of the existing interface that is named, or the VPC's default group."""
    existing = ec2._network_interfaces.get(interface.get("NetworkInterfaceId", ""))
    if existing:
        return [group["GroupId"] for group in existing["Groups"]]
    return [ec2._vpcs[subnet["VpcId"]]["DefaultSecurityGroupId"]]
