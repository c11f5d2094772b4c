"""Dashboards as Grafana's JSON, by grafana-foundation-sdk.

The data sources are variables of each dashboard, so that it works whatever their uid is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from math import ceil
from string import ascii_uppercase

from grafana_foundation_sdk.builders import cloudwatch, common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from settings import Environment
from trainyard.dashboards.model import Dashboard, Metric, Panel, Variable

_SOURCES = {kind: models.DataSourceRef(kind, f"${{{kind}}}") for kind in ("prometheus", "cloudwatch")}
_TAG = "trainyard"
_ALL = models.VariableOption(text="All", value="$__all")
_GRID = 24
_HEIGHTS = {"figure": 4, "table": 9, "lines": 8, "stacked": 8}
_SIDE_BY_SIDE = {4: 6, 9: 2, 8: 3}
"""Most panels next to each other, by height."""

PanelBuilder = stat.Panel | table.Panel | timeseries.Panel
Target = cloudwatch.CloudWatchMetricsQuery | prometheus.Dataquery


def dashboard_json(dashboard: Dashboard, environment: Environment) -> str:
    """The JSON model of Grafana 11.6; newer versions read it too."""
    made = (
        dashboards.Dashboard(f"{environment.name}: {dashboard.title}")
        .uid(f"trainyard-{dashboard.name}")
        .description(dashboard.description)
        .tags([_TAG, environment.name])
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .timezone("browser")
        .refresh("30s")
        .link(
            dashboards.DashboardLink("Dashboards")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([_TAG])
            .keep_time(True)
        )
    )
    cloud = any(isinstance(query, Metric) for panel in dashboard.panels for query in panel.queries.values())
    for kind in ("prometheus", *(["cloudwatch"] if cloud else [])):
        made.with_variable(dashboards.DatasourceVariable(kind).type(kind).hide(models.VariableHide.HIDE_VARIABLE))
    for variable in dashboard.variables:
        made.with_variable(_variable(variable))
    number = 0
    for title, panels in dashboard.rows.items():
        number += 1
        made.with_row(dashboards.Row(title).id(number))
        for panel, width in _with_widths(panels):
            number += 1
            made.with_panel(_panel(panel, environment.region).id(number).span(width))
    return f"{json.dumps(made.build(), cls=JSONEncoder, sort_keys=True)}\n"


def _with_widths(panels: tuple[Panel, ...]) -> Iterator[tuple[Panel, int]]:
    """Panels of one height next to each other fill the page, because the SDK breaks lines only there."""
    for height, group in groupby(panels, lambda panel: _HEIGHTS[panel.kind]):
        same = list(group)
        count = ceil(len(same) / _SIDE_BY_SIDE[height])
        for line in range(count):
            part = same[len(same) * line // count : len(same) * (line + 1) // count]
            yield from ((panel, _GRID // len(part)) for panel in part[:-1])
            yield part[-1], _GRID - _GRID // len(part) * (len(part) - 1)


def _variable(variable: Variable) -> dashboards.QueryVariable | dashboards.TextBoxVariable:
    if variable.kind == "text":
        text = dashboards.TextBoxVariable(variable.name).label(variable.label).default_value(variable.query)
        return text.current(models.VariableOption(text=variable.query, value=variable.query))
    made = (
        dashboards.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(_SOURCES[variable.kind])
        .query(variable.query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
    if variable.kind == "prometheus":
        return made.sort(models.VariableSort.NUMERICAL_DESC)
    return made.regex(f"/({variable.pattern})/").multi(True).include_all(True).current(_ALL)


def _panel(panel: Panel, region: str) -> PanelBuilder:
    made = _visual(panel)
    made.title(panel.title).description(panel.description).height(_HEIGHTS[panel.kind])
    made.unit(panel.unit).no_value("no data").thresholds(_thresholds(panel))
    kinds = {"cloudwatch" if isinstance(query, Metric) else "prometheus" for query in panel.queries.values()}
    made.datasource(_SOURCES[kinds.pop()])
    for target in _targets(panel, region):
        made.with_target(target)
    return made


def _visual(panel: Panel) -> PanelBuilder:
    if panel.kind == "figure":
        unknown = models.SpecialValueMap(
            models.DashboardSpecialValueMapOptions(
                models.SpecialValueMatch.NA_N, models.ValueMappingResult(text="unknown")
            )
        )
        last = common.ReduceDataOptions().calcs(["lastNotNull"])
        return stat.Panel().graph_mode(options.BigValueGraphMode.AREA).reduce_options(last).mappings([unknown])
    if panel.kind == "table":
        return _table(panel)
    made = timeseries.Panel().line_width(1).fill_opacity(10).show_points(options.VisibilityMode.NEVER)
    made.legend(common.VizLegendOptions().show_legend(True).placement(options.LegendPlacement.BOTTOM))
    made.tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING))
    if panel.kind == "stacked":
        made.fill_opacity(40).stacking(common.StackingConfig().mode(options.StackingMode.NORMAL))
    if panel.unit == "percentunit":
        made.min(0).max(1)
    return made


def _table(panel: Panel) -> table.Panel:
    made = table.Panel().filterable(True)
    titles = list(panel.queries)
    values = ["Value"] if len(titles) == 1 else [f"Value #{name}" for name in ascii_uppercase[: len(titles)]]
    order = {name: place for place, name in enumerate((*panel.labels, *values))}
    organize = {
        "excludeByName": {"Time": True},
        "indexByName": order,
        "renameByName": dict(zip(values, titles, strict=True)),
    }
    made.with_transformation(models.DataTransformerConfig("merge", options={}))
    made.with_transformation(models.DataTransformerConfig("organize", options=organize))
    for title, unit in (panel.units or {}).items():
        made.override_by_name(title, [models.DynamicConfigValue("unit", unit)])
    for label in {"job", "hpc_job"}.intersection(panel.labels):
        link = {"title": "This job", "url": "/d/trainyard-job?var-job=${__value.text}&${__url_time_range}"}
        made.override_by_name(label, [models.DynamicConfigValue("links", [link])])
    return made


def _thresholds(panel: Panel) -> dashboards.ThresholdsConfig:
    warning, bad = panel.limits or (None, None)
    steps = [("green", None), ("yellow", warning), ("red", bad)] if panel.limits else [("text", None)]
    return (
        dashboards.ThresholdsConfig()
        .mode(models.ThresholdsMode.ABSOLUTE)
        .steps([models.Threshold(value=value, color=colour) for colour, value in steps])
    )


def _targets(panel: Panel, region: str) -> Iterator[Target]:
    for name, (legend, query) in zip(ascii_uppercase, panel.queries.items(), strict=False):
        if isinstance(query, Metric):
            yield _cloudwatch(name, legend, query, region)
            continue
        made = prometheus.Dataquery().ref_id(name).expr(query).legend_format(legend)
        if panel.kind == "table":
            made.format(PromQueryFormat.TABLE)
        # A sum over the time range has one value: at each step it would load twice the range.
        yield made.instant() if panel.kind == "table" or "$__range:" in query else made.range()


def _cloudwatch(name: str, legend: str, metric: Metric, region: str) -> cloudwatch.CloudWatchMetricsQuery:
    made = cloudwatch.CloudWatchMetricsQuery().ref_id(name).id(name.lower()).region(region).period("60")
    made.namespace(metric.namespace).metric_name(metric.name).statistic(metric.statistic)
    # One dimension is a variable with several values: Grafana makes a search of it, and a line for each resource.
    made.dimensions(dict(metric.dimensions)).match_exact(True)
    return made.label(f"{legend} ${{PROP('Dim.{metric.dimensions[0][0]}')}}".strip())
