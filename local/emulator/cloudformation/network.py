"""The network types: each calls the EC2 action that CloudFormation would call."""

from __future__ import annotations

from typing import Any

from ministack.services import ec2

from local.emulator.cloudformation.provide import Made, Properties, provide, tag_specification
from local.emulator.wire import Ec2Error, call


def install() -> None:
    """Add the network types that ministack lacks."""
    provide("AWS::EC2::EIP", _create_address, _delete_address)
    provide("AWS::EC2::EIPAssociation", _associate_address, _disassociate_address)
    provide("AWS::EC2::NatGateway", _create_nat, _delete_nat)
    provide("AWS::EC2::FlowLog", _create_flow_log, _delete_flow_log)
    provide("AWS::EC2::NetworkInterface", _create_interface, _delete_interface, _update_interface)
    for direction in ("Ingress", "Egress"):
        provide(
            f"AWS::EC2::SecurityGroup{direction}",
            _rule_creator(direction),
            _rule_deleter(direction),
            _rule_updater(direction),
        )


def _create_address(_logical_id: str, properties: Properties, _stack: str) -> Made:
    made = call("AllocateAddress", Domain="vpc", TagSpecifications=tag_specification("elastic-ip", properties))
    attributes = {"AllocationId": made["AllocationId"], "PublicIp": made["PublicIp"]}
    if properties.get("InstanceId"):
        call("AssociateAddress", AllocationId=made["AllocationId"], InstanceId=properties["InstanceId"])
    return made["PublicIp"], attributes


def _delete_address(physical_id: str, _properties: Properties) -> None:
    for allocation in [key for key, record in ec2._addresses.items() if record["PublicIp"] == physical_id]:
        in_use = [
            nat["NatGatewayId"]
            for nat in ec2._nat_gateways.values()
            if nat["AllocationId"] == allocation and nat["State"] != "deleted"
        ]
        if in_use:
            raise Ec2Error("InvalidIPAddress.InUse", f"Address {physical_id} is in use by {', '.join(in_use)}")
        call("ReleaseAddress", AllocationId=allocation)


def _associate_address(_logical_id: str, properties: Properties, _stack: str) -> Made:
    wanted = {key: properties[key] for key in ("AllocationId", "InstanceId") if properties.get(key)}
    made = call("AssociateAddress", **wanted)
    return made["AssociationId"], {"Id": made["AssociationId"]}


def _disassociate_address(physical_id: str, _properties: Properties) -> None:
    call("DisassociateAddress", AssociationId=physical_id)


def _create_nat(_logical_id: str, properties: Properties, _stack: str) -> Made:
    if properties["SubnetId"] not in ec2._subnets:
        raise Ec2Error("InvalidSubnetID.NotFound", f"The subnet ID '{properties['SubnetId']}' does not exist")
    allocation = properties.get("AllocationId")
    if properties.get("ConnectivityType", "public") == "public" and allocation not in ec2._addresses:
        raise Ec2Error("InvalidAllocationID.NotFound", f"The allocation ID '{allocation}' does not exist")
    wanted = {key: properties[key] for key in ("SubnetId", "AllocationId", "ConnectivityType") if properties.get(key)}
    made = call("CreateNatGateway", **wanted, TagSpecifications=tag_specification("natgateway", properties))
    nat_id = made["NatGateway"]["NatGatewayId"]
    interface = call("CreateNetworkInterface", SubnetId=properties["SubnetId"], Description=f"Interface for {nat_id}")
    interface_id = interface["NetworkInterface"]["NetworkInterfaceId"]
    ec2._nat_gateways[nat_id]["EniId"] = interface_id
    return nat_id, {"NatGatewayId": nat_id, "EniId": interface_id}


def _delete_nat(physical_id: str, _properties: Properties) -> None:
    interface = ec2._nat_gateways.get(physical_id, {}).get("EniId")
    call("DeleteNatGateway", NatGatewayId=physical_id)
    ec2._network_interfaces.pop(interface, None)


