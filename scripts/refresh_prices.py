"""Writes prices of AWS's public price list into settings/data/prices.json, with their version and date.

    .venv/bin/python scripts/refresh_prices.py                     # the regions that the file has
    .venv/bin/python scripts/refresh_prices.py --region eu-north-1 # another one as well
    .venv/bin/python scripts/refresh_prices.py --files FOLDER      # from SERVICE-REGION.csv, without a network

It reads the CSV of each service and region (AWS Billing guide, "Reading the price list files") as a stream: that of
Amazon EC2 has hundreds of megabytes. It needs no credentials. A price that the list does not have, or has more than
once, is not changed and is named. Amazon FSx is not read: its prices keep the source that the file names.
Exit status: 0 written; 2 wrong use, or a file cannot be read.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

OUT = Path(__file__).resolve().parent.parent / "settings" / "data" / "prices.json"
LIST = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws"
_METADATA_LINES = 5
Row = Mapping[str, str]
Open = Callable[[str, str], AbstractContextManager[TextIO]]
"""Opens the CSV of a service in a region."""


class Wanted(NamedTuple):
    """Where the price of a key of prices.json is: service, and values that its rows have; a usage type ends as given.

    Families and usage types: infracost/infracost at 95ba4f4, internal/resources/aws; the one of public addresses: AWS
    News Blog, "New - AWS Public IPv4 Address Charge".
    """

    service: str
    usage: str
    values: dict[str, str]


WANTED = {
    "gp3_gib_month": Wanted("AmazonEC2", "", {"Product Family": "Storage", "Volume API Name": "gp3", "Unit": "GB-Mo"}),
    "nat_gateway_hour": Wanted("AmazonEC2", "NatGateway-Hours", {"Product Family": "NAT Gateway"}),
    "interface_endpoint_hour": Wanted("AmazonVPC", "VpcEndpoint-Hours", {"Product Family": "VpcEndpoint"}),
    "public_ipv4_hour": Wanted("AmazonVPC", "PublicIPv4:InUseAddress", {}),
    "load_balancer_hour": Wanted("AWSELB", "LoadBalancerUsage", {"Product Family": "Load Balancer-Network"}),
    "kms_key_month": Wanted("awskms", "KMS-Keys", {"Product Family": "Encryption Key"}),
    "secret_month": Wanted("AWSSecretsManager", "", {"Product Family": "Secret"}),
    "alarm_month": Wanted("AmazonCloudWatch", "CW:AlarmMonitorUsage", {"Product Family": "Alarm"}),
    "dashboard_month": Wanted("AmazonCloudWatch", "DashboardsUsageHour", {"Product Family": "Dashboard"}),
    "aurora_acu_hour": Wanted(
        "AmazonRDS",
        "Aurora:ServerlessV2Usage",
        {"Product Family": "ServerlessV2", "Database Engine": "Aurora MySQL"},
    ),
}
_LINUX = {
    **{"Operating System": "Linux", "Tenancy": "Shared", "Pre Installed S/W": "NA", "CapacityStatus": "Used"},
    **{"MarketOption": "OnDemand", "Unit": "Hrs"},
}
_COMPUTE = ("Compute Instance", "Compute Instance (bare metal)")


class Listed(NamedTuple):
    """What one CSV says: every price of each key, and of each instance type."""

    source: str
    keys: dict[str, set[float]]
    types: dict[str, set[float]]


def read(stream: Iterable[str], service: str, families: set[str]) -> Listed:
    """The prices of a service's CSV.

    Raises:
        ValueError: it is not a price list of that service.
    """
    lines = iter(stream)
    about = dict(row[:2] for row in csv.reader(itertools.islice(lines, _METADATA_LINES)) if len(row) > 1)
    if about.get("OfferCode") != service:
        raise ValueError(f"a price list of {about.get('OfferCode')!r}, not of {service}")
    source = f"AWS Price List, {service}, version {about['Version']}, published {about['Publication Date']}"
    listed = Listed(source, {}, {})
    wanted = {key: item for key, item in WANTED.items() if item.service == service}
    for row in csv.DictReader(lines):
        if row["TermType"] != "OnDemand" or row["Currency"] != "USD" or not (price := float(row["PricePerUnit"])):
            continue
        for key in _keys(row, wanted):
            listed.keys.setdefault(key, set()).add(price)
        name = row.get("Instance Type") or ""
        if name.partition(".")[0] in families and row["Product Family"] in _COMPUTE and _has(row, _LINUX):
            listed.types.setdefault(name, set()).add(price)
    return listed


def _keys(row: Row, wanted: Mapping[str, Wanted]) -> Iterator[str]:
    first_tier = row["StartingRange"] in ("", "0")
    for key, item in wanted.items():
        # The usage type begins with the region's code, except in us-east-1.
        ends = re.search(rf"(^|-){re.escape(item.usage)}$", row["usageType"]) if item.usage else True
        if first_tier and ends and _has(row, item.values):
            yield key


def _has(row: Row, values: Mapping[str, str]) -> bool:
    return all(row.get(name) == value for name, value in values.items())


def refresh(region: str, known: dict[str, Any], families: set[str], opened: Open) -> Iterator[str]:
    """Write the region's prices into `known`; yields what was not found, or more than once."""
    sources = known.setdefault("sources", {})
    for service in dict.fromkeys(item.service for item in WANTED.values()):
        with opened(service, region) as stream:
            listed = read(stream, service, families)
        for key in (key for key, item in WANTED.items() if item.service == service):
            prices = listed.keys.get(key, set())
            if len(prices) == 1:
                known[key], sources[key] = prices.pop(), listed.source
            else:
                what = f"several prices {sorted(prices)}" if prices else "no price"
                yield f"{region}: {key}: {what}, not changed"
        if service == "AmazonEC2":
            yield from _types(region, known, listed)


