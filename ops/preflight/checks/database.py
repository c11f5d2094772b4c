"""The accounting database that the environment makes: its version, and the zone of its second subnet."""

from __future__ import annotations

from collections.abc import Iterator

from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, judged
from settings.regions import other_zone
from trainyard.database import engine_version
from trainyard.parallelcluster import facts

_KEY = "cluster.slurm.accounting"


def check(context: CheckContext) -> Iterator[CheckResult]:
    """RDS offers the version in the family that ParallelCluster's own template has; the zone exists for the account."""
    accounting, network = context.environment.cluster.slurm.accounting, context.environment.network
    if accounting is None or not accounting.own:
        return
    version, family = engine_version(accounting), facts("database")["family"]
    engine = facts("database")["engine"]
    offered = context.aws.call("rds", "describe_db_engine_versions", Engine=engine, EngineVersion=version)
    families = [item["DBParameterGroupFamily"] for item in offered["DBEngineVersions"]]
    todo = f"set {_KEY}.version to one that `aws rds describe-db-engine-versions --engine {engine}` lists"
    shown = ", ".join(families) or "not offered in this region"
    yield judged(version, "rds:DescribeDBEngineVersions", shown, family, ok=families == [family], todo=todo)
    if network.existing:
        filters = [{"Name": "subnet-id", "Values": [accounting.subnet_id]}]
        found = context.aws.call("ec2", "describe_subnets", Filters=filters)["Subnets"]
        places = [f"{item.get('VpcId')} {item.get('AvailabilityZoneId')}" for item in found]
        ok = [item.get("VpcId") for item in found] == [network.existing.vpc_id] and network.zone not in places[0]
        wanted = f"in {network.existing.vpc_id}, not in {network.zone}"
        subject, todo = f"second subnet {accounting.subnet_id}", f"correct {_KEY}.subnet_id"
        yield judged(subject, "ec2:DescribeSubnets", ", ".join(places) or "no such subnet", wanted, ok=ok, todo=todo)
        return
    zone = accounting.zone or other_zone(network.zone)
    filters = [{"Name": "zone-id", "Values": [zone]}]
    zones = context.aws.call("ec2", "describe_availability_zones", Filters=filters)["AvailabilityZones"]
    states = ", ".join(item["State"] for item in zones) or "no such zone for this account"
    todo = f"set {_KEY}.zone to another zone of the region"
    yield judged(
        f"zone {zone}", "ec2:DescribeAvailabilityZones", states, "available", ok=states == "available", todo=todo
    )
