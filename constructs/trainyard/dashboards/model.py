"""What a dashboard consists of, whatever draws it: Grafana, or the page of `trainyard status --web`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Unit = Literal["short", "percentunit", "bytes", "Bps", "celsius", "watt", "hertz", "s", "cps", "currencyUSD"]
"""Grafana's identifiers (packages/grafana-data/src/valueFormats/categories.ts): bytes are binary, Bps decimal."""


@dataclass(frozen=True)
class Metric:
    """A metric of CloudWatch in the environment's region, each minute. Values of dimensions may be variables."""

    namespace: str
    name: str
    statistic: Literal["Average", "Maximum", "Minimum", "Sum"]
    dimensions: tuple[tuple[str, str], ...]


Queries = Mapping[str, "str | Metric"]
"""PromQL or a metric, by the name of its series; {{label}} in a name becomes the label's value.

PromQL may have the variables of its dashboard, `$__rate_interval` and `$__range`."""


@dataclass(frozen=True)
class Panel:
    """One chart, figure or table.

    Attributes:
        kind: lines; stacked lines; figure: the last value of one query; table: one row for each set of `labels`, with a
            column for each query.
        limits: from these values on it is yellow, and red.
        units: of columns that have another unit than the table.
    """

    kind: Literal["lines", "stacked", "figure", "table"]
    title: str
    unit: Unit
    description: str
    queries: Queries
    limits: tuple[float, float] | None = None
    labels: tuple[str, ...] = ()
    units: Mapping[str, Unit] | None = None


@dataclass(frozen=True)
class Variable:
    """A choice at the top of a dashboard.

    Attributes:
        kind: values of a label in Prometheus, ARNs of resources from CloudWatch, or a text.
        query: label_values(...), resource_arns(...), or the text's default.
        pattern: the part of an ARN that is the value.
    """

    name: str
    label: str
    kind: Literal["prometheus", "cloudwatch", "text"]
    query: str
    pattern: str = ""


@dataclass(frozen=True)
class Dashboard:
    """Rows of panels by the rows' titles. The name is the file's, and `trainyard-` with it is Grafana's uid."""

    name: str
    title: str
    description: str
    rows: Mapping[str, tuple[Panel, ...]]
    variables: tuple[Variable, ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels in their order."""
        return tuple(panel for row in self.rows.values() for panel in row)


def figure(title: str, unit: Unit, description: str, expr: str, limits: tuple[float, float] | None = None) -> Panel:
    """The last value of a query."""
    return Panel("figure", title, unit, description, {title: expr}, limits)


def lines(title: str, unit: Unit, description: str, queries: Queries) -> Panel:
    """Lines over time."""
    return Panel("lines", title, unit, description, queries)


def stacked(title: str, unit: Unit, description: str, queries: Queries) -> Panel:
    """Areas over time that add up."""
    return Panel("stacked", title, unit, description, queries)


def table(
    title: str, description: str, labels: tuple[str, ...], queries: Queries, units: Mapping[str, Unit] | None = None
) -> Panel:
    """The last values of queries by labels."""
    return Panel("table", title, "short", description, queries, labels=labels, units=units)


def with_values(query: str, span: str, rate: str, values: Mapping[str, str] | None = None) -> str:
    """A query without variables. `span` replaces `$__range` and `rate` `$__rate_interval`, for example 1h and 1m."""
    known = {"__range": span, "__rate_interval": rate, **(values or {})}
    return re.sub(r"\$(\w+)", lambda found: known.get(found[1], found[0]), query)
