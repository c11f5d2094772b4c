"""Estimates: which resources, which prices, which sums, and what is said where a price is unknown."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import boto3
import pytest
from botocore.stub import ANY, Stubber
from rich.console import Console

from ops.aws.deployment import show_costs
from ops.cost.estimate import Category, Estimate, Item, estimate
from ops.cost.prices import HOURS, Prices
from ops.review.stacks import Stack

ROOT = Path(__file__).parents[3]
DATA = json.loads((ROOT / "settings" / "data" / "prices.json").read_text())["regions"]


def golden(name: str, region: str) -> dict[str, Stack]:
    files = (ROOT / "tests" / "golden" / name).glob("*.template.json")
    return {file.name: Stack(file.name, file.name, region, json.loads(file.read_text())) for file in files}


def stack(**resources: object) -> dict[str, Stack]:
    return {"x": Stack("x", "x", "us-east-1", {"Resources": resources})}


def cluster(*queues: object, **more: object) -> dict[str, Stack]:
    head = {"HeadNode": {"InstanceType": "m5.large"}, "Scheduling": {"SlurmQueues": list(queues)}}
    return stack(C={"Type": "Custom::ParallelCluster", "Properties": {"Configuration": head | more}})


def by_name(found: Estimate) -> dict[str, Item]:
    return {item.what: item for item in found.items}


def test_eighty_reserved_nodes_cost_what_their_design_says_also_idle() -> None:
    """2,768 USD an hour: the design of jakarta-80xp5e. EC2 charges the reservation whether its instances run or not."""
    found = estimate(golden("jakarta-80xp5e", "ap-southeast-3"), Prices("ap-southeast-3"))
    [nodes] = [item for item in found.items if "p5e.48xlarge" in item.what]
    assert nodes.what.endswith("reserved: charged while unused")
    assert (nodes.idle, nodes.full) == (80, 80)
    assert nodes.price is not None
    assert nodes.price * nodes.full == pytest.approx(2768)
    assert found.idle >= 2768


def test_the_three_sums_are_those_of_their_items() -> None:
    found = estimate(golden("local", "us-east-1"), Prices("us-east-1"))
    items = by_name(found)
    assert items["compute node p5.48xlarge"] == Item(Category.COMPUTE, "compute node p5.48xlarge", 55.04, 0, 2)
    assert items["NAT gateway"].idle == 1
    hours = [item for item in found.items if item.price is not None and item.category is not Category.STORAGE]
    assert found.idle == pytest.approx(sum(item.price * item.idle for item in hours if item.price))
    assert found.full - found.idle > 2 * 55.04
    # Lustre 1.2 TB, the monitoring host's two volumes: 50 and 20 GiB
    assert found.storage == pytest.approx(174 + 70 * 0.08)
    assert found.idle_month == pytest.approx(found.idle * HOURS + found.storage)


def test_an_unknown_price_is_named_and_makes_the_sum_a_least_amount() -> None:
    found = estimate(golden("local", "us-east-1"), Prices("us-east-1"))
    assert "1 x OpenZFS SINGLE_AZ_HA_2 64 GiB, 160 MB/s" in found.unknown
    assert f"at least ${found.storage:,.2f} a month for storage" in found.summary
    output = io.StringIO()
    show_costs(Console(file=output, width=400), found)
    assert "price unknown" in output.getvalue()
    assert found.summary in output.getvalue()
    assert "Without a known price, and in no sum: 1 x OpenZFS SINGLE_AZ_HA_2" in output.getvalue()
    assert "S3 (4)" in output.getvalue()


def test_a_sum_of_unknown_prices_only_is_unknown_and_not_zero() -> None:
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
    system = {"FileSystemType": "LUSTRE", "StorageCapacity": 1200, "LustreConfiguration": lustre}
    found = estimate(stack(F={"Type": "AWS::FSx::FileSystem", "Properties": system}), Prices("eu-west-1"))
    assert "unknown a month for storage" in found.summary
    assert "$0.00 an hour idle" in found.summary


def test_what_is_paid_for_beyond_the_usual_is_named_as_unknown() -> None:
    lustre = {"DeploymentType": "PERSISTENT_2", "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000}}
    system = {"FileSystemType": "LUSTRE", "StorageCapacity": 1200, "LustreConfiguration": lustre}
    root = {"LocalStorage": {"RootVolume": {"Size": 100, "Throughput": 500}}}
    made = cluster(HeadNode={"InstanceType": "m5.large", **root}, LoginNodes={"Pools": [LOGIN]})
    made |= {"y": stack(F={"Type": "AWS::FSx::FileSystem", "Properties": system})["x"]}
    assert {
        "1 x 6000 metadata IOPS of Lustre",
        "1 x root volume of the head node, gp3 100 GiB, 3000 IOPS, 500 MiB/s",
        "2 x root volume of a login node, as large as the AMI's",
    } <= set(estimate(made, Prices("us-east-1")).unknown)


LOGIN = {"InstanceType": "m5.large", "Count": 2}


@pytest.mark.parametrize("capacity", ["SPOT", "CAPACITY_BLOCK"])
@pytest.mark.parametrize(("own", "price"), [({}, None), ({"p5.48xlarge": 31.5}, 31.5)], ids=["unknown", "given"])
def test_prices_that_change_or_are_paid_in_advance_come_from_the_user(
    capacity: str, own: dict[str, float], price: float | None
) -> None:
    queue = {"CapacityType": capacity, "ComputeResources": [{"InstanceType": "p5.48xlarge", "MaxCount": 2}]}
    found = estimate(cluster(queue), Prices("us-east-1", own=own))
    [nodes] = [item for item in found.items if item.what.startswith("compute node")]
    assert nodes.price == price
    assert capacity.lower().replace("_", " ") in nodes.what


@pytest.mark.parametrize("at", ["queue", "compute resource"])
def test_a_reservation_is_charged_while_it_is_unused(at: str) -> None:
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
    compute = {"InstanceType": "p5.48xlarge", "MinCount": 1, "MaxCount": 4} | (target if at != "queue" else {})
    queue = {"ComputeResources": [compute]} | (target if at == "queue" else {})
    items = by_name(estimate(cluster(queue), Prices("us-east-1", own={"p5.48xlarge": 40.0})))
    nodes = items["compute node p5.48xlarge, reserved: charged while unused"]
    assert (nodes.price, nodes.idle, nodes.full) == (40.0, 4, 4)
    assert items["root volume of a compute node, gp3 0 GiB"].idle == 1  # of the node that runs


def test_a_database_costs_by_its_capacity_units() -> None:
    scaling = {"MinCapacity": 0.5, "MaxCapacity": 4}
    properties = {"Engine": "aurora-mysql", "ServerlessV2ScalingConfiguration": scaling}
    instance = {"Type": "AWS::RDS::DBInstance", "Properties": {"DBInstanceClass": "db.serverless"}}
    database = {"Type": "AWS::RDS::DBCluster", "Properties": properties}
    found = estimate(stack(D=database, I=instance), Prices("us-east-1"))
    units = by_name(found)["Aurora capacity unit (ACU)"]
    assert (units.idle, units.full) == (0.5, 4)
    assert found.unknown[-1] == "1 x storage and I/O of Aurora, by use"
    old = estimate(stack(D={"Type": "AWS::RDS::DBCluster", "Properties": {"Engine": "mysql"}}), Prices("us-east-1"))
    assert old.unknown == ("1 x database mysql, not serverless",)


def test_a_type_that_nobody_classified_is_unknown_and_not_free() -> None:
    found = estimate(stack(A={"Type": "AWS::SageMaker::Endpoint"}), Prices("us-east-1"))
    assert found.unknown == ("1 x AWS::SageMaker::Endpoint, a type without a price in this estimate",)


@pytest.mark.parametrize("name", ["local", "jakarta-80xp5e"])
def test_every_type_of_the_shipped_environments_is_classified(name: str) -> None:
    region = "us-east-1" if name == "local" else "ap-southeast-3"
    found = estimate(golden(name, region), Prices(region))
    assert [line for line in found.unknown if "a type without a price" in line] == []


@pytest.mark.parametrize("region", DATA)
def test_every_price_names_its_source_and_date(region: str) -> None:
    keys = DATA[region].keys() - {"sources"}
    assert keys
    assert keys == DATA[region]["sources"].keys()
    assert [text for text in DATA[region]["sources"].values() if not re.search(r"\b20\d\d-\d\d-\d\d\b", text)] == []


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
        prices = Prices("us-east-1", session)
        assert prices.instance("p5.48xlarge") == expected
        assert prices.instance("p5.48xlarge") == expected  # asked once
