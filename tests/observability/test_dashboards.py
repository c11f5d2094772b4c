"""Dashboards: accepted by the SDK's schema, and every query is PromQL of known series."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from settings import Environment
from settings.loader import load
from settings.prices import regions
from trainyard.dashboards import dashboards, render
from trainyard.dashboards.cost import gpu_hour_usd
from trainyard.dashboards.model import Metric, Panel, Unit, with_values

ROOT = Path(__file__).parents[2]
TABLE = json.loads((Path(__file__).parent / "series.json").read_text())
NAMES = ("overview", "gpu-health", "job", "efa-nccl", "file-systems", "slurm-shares", "cost")
METRICS = {
    "AWS/FSx": {"DataReadBytes", "DataWriteBytes", "FreeDataStorageCapacity", "AgeOfOldestQueuedMessage"},
    "AWS/PrivateLinkEndpoints": {"BytesProcessed"},
    "AWS/NATGateway": {"BytesOutToDestination", "BytesInFromDestination", "ErrorPortAllocation", "PacketsDropCount"},
}


@pytest.fixture(scope="module")
def environment() -> Environment:
    return load(ROOT / "environments" / "local.yaml")


@pytest.fixture(scope="module")
def rendered(environment: Environment) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in render(environment).items()}


def queries(environment: Environment) -> Iterator[tuple[str, Panel, str]]:
    """PromQL of all panels."""
    for dashboard in dashboards(environment):
        for panel in dashboard.panels:
            for query in panel.queries.values():
                if isinstance(query, str):
                    yield f"{dashboard.name}: {panel.title}", panel, query


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def test_every_dashboard_is_a_file(rendered: dict[str, Any]) -> None:
    assert tuple(rendered) == tuple(f"{name}.json" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_sdk_reads_what_it_wrote(rendered: dict[str, Any], name: str) -> None:
    """Nothing is lost between the JSON and the SDK's types of Grafana 11.6."""
    register_default_plugins()
    written = rendered[f"{name}.json"]
    read = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
    assert read == written


