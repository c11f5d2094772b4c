"""The accounting database that the environment makes: its version, and the zone of its second subnet."""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, judged
from settings.regions import other_zone
from trainyard.parallelcluster import aurora_version, facts

_KEY = "cluster.slurm.accounting"


def check(context: CheckContext) -> Iterator[CheckResult]:
    """RDS offers the version in the family that ParallelCluster's own template has; the zone exists for the account."""
    accounting, network = context.environment.cluster.slurm.accounting, context.environment.network
    if accounting is None or not accounting.own:
        return
    version, family = aurora_version(accounting.version), facts("database")["family"]
    engine = facts("database")["engine"]
    offered = context.aws.call("rds", "describe_db_engine_versions", Engine=engine, EngineVersion=version)
    families = [item["DBParameterGroupFamily"] for item in offered["DBEngineVersions"]]
    todo = f"set {_KEY}.version to one that `aws rds describe-db-engine-versions --engine {engine}` lists"
    shown = ", ".join(families) or "not offered in this region"
    yield judged(version, "rds:DescribeDBEngineVersions", shown, family, ok=families == [family], todo=todo)
    if network.existing:
        yield _subnet(context, str(accounting.subnet_id), network.existing.vpc_id)
        return
    zone = accounting.zone or other_zone(network.zone)
    filters = [{"Name": "zone-id", "Values": [zone]}]
    zones = context.aws.call("ec2", "describe_availability_zones", Filters=filters)["AvailabilityZones"]
    states = ", ".join(item["State"] for item in zones) or "no such zone for this account"
    todo = f"set {_KEY}.zone to another zone of the region"
    yield judged(
        f"zone {zone}", "ec2:DescribeAvailabilityZones", states, "available", ok=states == "available", todo=todo
    )


def _subnet(context: CheckContext, subnet_id: str, vpc_id: str) -> CheckResult:
    zone, subject, todo = context.environment.network.zone, f"second subnet {subnet_id}", f"correct {_KEY}.subnet_id"
    try:
        [found] = context.aws.call("ec2", "describe_subnets", SubnetIds=[subnet_id])["Subnets"]
    except ClientError as error:
        if not code_of(error).startswith("InvalidSubnetI"):
            raise
        found = {}
    place = found.get("VpcId"), found.get("AvailabilityZoneId")
    shown = f"{place[0]}, {place[1]}" if found else "no such subnet"
    ok = place[0] == vpc_id and place[1] != zone
    return judged(subject, "ec2:DescribeSubnets", shown, f"{vpc_id}, a zone other than {zone}", ok=ok, todo=todo)
