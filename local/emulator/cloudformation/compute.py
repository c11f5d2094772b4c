"""The compute types: instances, placement groups, key pairs, volumes, capacity reservations."""

from __future__ import annotations

from typing import Any

from ministack.services import ec2
from ministack.services.cloudformation import provisioners

from local.emulator.cloudformation.provide import Made, Properties, provide, tag_specification
from local.emulator.wire import call


def install() -> None:
    """Add the compute types that ministack lacks."""
    provide("AWS::EC2::Instance", _create_instance, _delete_instance, _update_instance)
    provide("AWS::EC2::PlacementGroup", _create_group, _delete_group)
    provide("AWS::EC2::KeyPair", _create_key, _delete_key)
    provide("AWS::EC2::Volume", _create_volume, _delete_volume)
    provide("AWS::EC2::CapacityReservation", _create_reservation, _cancel_reservation)


def _instance_attributes(instance_id: str) -> dict[str, Any]:
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


def _create_instance(_logical_id: str, properties: Properties, _stack: str) -> Made:
    same = (
        "ImageId",
        "InstanceType",
        "SubnetId",
        "SecurityGroupIds",
        "KeyName",
        "UserData",
        "LaunchTemplate",
        "MetadataOptions",
    )
    request: dict[str, Any] = {key: properties[key] for key in same if properties.get(key)}
    if properties.get("IamInstanceProfile"):
        request["IamInstanceProfile"] = {"Name": properties["IamInstanceProfile"]}
    request["NetworkInterfaces"] = [
        {
            **{key: value for key, value in entry.items() if key not in {"GroupSet", "DeviceIndex"}},
            "Groups": entry.get("GroupSet", []),
            "DeviceIndex": int(entry["DeviceIndex"]),
        }
        for entry in properties.get("NetworkInterfaces", [])
    ]
    if not request["NetworkInterfaces"]:
        del request["NetworkInterfaces"]
    made = call(
        "RunInstances", MinCount=1, MaxCount=1, **request, TagSpecifications=tag_specification("instance", properties)
    )
    instance_id = made["Instances"][0]["InstanceId"]
    return instance_id, _instance_attributes(instance_id)


def _update_instance(physical_id: str, _old: Properties, new: Properties) -> dict[str, Any]:
    ec2._tags[physical_id] = [{"Key": str(t["Key"]), "Value": str(t["Value"])} for t in new.get("Tags", [])]
    return _instance_attributes(physical_id)


def _delete_instance(physical_id: str, _properties: Properties) -> None:
    if physical_id in ec2._instances:
        call("TerminateInstances", InstanceIds=[physical_id])


def _create_group(logical_id: str, properties: Properties, stack: str) -> Made:
    name = provisioners._physical_name(stack, logical_id)
    wanted = {key: properties[key] for key in ("PartitionCount", "SpreadLevel") if properties.get(key)}
    made = call(
        "CreatePlacementGroup",
        GroupName=name,
        Strategy=properties.get("Strategy", "cluster"),
        **wanted,
        TagSpecifications=tag_specification("placement-group", properties),
    )
    return name, {"GroupName": name, "GroupId": made.get("PlacementGroup", {}).get("GroupId", "")}


def _delete_group(physical_id: str, _properties: Properties) -> None:
    call("DeletePlacementGroup", GroupName=physical_id)


def _create_key(_logical_id: str, properties: Properties, _stack: str) -> Made:
    name = properties["KeyName"]
    tags = tag_specification("key-pair", properties)
    if properties.get("PublicKeyMaterial"):
        made = call(
            "ImportKeyPair",
            KeyName=name,
            PublicKeyMaterial=properties["PublicKeyMaterial"].encode(),
            TagSpecifications=tags,
        )
    else:
        made = call("CreateKeyPair", KeyName=name, TagSpecifications=tags)
    return name, {"KeyPairId": made.get("KeyPairId", ""), "KeyFingerprint": made.get("KeyFingerprint", "")}


def _delete_key(physical_id: str, _properties: Properties) -> None:
    call("DeleteKeyPair", KeyName=physical_id)


def _create_volume(_logical_id: str, properties: Properties, _stack: str) -> Made:
    same = ("AvailabilityZone", "Size", "VolumeType", "Iops", "Throughput", "Encrypted", "KmsKeyId", "SnapshotId")
    made = call(
        "CreateVolume",
        **{key: properties[key] for key in same if key in properties},
        TagSpecifications=tag_specification("volume", properties),
    )
    return made["VolumeId"], {"VolumeId": made["VolumeId"]}


def _delete_volume(physical_id: str, _properties: Properties) -> None:
    call("DeleteVolume", VolumeId=physical_id)


def _create_reservation(_logical_id: str, properties: Properties, _stack: str) -> Made:
    same = ("InstanceType", "InstancePlatform", "AvailabilityZone", "AvailabilityZoneId", "InstanceCount")
    made = call("CreateCapacityReservation", **{key: properties[key] for key in same if key in properties})
    record = made["CapacityReservation"]
    attributes = {
        key: record[key] for key in ("CapacityReservationArn", "AvailableInstanceCount", "TotalInstanceCount")
    }
    return record["CapacityReservationId"], {"Id": record["CapacityReservationId"], **attributes}


def _cancel_reservation(physical_id: str, _properties: Properties) -> None:
    call("CancelCapacityReservation", CapacityReservationId=physical_id)
