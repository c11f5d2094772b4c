"""scripts/refresh_prices.py on price lists of the public form.

price_list/AmazonEC2.header.csv is the header line of the real file of 12 September 2025, version 20250912225308. The
rows are made here with values of the columns that the script reads; other services' files have fewer columns.
"""

from __future__ import annotations

import csv
import io
import json
from contextlib import nullcontext
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.jobs.conftest import load_module

ROOT = Path(__file__).parents[2]
HEADER = next(csv.reader([(Path(__file__).parent / "price_list" / "AmazonEC2.header.csv").read_text("utf-8")]))
refresh_prices: Any = load_module(ROOT / "scripts" / "refresh_prices.py")

Cells = dict[str, str]
REGION = "us-west-2"
LINUX = {
    "Product Family": "Compute Instance",
    "Operating System": "Linux",
    "Tenancy": "Shared",
    "Pre Installed S/W": "NA",
    "CapacityStatus": "Used",
    "MarketOption": "OnDemand",
    "Unit": "Hrs",
}


def p5(price: str, **more: str) -> Cells:
    return {
        **LINUX,
        "Instance Type": "p5.48xlarge",
        "usageType": "USW2-BoxUsage:p5.48xlarge",
        "PricePerUnit": price,
    } | more


def price_list(service: str, rows: list[Cells], columns: list[str] | None = None) -> str:
    names = columns or HEADER
    about = [("FormatVersion", "v1.0"), ("Disclaimer", "a text, with a comma")]
    about += [("Publication Date", "2026-11-20T10:00:00Z"), ("Version", "20261120100000"), ("OfferCode", service)]
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([*about, names])
    writer = csv.DictWriter(stream, names, quoting=csv.QUOTE_ALL)
    for row in rows:
        writer.writerow({"TermType": "OnDemand", "Currency": "USD", "StartingRange": "0", **row})
    return stream.getvalue()


OTHERS = {
    "AmazonVPC": [
        {"Product Family": "VpcEndpoint", "usageType": "USW2-VpcEndpoint-Hours", "PricePerUnit": "0.01"},
        {"Product Family": "VpcEndpoint", "usageType": "USW2-VpcEndpoint-Bytes", "PricePerUnit": "0.02"},
        {"Product Family": "", "usageType": "USW2-PublicIPv4:InUseAddress", "PricePerUnit": "0.005"},
        {"Product Family": "", "usageType": "USW2-PublicIPv4:IdleAddress", "PricePerUnit": "0.006"},
    ],
    "AWSELB": [
        {"Product Family": "Load Balancer-Network", "usageType": "USW2-LoadBalancerUsage", "PricePerUnit": "0.0225"},
        {"Product Family": "Load Balancer-Application", "usageType": "USW2-LoadBalancerUsage", "PricePerUnit": "0.03"},
    ],
    "awskms": [{"Product Family": "Encryption Key", "usageType": "us-west-2-KMS-Keys", "PricePerUnit": "1"}],
    "AWSSecretsManager": [
        {"Product Family": "Secret", "usageType": "USW2-AWSSecretsManager-Secrets", "PricePerUnit": "0.4"}
    ],
    "AmazonCloudWatch": [
        {"Product Family": "Alarm", "usageType": "USW2-CW:AlarmMonitorUsage", "PricePerUnit": "0.1"},
        {"Product Family": "Alarm", "usageType": "USW2-CW:HighResAlarmMonitorUsage", "PricePerUnit": "0.3"},
        {"Product Family": "Dashboard", "usageType": "DashboardsUsageHour", "PricePerUnit": "3"},
        {"Product Family": "Dashboard", "usageType": "DashboardsUsageHour", "PricePerUnit": "0"},
    ],
    "AmazonRDS": [
        {"usageType": "USW2-Aurora:ServerlessV2Usage", "Database Engine": engine, "PricePerUnit": price}
        | {"Product Family": "ServerlessV2"}
        for engine, price in (("Aurora MySQL", "0.12"), ("Aurora PostgreSQL", "0.13"))
    ],
}
EC2 = [
    p5("55.04"),
    p5("60", **{"Operating System": "Windows"}),
    p5("70", Tenancy="Dedicated"),
    p5("0", CapacityStatus="UnusedCapacityReservation"),
    p5("33", TermType="Reserved"),
    {**LINUX, "Instance Type": "x9.large", "usageType": "x", "PricePerUnit": "1"},
    {"Product Family": "Storage", "Volume API Name": "gp3", "Unit": "GB-Mo", "PricePerUnit": "0.08", "usageType": "v"},
    {"Product Family": "NAT Gateway", "usageType": "USW2-NatGateway-Hours", "PricePerUnit": "0.045"},
    {"Product Family": "NAT Gateway", "usageType": "USW2-NatGateway-Bytes", "PricePerUnit": "0.046"},
]


