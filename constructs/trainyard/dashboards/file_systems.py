"""Dashboard of file systems, their S3 associations, NAT gateways, endpoints and disks."""

from __future__ import annotations

from settings import Environment
from settings.stacks import stack_name
from trainyard.dashboards.cluster import DISK_USE
from trainyard.dashboards.model import Dashboard, Metric, Variable, lines, table

_FSX, _NAT = (("FileSystemId", "$file_system"),), (("NatGatewayId", "$nat_gateway"),)
_ENDPOINT = (("Service Name", "*"), ("VPC Id", "$vpc"), ("VPC Endpoint Id", "*"), ("Endpoint Type", "*"))
_INODES = "1 - node_filesystem_files_free / (node_filesystem_files > 0)"


def file_systems(environment: Environment) -> Dashboard:
    """The dashboard. Resources in CloudWatch are found by the tag that CloudFormation gives them.

    Sources of the metrics: FSx for Lustre user guide, "Amazon FSx for Lustre metrics and dimensions"; Amazon VPC user
    guide, "NAT gateway metrics and dimensions"; AWS PrivateLink guide, "CloudWatch metrics for AWS PrivateLink".
    """

    def arns(kind: str, part: str) -> str:
        tag = f'{{"aws:cloudformation:stack-name":["{stack_name(environment, part)}"]}}'
        return f"resource_arns({environment.region}, {kind}, {tag})"

    def rate(way: str, by: str) -> str:
        return f"sum by ({by}) (rate(trainyard_lustre_{way}_bytes_total[$__rate_interval]))"

    # fmt: off
    return Dashboard("file-systems", "File systems", "Lustre and disks as nodes see them, FSx and NAT by CloudWatch.", {
        "Lustre clients": (
            lines("Read and written", "Bps", "Sum of all nodes.",
                  {"{{mount}} read": rate("read", "mount"), "{{mount}} written": rate("write", "mount")}),
            lines("Nodes that read most", "Bps", "The ten busiest.", {"{{node}}": f"topk(10, {rate('read', 'node')})"}),
            lines("Nodes that write most", "Bps", "The ten busiest.",
                  {"{{node}}": f"topk(10, {rate('write', 'node')})"}),
            lines("Operations", "cps", "Calls of all clients.",
                  {"{{operation}}": "sum by (operation) (rate(trainyard_lustre_operations_total[$__rate_interval]))"}),
        ),
        "FSx for Lustre and S3": (
            lines("Traffic of the servers", "bytes", "In each minute: clients, imports and exports.",
                  {"read": Metric("AWS/FSx", "DataReadBytes", "Sum", _FSX),
                   "written": Metric("AWS/FSx", "DataWriteBytes", "Sum", _FSX)}),
            lines("Free capacity", "bytes", "Of all storage targets together.",
                  {"free": Metric("AWS/FSx", "FreeDataStorageCapacity", "Sum", _FSX)}),
            lines("Oldest change that waits", "s", "For export to S3, or for import from S3.",
                  {way: Metric("AWS/FSx", "AgeOfOldestQueuedMessage", "Maximum", (*_FSX, ("Publisher", publisher)))
                   for way, publisher in (("export", "AutoExport"), ("import", "AutoImport"))}),
        ),
        "NAT gateways and endpoints": (
            lines("NAT traffic", "bytes", "In each minute. Each byte is charged; S3 has a gateway endpoint.",
                  {"out": Metric("AWS/NATGateway", "BytesOutToDestination", "Sum", _NAT),
                   "in": Metric("AWS/NATGateway", "BytesInFromDestination", "Sum", _NAT)}),
            lines("NAT errors", "short", "In each minute: connections without a free port; dropped packets.",
                  {"no port": Metric("AWS/NATGateway", "ErrorPortAllocation", "Sum", _NAT),
                   "dropped": Metric("AWS/NATGateway", "PacketsDropCount", "Sum", _NAT)}),
            lines("Endpoint traffic", "bytes", "In each minute, of interface endpoints.",
                  {"": Metric("AWS/PrivateLinkEndpoints", "BytesProcessed", "Sum", _ENDPOINT)}),
        ),
        "Capacity": (
            lines("In use", "percentunit", "The fullest of all nodes, for each mount.",
                  {"{{mountpoint}}": f"max by (mountpoint) ({DISK_USE})"}),
            table("Fullest", "The 20 fullest file systems of all nodes.", ("node", "mountpoint"),
                  {"In use": f"topk(20, max by (node, mountpoint) ({DISK_USE}))"}, {"In use": "percentunit"}),
            table("Fewest free inodes", "Without inodes no file can be created.", ("node", "mountpoint"),
                  {"In use": f"topk(20, max by (node, mountpoint) ({_INODES}))"}, {"In use": "percentunit"}),
        ),
    }, (
        Variable("file_system", "File system", "cloudwatch", arns("fsx:file-system", "storage"), "fs-[0-9a-f]+"),
        Variable("vpc", "VPC", "cloudwatch", arns("ec2:vpc", "network"), "vpc-[0-9a-f]+"),
        Variable("nat_gateway", "NAT gateway", "cloudwatch", arns("ec2:natgateway", "network"), "nat-[0-9a-f]+"),
    ))
    # fmt: on
