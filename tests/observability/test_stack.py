"""The stack `observability` in each mode: what is collected where, who may do what, and what a change of modes does."""

from __future__ import annotations

import functools
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from aws_cdk.assertions import Template

from ops.cost.estimate import estimate
from ops.cost.prices import Prices
from ops.review.stacks import Stack
from settings.model.observability import MODES
from stacks.network import NetworkStack
from tests.constructs.stacks_of import allowed, app_without_bundling, environment, listed, observability, only
from trainyard import monitoring_bundle

HOST = Path(monitoring_bundle.__file__).parents[2] / "cluster_assets" / "monitoring" / "host"


@functools.cache
def template(mode: str, logs: str = "delete", **network: str) -> Template:
    parts: dict[str, Any] = {"observability": {"mode": mode}, "retention": {"logs": logs}, "region": "us-east-1"}
    made = environment(**parts, network={"zone": "use1-az4", **network})
    return Template.from_stack(observability(app_without_bundling(), made))


def types(mode: str) -> set[str]:
    return {resource["Type"] for resource in template(mode).to_json()["Resources"].values()}


def user_data(mode: str) -> str:
    data = only(template(mode), "AWS::EC2::LaunchTemplate")["Properties"]["LaunchTemplateData"]
    return json.dumps(data["UserData"])


def test_each_mode_has_its_resources_and_a_change_of_modes_removes_the_others() -> None:
    assert types("off") == {"AWS::CloudFormation::WaitConditionHandle"}
    host, managed = {"AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::LaunchTemplate"}, {"AWS::APS::Workspace"}
    for mode in MODES:
        found = types(mode)
        assert ("AWS::SNS::Topic" in found) is (mode != "off")
        assert (host <= found) is (mode in ("self-hosted", "managed")), mode
        assert (managed <= found) is (mode == "managed"), mode
        assert ("AWS::EC2::Volume" in found) is (mode == "self-hosted"), mode
        assert ("AWS::CloudWatch::Dashboard" in found) is (mode == "cloudwatch"), mode
        assert ("Dashboards" in template(mode).find_outputs("*")) is (mode != "off"), mode


def test_nothing_comes_into_the_host_and_it_reaches_the_exporters_and_https_only() -> None:
    made = template("self-hosted")
    group = only(made, "AWS::EC2::SecurityGroup", GroupDescription="Monitoring host")["Properties"]
    assert "SecurityGroupIngress" not in group
    [way_out] = group["SecurityGroupEgress"]
    assert (way_out["IpProtocol"], way_out["FromPort"], way_out["ToPort"]) == ("tcp", 443, 443)
    own = {"Fn::GetAtt": [next(iter(made.find_resources("AWS::EC2::SecurityGroup"))), "GroupId"]}
    into = [item["Properties"] for item in made.find_resources("AWS::EC2::SecurityGroupIngress").values()]
    assert all(rule["SourceSecurityGroupId"] == own for rule in into)
    assert sorted(rule["FromPort"] for rule in into) == [9100, 9100, 9101, 9400]
    out = made.find_resources("AWS::EC2::SecurityGroupEgress")
    assert len(out) == len(into)


def test_the_instance_is_replaced_and_its_volume_stays_encrypted_in_its_zone() -> None:
    made = template("self-hosted")
    group = only(made, "AWS::AutoScaling::AutoScalingGroup")
    assert group["UpdatePolicy"]["AutoScalingRollingUpdate"] == {"MaxBatchSize": 1, "MinInstancesInService": 0}
    assert (group["Properties"]["MinSize"], group["Properties"]["MaxSize"]) == ("1", "1")
    assert "CreationPolicy" not in group  # what fails on the host fails no deployment
    volume = only(made, "AWS::EC2::Volume")
    assert volume["Properties"]["Encrypted"] is True
    assert volume["Properties"]["AvailabilityZoneId"] == "use1-az4"
    assert (volume["DeletionPolicy"], volume["UpdateReplacePolicy"]) == ("Delete", "Retain")
    assert only(template("self-hosted", "keep"), "AWS::EC2::Volume")["DeletionPolicy"] == "RetainExceptOnCreate"
    data = only(made, "AWS::EC2::LaunchTemplate")["Properties"]["LaunchTemplateData"]
    assert data["MetadataOptions"] == {"HttpPutResponseHopLimit": 1, "HttpTokens": "required"}
    assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True


@pytest.mark.parametrize("mode", ["self-hosted", "managed"])
def test_the_host_may_do_what_its_mode_needs(mode: str) -> None:
    granted = allowed(template(mode))
    [metrics], [publish] = granted["cloudwatch:PutMetricData"], granted["sns:Publish"]
    assert metrics["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Trainyard/unit"}}
    assert publish["Resource"] == "arn:aws:sns:us-east-1:111122223333:trainyard-unit-notifications"
    if mode == "self-hosted":
        for attach in granted["ec2:AttachVolume"]:
            assert attach["Condition"] == {"StringEquals": {"aws:ResourceTag/trainyard:monitoring": "unit"}}
        assert "aps:RemoteWrite" not in granted
    else:
        [write], [token] = granted["aps:RemoteWrite"], granted["grafana:CreateWorkspaceServiceAccountToken"]
        assert "*" not in listed(write["Resource"]) + listed(token["Resource"])
        assert "ec2:AttachVolume" not in granted