@pytest.mark.parametrize("name", NAMES)
def test_panels_are_complete(rendered: dict[str, Any], name: str) -> None:
    dashboard = rendered[f"{name}.json"]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids) and dashboard["uid"] == f"trainyard-{name}" and not dashboard["editable"]
    variables = {one["name"] for one in dashboard["templating"]["list"]} | {"__rate_interval", "__range", "__value"}
    variables.add("__url_time_range")
    known = {value for key, value in vars(units).items() if not key.startswith("_") and isinstance(value, str)}
    titles = [panel["title"] for panel in panels(dashboard)]
    assert len(set(titles)) == len(titles)
    for panel in panels(dashboard):
        assert panel["description"].endswith(".") and panel["targets"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in known
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        assert set(re.findall(r"\$\{?(\w+)", json.dumps(panel).replace("${PROP", ""))) <= variables | {"1"}
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24


def test_panels_do_not_overlap(rendered: dict[str, Any]) -> None:
    for dashboard in rendered.values():
        cells: set[tuple[int, int]] = set()
        for panel in dashboard["panels"]:
            grid = panel["gridPos"]
            own = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
            assert not own & cells, (dashboard["title"], panel["title"])
            cells |= own


def test_units_are_grafanas() -> None:
    known = {value for key, value in vars(units).items() if not key.startswith("_") and isinstance(value, str)}
    assert set(get_args(Unit)) <= known


def test_every_series_and_label_is_in_the_table(environment: Environment) -> None:
    """A wrong name would show an empty panel for ever."""
    used: set[str] = set()
    for where, _, query in queries(environment):
        names = set(re.findall(r"\b(?:(?:trainyard|slurm|training|node|DCGM)_\w+|ALERTS|up)\b", query))
        assert names and names <= set(TABLE["series"]), (where, names - set(TABLE["series"]))
        used |= names
        for name, labels in re.findall(r"(\w+)\{([^}]*)\}", query):
            found = set(re.findall(r"(\w+)\s*[=!]", labels))
            assert found <= {*TABLE["series"][name]["labels"], *TABLE["target_labels"]}, (where, name)
        for name, counter in re.findall(r"(\w+)\((\w+)(?:\{[^}]*\})?\[(?!\$__range:)", query):
            assert (name, TABLE["series"][counter]["type"]) in {("rate", "counter"), ("increase", "counter")}, where
    expected = {name for name, one in TABLE["series"].items() if name.startswith(("DCGM", "slurm", "training"))}
    # Shown by other means: the kernel's log has Xid errors of the driver.
    assert expected - used == {"DCGM_FI_DEV_XID_ERRORS"}


def test_legends_name_labels_that_remain(environment: Environment) -> None:
    for dashboard in dashboards(environment):
        for panel in dashboard.panels:
            for legend, query in panel.queries.items():
                labels = set(re.findall(r"{{(\w+)}}", legend)) | set(panel.labels)
                if isinstance(query, str):
                    kept = {name.strip() for part in re.findall(r"by \(([^)]*)\)", query) for name in part.split(",")}
                    series = set(re.findall(r"\b(\w+)\{", query)) & set(TABLE["series"])
                    kept |= {label for name in series for label in TABLE["series"][name]["labels"]}
                    optional = set(panel.labels) if len(panel.queries) > 1 else set()
                    assert labels - optional <= kept, (panel.title, legend)


@pytest.mark.lab
def test_promql_parses(environment: Environment, tmp_path: Path) -> None:
    if not shutil.which("promtool"):
        pytest.fail("no promtool: scripts/install-lab-packages.sh --tests installs it")
    rules = [
        {"record": f"query:{number}", "expr": with_values(query, "1h", "60s", {"job": "1", "usd_gpu": "6.88"})}
        for number, (_, _, query) in enumerate(queries(environment))
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{len(rules)} rules found" in done.stdout, done.stdout + done.stderr


def test_cloudwatch(environment: Environment, rendered: dict[str, Any]) -> None:
    found = [
        query
        for dashboard in dashboards(environment)
        for panel in dashboard.panels
        for query in panel.queries.values()
        if isinstance(query, Metric)
    ]
    for namespace, names in METRICS.items():
        assert {query.name for query in found if query.namespace == namespace} == names
    [ages] = {query.dimensions[1][0] for query in found if query.name == "AgeOfOldestQueuedMessage"}
    assert ages == "Publisher"
    variables = {one["name"]: one for one in rendered["file-systems.json"]["templating"]["list"]}
    assert '"aws:cloudformation:stack-name":["local-storage"]' in variables["file_system"]["query"]
    assert variables["file_system"]["query"].startswith("resource_arns(us-east-1, fsx:file-system, ")
    pattern = variables["nat_gateway"]["regex"].strip("/")
    [nat] = re.findall(pattern, "arn:aws:ec2:us-east-1:111122223333:natgateway/nat-0123456789abcdef0")
    assert nat == "nat-0123456789abcdef0"


def test_price_of_a_gpu_hour(environment: Environment, rendered: dict[str, Any]) -> None:
    """Of the table for on-demand instances; unknown for others."""
    [queue] = [one for one in environment.cluster.queues if one.name == "gpu"]
    known = regions()["us-east-1"]["instance_hour"]["p5.48xlarge"] / 8
    assert gpu_hour_usd(environment, queue) == known
    spot = queue.model_copy(update={"capacity": queue.capacity.model_copy(update={"type": "spot"})})
    assert gpu_hour_usd(environment, spot) is None
    own = environment.cost.model_copy(update={"prices": {"p5.48xlarge": 32.0}})
    assert gpu_hour_usd(environment.model_copy(update={"cost": own}), spot) == 4.0
    elsewhere = environment.model_copy(update={"region": "eu-north-1"})
    assert gpu_hour_usd(elsewhere, queue) is None
    prices = {one["name"]: one["query"] for one in rendered["cost.json"]["templating"]["list"]}
    assert prices == {"prometheus": "prometheus", "usd_gpu": f"{known:.4g}"}
    free = {one["name"]: one["query"] for one in json.loads(render(elsewhere)["cost.json"])["templating"]["list"]}
    assert free["usd_gpu"] == "NaN"


def test_commands_do_not_load_the_sdk() -> None:
    """`trainyard check` starts as quickly as without it."""
    line = "import sys, cli.parser, trainyard.dashboards; print('grafana_foundation_sdk' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", line], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_limits_colour_figures(rendered: dict[str, Any]) -> None:
    [panel] = [one for one in panels(rendered["overview.json"]) if one["title"] == "Fullest file system"]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(step["value"], step["color"]) for step in steps] == [(None, "green"), (0.8, "yellow"), (0.9, "red")]
