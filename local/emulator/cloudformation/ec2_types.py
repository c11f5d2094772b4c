"""The EC2 types that ministack lacks: each calls the EC2 action that CloudFormation would call.

Any other type that ministack lacks (placement groups, key pairs, volumes) is recorded only (provide.record_others).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ministack.services import ec2

from local.emulator.cloudformation.provide import Made, Properties, provide
from local.emulator.service import ApiError
from local.emulator.wire import call


def install() -> None:
    """Add the types."""
    provide("AWS::EC2::Instance", _create_instance, _delete_instance, _update_instance)
    provide("AWS::EC2::EIP", _create_address, _delete_address)
    provide("AWS::EC2::NatGateway", _create_nat, _delete_nat)
    provide("AWS::EC2::FlowLog", _create_flow_log, _delete_flow_log)
    provide("AWS::EC2::NetworkInterface", _create_interface, _delete_interface, _update_interface)
    for direction in ("Ingress", "Egress"):
        provide(f"AWS::EC2::SecurityGroup{direction}", *_rule(direction))


def _given(properties: Properties, *names: str) -> Properties:
    return {name: properties[name] for name in names if properties.get(name)}


def _tags(kind: str, properties: Properties) -> list[dict[str, Any]]:
    tags = [{"Key": str(t["Key"]), "Value": str(t["Value"])} for t in properties.get("Tags", [])]
    return [{"ResourceType": kind, "Tags": tags}] if tags else []


def _create_instance(_logical_id: str, properties: Properties, _stack: str) -> Made:
    request = _given(
        properties,
        *("ImageId", "InstanceType", "SubnetId", "SecurityGroupIds", "KeyName"),
        *("UserData", "LaunchTemplate", "MetadataOptions"),
    )
    if properties.get("IamInstanceProfile"):
        request["IamInstanceProfile"] = {"Name": properties["IamInstanceProfile"]}
    interfaces = [
        {
            **{key: value for key, value in entry.items() if key != "GroupSet"},
            "Groups": entry.get("GroupSet", []),
            "DeviceIndex": int(entry["DeviceIndex"]),
        }
        for entry in properties.get("NetworkInterfaces", [])
    ]
    if interfaces:
        request["NetworkInterfaces"] = interfaces
    made = call("RunInstances", MinCount=1, MaxCount=1, **request, TagSpecifications=_tags("instance", properties))
    instance_id = made["Instances"][0]["InstanceId"]
    return instance_id, _instance_attributes(instance_id)


def _instance_attributes(instance_id: str) -> Properties:
    record = ec2._instances[instance_id]
    return {
        "InstanceId": instance_id,
        "PrivateIp": record["PrivateIpAddress"],
        "PublicIp": record["PublicIpAddress"],
        "PrivateDnsName": record["PrivateDnsName"],
        "PublicDnsName": record["PublicDnsName"],
        "AvailabilityZone": record["Placement"]["AvailabilityZone"],
        "VpcId": record["VpcId"],
    }


def _update_instance(physical_id: str, _old: Properties, new: Properties) -> Properties:
    ec2._tags[physical_id] = [{"Key": str(t["Key"]), "Value": str(t["Value"])} for t in new.get("Tags", [])]
    return _instance_attributes(physical_id)


def _delete_instance(physical_id: str, _properties: Properties) -> None:
    if physical_id in ec2._instances:
        call("TerminateInstances", InstanceIds=[physical_id])


def _create_address(_logical_id: str, properties: Properties, _stack: str) -> Made:
    made = call("AllocateAddress", Domain="vpc", TagSpecifications=_tags("elastic-ip", properties))
    return made["PublicIp"], {"AllocationId": made["AllocationId"], "PublicIp": made["PublicIp"]}


def _delete_address(physical_id: str, _properties: Properties) -> None:
    for allocation in [key for key, record in ec2._addresses.items() if record["PublicIp"] == physical_id]:
        nats = [nat for nat in ec2._nat_gateways.values() if nat["AllocationId"] == allocation]
        if in_use := [nat["NatGatewayId"] for nat in nats if nat["State"] != "deleted"]:
            raise ApiError("InvalidIPAddress.InUse", f"Address {physical_id} is in use by {', '.join(in_use)}")
        call("ReleaseAddress", AllocationId=allocation)


def _create_nat(_logical_id: str, properties: Properties, _stack: str) -> Made:
    allocation = properties.get("AllocationId")
    if properties.get("ConnectivityType", "public") == "public" and allocation not in ec2._addresses:
        raise ApiError("InvalidAllocationID.NotFound", f"The allocation ID '{allocation}' does not exist")
    interface = call("CreateNetworkInterface", SubnetId=properties["SubnetId"], Description="Interface of NAT gateway")
    interface_id = interface["NetworkInterface"]["NetworkInterfaceId"]
    made = call(
        "CreateNatGateway",
        **_given(properties, "SubnetId", "AllocationId", "ConnectivityType"),
        TagSpecifications=_tags("natgateway", properties),
    )
    nat_id = made["NatGateway"]["NatGatewayId"]
    ec2._nat_gateways[nat_id]["EniId"] = interface_id
    return nat_id, {"NatGatewayId": nat_id, "EniId": interface_id}


def _delete_nat(physical_id: str, _properties: Properties) -> None:
    interface = ec2._nat_gateways.get(physical_id, {}).get("EniId")
    call("DeleteNatGateway", NatGatewayId=physical_id)
    ec2._network_interfaces.pop(interface, None)


def _create_flow_log(_logical_id: str, properties: Properties, _stack: str) -> Made:
    given = _given(
        properties,
        *("ResourceType", "TrafficType", "LogDestination", "LogDestinationType", "LogGroupName"),
        *("LogFormat", "DeliverLogsPermissionArn"),
    )
    tags = _tags("vpc-flow-log", properties)
    made = call("CreateFlowLogs", ResourceIds=[properties["ResourceId"]], **given, TagSpecifications=tags)
    return made["FlowLogIds"][0], {"Id": made["FlowLogIds"][0]}


def _delete_flow_log(physical_id: str, _properties: Properties) -> None:
    call("DeleteFlowLogs", FlowLogIds=[physical_id])


def _create_interface(_logical_id: str, properties: Properties, _stack: str) -> Made:
    made = call(
        "CreateNetworkInterface",
        SubnetId=properties["SubnetId"],
        Groups=properties.get("GroupSet", []),
        Description=properties.get("Description", ""),
        TagSpecifications=_tags("network-interface", properties),
    )["NetworkInterface"]
    key = made["NetworkInterfaceId"]
    return key, {"Id": key, "PrimaryPrivateIpAddress": made["PrivateIpAddress"], "VpcId": made["VpcId"]}


def _update_interface(physical_id: str, _old: Properties, new: Properties) -> Properties:
    groups = [(group, ec2._security_groups[group]["GroupName"]) for group in new.get("GroupSet", [])]
    named = [{"GroupId": group, "GroupName": name} for group, name in groups]
    ec2._network_interfaces[physical_id]["Groups"] = named
    return {}


def _delete_interface(physical_id: str, _properties: Properties) -> None:
    if physical_id in ec2._network_interfaces:
        call("DeleteNetworkInterface", NetworkInterfaceId=physical_id)


def _rule(direction: str) -> tuple[Callable[..., Made], Callable[..., None], Callable[..., Properties]]:
    """Create, delete and update of a rule of a security group."""

    def authorize(properties: Properties) -> Properties:
        permissions = [_permission(properties)]
        return call(f"AuthorizeSecurityGroup{direction}", GroupId=properties["GroupId"], IpPermissions=permissions)

    def create(_logical_id: str, properties: Properties, _stack: str) -> Made:
        rule = authorize(properties)["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        return rule, {"Id": rule}

    def delete(_physical_id: str, properties: Properties) -> None:
        # A group that was deleted first took its rules with it.
        if properties["GroupId"] in ec2._security_groups:
            permissions = [_permission(properties)]
            call(f"RevokeSecurityGroup{direction}", GroupId=properties["GroupId"], IpPermissions=permissions)

    def update(physical_id: str, old: Properties, new: Properties) -> Properties:
        # Only the description can change in place.
        delete(physical_id, old)
        authorize(new)
        return {}

    return create, delete, update


def _permission(properties: Properties) -> Properties:
    permission: Properties = {"IpProtocol": str(properties["IpProtocol"])}
    permission |= {key: int(properties[key]) for key in ("FromPort", "ToPort") if key in properties}
    for key, ranges, member in (
        ("CidrIp", "IpRanges", "CidrIp"),
        ("CidrIpv6", "Ipv6Ranges", "CidrIpv6"),
        ("SourceSecurityGroupId", "UserIdGroupPairs", "GroupId"),
        ("DestinationSecurityGroupId", "UserIdGroupPairs", "GroupId"),
        ("SourcePrefixListId", "PrefixListIds", "PrefixListId"),
        ("DestinationPrefixListId", "PrefixListIds", "PrefixListId"),
    ):
        if properties.get(key):
            permission[ranges] = [{member: properties[key], **_given(properties, "Description")}]
    return permission