def files(folder: Path, ec2: list[Cells], **others: list[Cells]) -> Path:
    columns = ["TermType", "Currency", "StartingRange", "PricePerUnit", "Product Family", "usageType", "Unit"]
    (folder / f"AmazonEC2-{REGION}.csv").write_text(price_list("AmazonEC2", ec2), "utf-8")
    for service, rows in {**OTHERS, **others}.items():
        text = price_list(service, rows, [*columns, "Database Engine"])
        (folder / f"{service}-{REGION}.csv").write_text(text, "utf-8")
    return folder


def table(folder: Path, **known: object) -> Path:
    before = {"instance_hour": {"p5.48xlarge": 98.32, "p5e.48xlarge": 34.6}, "sources": {"instance_hour": "a design"}}
    path = folder / "prices.json"
    path.write_text(json.dumps({"about": "x", "regions": {REGION: before | known}}), "utf-8")
    return path


def run(tmp_path: Path, *ec2: Cells, **others: list[Cells]) -> tuple[int, dict[str, Any]]:
    out = table(tmp_path)
    status = refresh_prices.main(["--files", str(files(tmp_path, list(ec2) or EC2, **others))], out)
    return status, json.loads(out.read_text("utf-8"))["regions"][REGION]


def test_prices_come_with_version_and_date(tmp_path: Path) -> None:
    status, found = run(tmp_path)
    assert status == 0
    sources = found.pop("sources")
    assert sources["nat_gateway_hour"] == (
        "AWS Price List, AmazonEC2, version 20261120100000, published 2026-11-20T10:00:00Z"
    )
    assert found.keys() == sources.keys()
    assert found.pop("instance_hour")["p5.48xlarge"] == 55.04
    assert found == {
        "gp3_gib_month": 0.08, "nat_gateway_hour": 0.045, "interface_endpoint_hour": 0.01, "public_ipv4_hour": 0.005,
        "load_balancer_hour": 0.0225, "kms_key_month": 1.0, "secret_month": 0.4, "alarm_month": 0.1,
        "dashboard_month": 3.0, "aurora_acu_hour": 0.12,
    }  # fmt: skip


def test_what_the_list_lacks_is_kept_with_its_own_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = run(tmp_path)
    assert found["instance_hour"]["p5e.48xlarge"] == 34.6
    assert found["sources"]["instance_hour"].endswith("; kept: p5e.48xlarge (a design)")
    assert f"{REGION}: p5e.48xlarge: no price, kept from before" in capsys.readouterr().err
    assert "x9.large" not in found["instance_hour"]  # a family that the table does not have
    # A second refresh keeps the first source.
    out = tmp_path / "prices.json"
    assert refresh_prices.main(["--files", str(tmp_path)], out) == 0
    again = json.loads(out.read_text("utf-8"))["regions"][REGION]
    assert again == found


def test_a_price_that_is_there_twice_is_named_and_not_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = run(
        tmp_path, p5("55.04"), p5("56.04"), awskms=[*OTHERS["awskms"], {**OTHERS["awskms"][0], "PricePerUnit": "2"}]
    )
    said = capsys.readouterr().err
    assert found["instance_hour"]["p5.48xlarge"] == 98.32
    assert "p5.48xlarge: several prices [55.04, 56.04], not changed" in said
    assert "kms_key_month: several prices [1.0, 2.0], not changed" in said
    assert "kms_key_month" not in found
    assert "gp3_gib_month: no price, not changed" in said


@pytest.mark.parametrize("damage", ["missing", "another service", "no prices"])
def test_a_file_that_cannot_be_read_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    folder, out = files(tmp_path, EC2), table(tmp_path)
    file, before = folder / f"AWSELB-{REGION}.csv", out.read_text("utf-8")
    if damage == "missing":
        file.unlink()
    elif damage == "another service":
        file.write_text(price_list("AmazonS3", []), "utf-8")
    else:
        file.write_text("<html>Access denied</html>", "utf-8")
    assert refresh_prices.main(["--files", str(folder)], out) == 2
    assert "Nothing was written" in capsys.readouterr().err
    assert out.read_text("utf-8") == before


@pytest.mark.parametrize(("length", "refused"), [(3, nullcontext()), (4, pytest.raises(OSError, match="list is cut"))])
def test_a_list_that_ends_early_is_refused(monkeypatch: pytest.MonkeyPatch, length: int, refused: Any) -> None:  # noqa: ANN401
    text = f"HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\na,b"
    answer = HTTPResponse(Mock(makefile=lambda _: io.BytesIO(text.encode())))
    answer.begin()
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: answer)
    with refused, refresh_prices.download("AmazonEC2", REGION) as stream:
        assert list(stream) == ["a,b"]


def test_every_key_of_the_table_is_refreshed_or_known_to_be_of_fsx() -> None:
    table = json.loads((ROOT / "settings" / "data" / "prices.json").read_text("utf-8"))["regions"]
    keys = {key for known in table.values() for key in known} - {"sources", "instance_hour"}
    assert keys - refresh_prices.WANTED.keys() == {"lustre_gib_month", "openzfs"}
