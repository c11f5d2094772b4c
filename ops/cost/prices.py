"""Prices of one region: the user's own, AWS's Price List API, and the price table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from settings.prices import regions

if TYPE_CHECKING:
    import boto3

    from settings import Environment

HOURS = 730
"""Hours of a month, as AWS's calculator counts them."""

_API_REGION = "us-east-1"
"""The Price List API answers there for all regions of the partition aws (AWS Billing guide, endpoints)."""


class Prices:
    """Prices in USD of one region, on demand unless the user gives others.

    Args:
        session: for instances, ask AWS's Price List API first; without one, prices come from prices.json only.
        own: the user's prices of instance-hours (`cost.prices`), which come first.
    """

    def __init__(
        self, region: str, session: boto3.Session | None = None, own: Mapping[str, float] | None = None
    ) -> None:
        self._region, self._session, self._own = region, session, own or {}
        self._known: Mapping[str, Any] = regions().get(region, {})
        self._asked: dict[str, float | None] = {}

    @classmethod
    def of(cls, environment: Environment, session: boto3.Session | None = None) -> Prices:
        """The prices of an environment's region, with its own ones."""
        return cls(environment.region, session, environment.cost.prices)

    def instance(self, kind: str, capacity: str = "ONDEMAND") -> float | None:
        """For an hour of a Linux instance with shared tenancy.

        Spot prices change, and a capacity block is paid in advance: both are known from the user only.
        """
        if kind in self._own:
            return self._own[kind]
        if capacity != "ONDEMAND":
            return None
        if kind not in self._asked:
            listed = self._listed(kind)
            self._asked[kind] = self._known.get("instance_hour", {}).get(kind) if listed is None else listed
        return self._asked[kind]

    def hourly(self, key: str) -> float | None:
        """For an hour, by a key of prices.json; those by month count a month of 730 hours."""
        found: float | None = self._known.get(key)
        return found / HOURS if found is not None and key.endswith("_month") else found

    def volume(self, gib: int) -> float | None:
        """For a month of a gp3 volume with the IOPS and throughput that are included."""
        return _times(gib, self._known.get("gp3_gib_month"))

    def file_system(self, system: Mapping[str, Any]) -> float | None:
        """For a month of a file system, in the form of CloudFormation's properties and of DescribeFileSystems."""
        capacity = int(system["StorageCapacity"])
        if system["FileSystemType"] == "LUSTRE":
            lustre = system["LustreConfiguration"]
            kind = f"{lustre['DeploymentType']} {lustre.get('PerUnitStorageThroughput', '')}".strip()
            return _times(capacity, self._known.get("lustre_gib_month", {}).get(kind))
        zfs = system["OpenZFSConfiguration"]
        known = self._known.get("openzfs", {}).get(zfs["DeploymentType"], {})
        storage = _times(capacity, known.get("gib_month"))
        throughput = _times(int(zfs["ThroughputCapacity"]), known.get("mbps_month"))
        return None if storage is None or throughput is None else storage + throughput

    def _listed(self, kind: str) -> float | None:
        # The filters are those of aws/karpenter-provider-aws, pkg/providers/pricing/pricing.go at 1d92708.
        if self._session is None or self._region.startswith(("cn-", "us-gov-")):
            return None
        wanted = {
            **{"regionCode": self._region, "instanceType": kind, "operatingSystem": "Linux", "tenancy": "Shared"},
            **{"preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand"},
        }
        filters: Any = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
        try:
            client = self._session.client("pricing", region_name=_API_REGION)
            listed = client.get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
            terms = json.loads(listed[0])["terms"]["OnDemand"] if listed else {}
            units = [item for term in terms.values() for item in term["priceDimensions"].values()]
            return max((float(unit["pricePerUnit"]["USD"]) for unit in units), default=None)
        except (BotoCoreError, ClientError, KeyError, ValueError):
            return None  # The call is denied, or the API does not answer: the price comes from prices.json.


def _times(amount: int, price: float | None) -> float | None:
    return None if price is None else amount * price