def _create_flow_log(_logical_id: str, properties: Properties, _stack: str) -> Made:
    wanted: dict[str, Any] = {
        key: properties[key]
        for key in (
            "ResourceType",
            "TrafficType",
            "LogDestination",
            "LogDestinationType",
            "LogGroupName",
            "LogFormat",
            "DeliverLogsPermissionArn",
        )
        if properties.get(key)
    }
    made = call(
        "CreateFlowLogs",
        ResourceIds=[properties["ResourceId"]],
        **wanted,
        TagSpecifications=tag_specification("vpc-flow-log", properties),
    )
    flow_log = made["FlowLogIds"][0]
    return flow_log, {"Id": flow_log}


def _delete_flow_log(physical_id: str, _properties: Properties) -> None:
    call("DeleteFlowLogs", FlowLogIds=[physical_id])


def _create_interface(_logical_id: str, properties: Properties, _stack: str) -> Made:
    made = call(
        "CreateNetworkInterface",
        SubnetId=properties["SubnetId"],
        Groups=properties.get("GroupSet", []),
        Description=properties.get("Description", ""),
        TagSpecifications=tag_specification("network-interface", properties),
    )["NetworkInterface"]
    attributes = {
        "Id": made["NetworkInterfaceId"],
        "PrimaryPrivateIpAddress": made["PrivateIpAddress"],
        "VpcId": made["VpcId"],
    }
    return made["NetworkInterfaceId"], attributes


def _update_interface(physical_id: str, _old: Properties, new: Properties) -> dict[str, Any]:
    record = ec2._network_interfaces[physical_id]
    record["Groups"] = [
        {"GroupId": group, "GroupName": ec2._security_groups[group]["GroupName"]} for group in new.get("GroupSet", [])
    ]
    return {}


def _delete_interface(physical_id: str, _properties: Properties) -> None:
    if physical_id in ec2._network_interfaces:
        call("DeleteNetworkInterface", NetworkInterfaceId=physical_id)


def _permission(properties: Properties) -> dict[str, Any]:
    described = {"Description": properties["Description"]} if properties.get("Description") else {}
    permission: dict[str, Any] = {"IpProtocol": str(properties["IpProtocol"])}
    for key in ("FromPort", "ToPort"):
        if key in properties:
            permission[key] = int(properties[key])
    group = properties.get("SourceSecurityGroupId") or properties.get("DestinationSecurityGroupId")
    prefix_list = properties.get("SourcePrefixListId") or properties.get("DestinationPrefixListId")
    if properties.get("CidrIp"):
        permission["IpRanges"] = [{"CidrIp": properties["CidrIp"], **described}]
    if properties.get("CidrIpv6"):
        permission["Ipv6Ranges"] = [{"CidrIpv6": properties["CidrIpv6"], **described}]
    if group:
        permission["UserIdGroupPairs"] = [{"GroupId": group, **described}]
    if prefix_list:
        permission["PrefixListIds"] = [{"PrefixListId": prefix_list, **described}]
    return permission


def _rule_creator(direction: str) -> Any:
    def create(_logical_id: str, properties: Properties, _stack: str) -> Made:
        made = call(
            f"AuthorizeSecurityGroup{direction}", GroupId=properties["GroupId"], IpPermissions=[_permission(properties)]
        )
        rule = made["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        return rule, {"Id": rule}

    return create


def _rule_deleter(direction: str) -> Any:
    def delete(_physical_id: str, properties: Properties) -> None:
        # A group that went first took its rules with it.
        if properties["GroupId"] in ec2._security_groups:
            call(
                f"RevokeSecurityGroup{direction}",
                GroupId=properties["GroupId"],
                IpPermissions=[_permission(properties)],
            )

    return delete


def _rule_updater(direction: str) -> Any:
    # Only the description can change in place: the rule is written anew with it.
    def update(_physical_id: str, old: Properties, new: Properties) -> dict[str, Any]:
        call(f"RevokeSecurityGroup{direction}", GroupId=old["GroupId"], IpPermissions=[_permission(old)])
        call(f"AuthorizeSecurityGroup{direction}", GroupId=new["GroupId"], IpPermissions=[_permission(new)])
        return {}

    return update
