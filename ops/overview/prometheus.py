"""The few calls of Prometheus' HTTP API that the page needs (prometheus.io/docs/prometheus/latest/querying/api)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import urllib3

from ops.problem import Problem

DEFAULT = "http://127.0.0.1:9090"
_TIMEOUT = urllib3.Timeout(connect=5, read=30)


@dataclass(frozen=True)
class Sample:
    """Labels of a series, and pairs of a time in seconds since 1970 and a value; NaN and infinity are None."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float | None], ...]

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.points[-1][1] if self.points else None


class Prometheus:
    """A server. Every method raises Problem if it does not answer, or not as Prometheus does."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._pool = urllib3.PoolManager(timeout=_TIMEOUT, retries=False, maxsize=8)

    def instant(self, query: str, time: float) -> list[Sample]:
        """Values of a query at a time."""
        result = self._get("query", {"query": query, "time": f"{time:.3f}"}, "result")
        return [Sample(item["metric"], (_point(item["value"]),)) for item in result]

    def over_time(self, query: str, end: float, span: int, step: int) -> list[Sample]:
        """Values of a query in the `span` seconds before `end`, each `step` seconds."""
        wanted = {"query": query, "start": f"{end - span:.3f}", "end": f"{end:.3f}", "step": str(step)}
        result = self._get("query_range", wanted, "result")
        return [Sample(item["metric"], tuple(map(_point, item["values"]))) for item in result]

    def alerts(self) -> list[dict[str, Any]]:
        """Firing alerts, with labels, annotations and activeAt."""
        found: list[dict[str, Any]] = self._get("alerts", {}, "alerts")
        return [alert for alert in found if alert["state"] == "firing"]

    def _get(self, path: str, fields: Mapping[str, str], key: str) -> Any:  # noqa: ANN401 - JSON
        url = f"{self.address}/api/v1/{path}"
        try:
            answer = self._pool.request("GET", url, fields=fields)
        except urllib3.exceptions.HTTPError as error:
            raise Problem(
                f"Prometheus does not answer at {self.address} ({type(error).__name__}). For AWS, keep `trainyard "
                "connect ENV --dashboards` running in another terminal; for the laboratory, start it with "
                "`trainyard lab up ENV --metrics`. --prometheus gives another address."
            ) from error
        try:
            body = json.loads(answer.data)
            if body["status"] == "success":
                return body["data"][key]
            raise Problem(f"Prometheus at {self.address} refused {fields.get('query', path)}: {body['error']}")
        except (ValueError, KeyError, TypeError) as error:
            raise Problem(
                f"{self.address} answered with status {answer.status}, and not as Prometheus does. Give the address "
                "of Prometheus with --prometheus."
            ) from error


def _point(pair: tuple[float, str]) -> tuple[float, float | None]:
    time, text = pair
    value = float(text)
    return time, value if math.isfinite(value) else None
