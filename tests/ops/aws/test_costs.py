"""Costs by the hour: which resources, which prices, and what is said where a price is unknown."""

from __future__ import annotations

import io
import json
from pathlib import Path

import boto3
import pytest
from botocore.stub import ANY, Stubber
from rich.console import Console

from ops.aws import costs
from ops.aws.deployment import show_costs
from ops.review.stacks import Stack

ROOT = Path(__file__).parents[3]
DATA = json.loads((ROOT / "settings" / "data" / "prices.json").read_text())["regions"]


def golden(name: str, region: str) -> dict[str, Stack]:
    files = (ROOT / "tests" / "golden" / name).glob("*.template.json")
    return {file.name: Stack(file.name, file.name, region, json.loads(file.read_text())) for file in files}


def test_eighty_nodes_cost_what_their_design_says() -> None:
    """2,768 USD an hour: the design of jakarta-80xp5e."""
    found = costs.costs(golden("jakarta-80xp5e", "ap-southeast-3"), costs.Prices("ap-southeast-3"))
    [nodes] = [cost for cost in found if cost.what == "compute node p5e.48xlarge"]
    assert (nodes.idle, nodes.full) == (0, 80)
    assert nodes.hourly is not None
    assert nodes.hourly * nodes.full == pytest.approx(2768)


def test_idle_is_without_compute_nodes_and_unknown_prices_are_in_neither_sum() -> None:
    found = costs.costs(golden("local", "us-east-1"), costs.Prices("us-east-1"))
    by_name = {cost.what: cost for cost in found}
    assert by_name["compute node p5.48xlarge"] == costs.Cost("compute node p5.48xlarge", 55.04, 0, 2)
    assert by_name["NAT gateway"].idle == 1
    idle, full, unknown = costs.total(found)
    known = [cost for cost in found if cost.hourly is not None]
    assert idle == pytest.approx(sum(cost.hourly * cost.idle for cost in known if cost.hourly is not None))
    assert full - idle > 2 * 55.04
    assert unknown == ["1 x OpenZFS SINGLE_AZ_HA_2 64 GiB, 160 MB/s"]
    output = io.StringIO()
    show_costs(Console(file=output, width=200), found)
    assert "price unknown" in output.getvalue()
    assert f"${idle:,.2f} an hour idle, ${full:,.2f} an hour at full size" in output.getvalue()
    assert "Without a known price, and in neither sum: 1 x OpenZFS SINGLE_AZ_HA_2" in output.getvalue()


def test_what_is_paid_for_beyond_the_usual_is_named_as_unknown() -> None:
    lustre = {"DeploymentType": "PERSISTENT_2", "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000}}
    system = {"FileSystemType": "LUSTRE", "StorageCapacity": 1200, "LustreConfiguration": lustre}
    root = {"LocalStorage": {"RootVolume": {"Size": 100, "Throughput": 500}}}
    configuration = {
        "HeadNode": {"InstanceType": "m5.large", **root},
        "LoginNodes": {"Pools": [{"InstanceType": "m5.large", "Count": 2}]},
        "Scheduling": {"SlurmQueues": []},
    }
    resources = {
        "F": {"Type": "AWS::FSx::FileSystem", "Properties": system},
        "C": {"Type": "Custom::ParallelCluster", "Properties": {"Configuration": configuration}},
    }
    stack = Stack("x", "x", "us-east-1", {"Resources": resources})
    unknown = costs.total(costs.costs({"x": stack}, costs.Prices("us-east-1")))[2]
    assert {
        "1 x 6000 metadata IOPS of Lustre",
        "1 x root volume gp3 100 GiB, 3000 IOPS, 500 MiB/s",
        "2 x root volume of a login node, as large as the AMI's",
        "1 x load balancer of login nodes",
    } <= set(unknown)


def test_price_of_a_file_system() -> None:
    """1.2 TB at 125 MB/s per TiB cost 174 USD a month: the source that prices.json names."""
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
    system = {"FileSystemType": "LUSTRE", "StorageCapacity": 1200, "LustreConfiguration": lustre}
    hourly = costs.Prices("us-east-1").file_system(system)
    assert hourly is not None
    assert hourly * costs.HOURS == pytest.approx(174)
    assert costs.Prices("eu-west-1").file_system(system) is None


@pytest.mark.parametrize("capacity", ["SPOT", "CAPACITY_BLOCK"])
def test_prices_that_change_or_are_paid_in_advance_are_unknown(capacity: str) -> None:
    queue = {"CapacityType": capacity, "ComputeResources": [{"InstanceType": "p5.48xlarge", "MaxCount": 2}]}
    configuration = {"HeadNode": {"InstanceType": "m5.large"}, "Scheduling": {"SlurmQueues": [queue]}}
    template = {"Resources": {"C": {"Type": "Custom::ParallelCluster", "Properties": {"Configuration": configuration}}}}
    found = costs.costs({"x": Stack("x", "x", "us-east-1", template)}, costs.Prices("us-east-1"))
    [nodes] = [cost for cost in found if cost.what.startswith("compute node")]
    assert nodes.hourly is None
    assert capacity.lower().replace("_", " ") in nodes.what


@pytest.mark.parametrize("region", DATA)
def test_every_price_names_its_source(region: str) -> None:
    keys = DATA[region].keys() - {"sources"}
    assert keys
    assert keys == DATA[region]["sources"].keys()


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([{"terms": {"OnDemand": {"T": {"priceDimensions": {"D": {"pricePerUnit": {"USD": "12.5"}}}}}}}], 12.5),
        ([], 55.04),
        (None, 55.04),
    ],
    ids=["a price", "none", "denied"],
)
def test_the_price_list_api_comes_before_the_file(listed: list[object] | None, expected: float) -> None:
    session = boto3.Session("key", "secret", region_name="us-east-1")
    client = session.client("pricing")
    with Stubber(client) as stub, pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "client", lambda *_, **__: client)
        if listed is None:
            stub.add_client_error("get_products", "AccessDeniedException")
        else:
            answer = {"PriceList": [json.dumps(item) for item in listed]}
            stub.add_response("get_products", answer, {"ServiceCode": "AmazonEC2", "Filters": ANY})
        prices = costs.Prices("us-east-1", session)
        assert prices.instance("p5.48xlarge") == expected
        assert prices.instance("p5.48xlarge") == expected  # asked once


def test_a_database_costs_its_least_capacity_and_is_unknown_without_a_price() -> None:
    capacity = {"ServerlessV2ScalingConfiguration": {"MinCapacity": 0.5, "MaxCapacity": 4}}
    template = {"Resources": {"Cluster": {"Type": "AWS::RDS::DBCluster", "Properties": capacity}}}
    prices = costs.Prices("us-east-1")
    prices._known = {}
    stacks = {"database": Stack("database", "unit-database", "us-east-1", template)}
    assert costs.costs(stacks, prices) == [costs.Cost("Aurora MySQL, 0.5 ACU at least", None)]
    prices._known = {"aurora_acu_hour": 0.2}
    assert costs.costs(stacks, prices) == [costs.Cost("Aurora MySQL, 0.5 ACU at least", 0.1)]