def test_what_starts_the_host_has_the_bundles_checksum_and_every_setting() -> None:
    text = user_data("self-hosted")
    made = environment(observability={"mode": "self-hosted"}, region="us-east-1", network={"zone": "use1-az4"})
    topic = "arn:aws:sns:us-east-1:111122223333:trainyard-unit-notifications"
    assert monitoring_bundle.build(made, topic).sha256 in text
    for name in ("MODE=self-hosted", "ENVIRONMENT=unit", "RETENTION_DAYS=30", "VOLUME_GIB=50", "VOLUME_ID="):
        assert name in text
    assert "@VALUES@" not in text and "@URL@" not in text and "@SHA256@" not in text
    assert "GRAFANA_ID=" in user_data("managed")


@pytest.mark.parametrize("mode", ["self-hosted", "managed"])
def test_the_bundle_is_the_same_each_time_and_complete(mode: str) -> None:
    made = environment(observability={"mode": mode}, region="us-east-1", network={"zone": "use1-az4"})
    topic = "arn:aws:sns:us-east-1:111122223333:topic"
    bundle = monitoring_bundle.build(made, topic)
    # In another process, sets have another order.
    again = (
        "import sys; from settings.model import Environment; from trainyard.monitoring_bundle import build;"
        "print(build(Environment.model_validate_json(sys.argv[1]), sys.argv[2]).sha256)"
    )
    line = [sys.executable, "-c", again, made.model_dump_json(exclude_unset=True), topic]
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{bundle.sha256}\n"
    with tarfile.open(fileobj=io.BytesIO(bundle.content)) as archive:
        names = set(archive.getnames())
        texts = {name: archive.extractfile(name).read().decode() for name in names}  # type: ignore[union-attr]
    assert {"host/install.sh", "host/refresh.sh", "config/prometheus.yml", "dashboards/overview.json"} <= names
    assert ("config/alertmanager.yml" in names) is (mode == "self-hosted")
    assert any(name.startswith("config/rules/") for name in names) is (mode == "self-hosted")
    config = yaml.safe_load(texts["config/prometheus.yml"])
    assert config["scrape_configs"][0]["http_sd_configs"][0]["url"] == "http://head.trainyard:9101/targets"
    assert ("https://WORKSPACE/" in texts["config/prometheus.yml"]) is (mode == "managed")
    programs = json.loads(texts["programs.json"])
    assert {"prometheus", "alertmanager", "grafana", "node_exporter"} <= set(programs)
    for program in programs.values():
        for file in program["files"].values():
            assert len(file["sha256"]) == 64 and file["url"].startswith("https://")
            assert program["version"] in file["url"]


def test_the_managed_workspace_keeps_metrics_as_long_as_the_file_says_and_has_the_rules() -> None:
    made = template("managed")
    workspace = only(made, "AWS::APS::Workspace")["Properties"]
    assert workspace["WorkspaceConfiguration"] == {"RetentionPeriodInDays": 30}
    definition = yaml.safe_load(workspace["AlertManagerDefinition"])
    assert "trainyard-unit-notifications" in definition["alertmanager_config"]
    rules = made.find_resources("AWS::APS::RuleGroupsNamespace")
    assert len(rules) == len(list((HOST.parent / "prometheus" / "rules").glob("*.yml")))
    topic_policy = json.dumps(made.find_resources("AWS::SNS::TopicPolicy"))
    assert "aps.amazonaws.com" in topic_policy and "sns:GetTopicAttributes" in topic_policy


def test_a_network_without_internet_has_the_endpoints_of_the_mode() -> None:
    def endpoints(mode: str) -> set[str]:
        made = environment(observability={"mode": mode}, region="us-east-1", network=closed)
        stack = NetworkStack(app_without_bundling(), environment=made)
        found = Template.from_stack(stack).find_resources("AWS::EC2::VPCEndpoint").values()
        return {str(item["Properties"]["ServiceName"]).removeprefix("com.amazonaws.us-east-1.") for item in found}

    closed = {"zone": "use1-az4", "egress": "endpoints-only"}
    assert endpoints("self-hosted") - endpoints("off") == {"sns"}
    assert endpoints("managed") - endpoints("off") == {"sns", "aps-workspaces", "grafana", "grafana-workspace"}


@pytest.mark.parametrize(
    ("mode", "hourly"),
    [
        ("self-hosted", {"monitoring host t3.medium", "volume of metrics gp3 50 GiB"}),
        ("managed", {"monitoring host t3.medium"}),
        ("cloudwatch", set()),
    ],
)
def test_costs_of_a_mode(mode: str, hourly: set[str]) -> None:
    stack = Stack("x", "x", "us-east-1", template(mode).to_json())
    found = estimate({"x": stack}, Prices("us-east-1"))
    known = {item.what for item in found.items if item.price is not None}
    assert hourly <= known
    assert ("monitoring host t3.medium" in known) is bool(hourly)
    managed = {"Amazon Managed Service for Prometheus", "Amazon Managed Grafana"}  # by samples and by users
    assert managed & found.by_use.keys() == (managed if mode == "managed" else set())