def _types(region: str, known: dict[str, Any], listed: Listed) -> Iterator[str]:
    found = {name: min(prices) for name, prices in listed.types.items() if len(prices) == 1}
    for name, prices in sorted(listed.types.items()):
        if len(prices) > 1:
            yield f"{region}: {name}: several prices {sorted(prices)}, not changed"
    before, sources = known.get("instance_hour", {}), known["sources"]
    kept = sorted(before.keys() - found.keys())
    known["instance_hour"] = dict(sorted({**before, **found}.items()))
    # Only once: the next refresh would repeat the text of this one.
    former = sources.get("instance_hour", "").partition("; kept: ")
    earlier = (
        f"; kept: {', '.join(kept)} ({former[2].partition(' (')[2].removesuffix(')') or former[0]})" if kept else ""
    )
    sources["instance_hour"] = f"{listed.source}{earlier}"
    for name in kept:
        yield f"{region}: {name}: no price, kept from before"


@contextmanager
def download(service: str, region: str) -> Iterator[TextIO]:
    """The CSV of the price list, as a stream. Raises OSError where the connection ended before the end of the list."""
    with urllib.request.urlopen(f"{LIST}/{service}/current/{region}/index.csv", timeout=60) as answer:  # noqa: S310 - https
        # Buffered: read1() of an answer does not count down its length before Python 3.11.8.
        yield io.TextIOWrapper(io.BufferedReader(answer), encoding="utf-8", newline="")
        if answer.length:
            raise OSError("the price list is cut")


def main(arguments: list[str] | None = None, out: Path = OUT) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--region", action="append", default=[], help="another region than those of the file")
    parser.add_argument("--files", type=Path, help="a folder with SERVICE-REGION.csv instead of the network")
    options = parser.parse_args(arguments)
    data = json.loads(out.read_text("utf-8"))
    regions: dict[str, dict[str, Any]] = data["regions"]
    families = {name.partition(".")[0] for known in regions.values() for name in known.get("instance_hour", {})}

    def local(service: str, region: str) -> TextIO:
        return (options.files / f"{service}-{region}.csv").open(encoding="utf-8", newline="")

    try:
        for region in dict.fromkeys([*regions, *options.region]):
            known = regions.setdefault(region, {})
            for line in refresh(region, known, families, local if options.files else download):
                sys.stderr.write(f"{line}\n")
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"{region}: the price list cannot be read: {error!r}. Nothing was written.\n")
        return 2
    out.write_text(f"{json.dumps(data, indent=1)}\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
