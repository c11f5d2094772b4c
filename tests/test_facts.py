"""The product and its stand-ins against the facts recorded from upstream (parallelcluster/facts)."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster_resource import response
from local.slurm import plan, slurm
from scripts import refresh_facts
from settings.loader import load
from trainyard.cluster_config.rendering import HEALTH_CHECK, LONG_GPU_CHECK
from trainyard.parallelcluster import facts

ROOT = Path(__file__).parents[1]
FACTS = sorted((ROOT / "parallelcluster" / "facts").glob("*.json"))
SLURM_CONF: dict[str, list[str]] = facts("cookbook")["slurm_conf"]

# Where the laboratory's slurm.conf differs from the recorded one, by reason.
DIFFERENT = {
    "tests wait for them, so they are shorter": {"SlurmdTimeout", "MessageTimeout", "KillWait", "AuthInfo"},
    "nodes are static, so nothing powers them on or off": {
        *("SuspendProgram", "ResumeProgram", "ResumeFailProgram", "RebootProgram", "SuspendTimeout", "SuspendTime"),
        *("ResumeTimeout", "ResumeRate", "SuspendRate", "PrivateData", "SlurmctldParameters", "TreeWidth"),
    },
    "values of this cluster": {"ClusterName", "SlurmctldHost", "AccountingStorageHost"},
    "the host's folders, ports and control groups": {
        *("SlurmctldPidFile", "SlurmdPidFile", "JobAcctGatherType", "AccountingStoragePort", "AccountingStorageUser"),
    },
    "only with a directory service": {"LaunchParameters"},
    "the same set in another order": {"TaskPlugin"},
    "more parameters than upstream's, which make the scheduler look often": {"SchedulerParameters"},
    "the default of Slurm, or only about logs": {"SwitchType", "SlurmctldDebug", "DebugFlags"},
}


@pytest.mark.parametrize("file", FACTS, ids=lambda file: file.stem)
def test_every_fact_has_a_source_with_a_date(file: Path) -> None:
    found = json.loads(file.read_text("utf-8"))
    for source in [found["source"]] if "source" in found else [fact["source"] for fact in found["facts"]]:
        assert re.search(r"20\d\d-\d\d-\d\d|\b[0-9a-f]{40}\b", str(source)), source
        assert re.search(r"https://|aws/aws-parallelcluster", str(source)), source


@pytest.fixture(scope="module")
def laboratory() -> dict[str, str]:
    """The laboratory's slurm.conf, whose names Slurm reads without case."""
    text = slurm.configuration(plan.make(load(ROOT / "environments" / "local.yaml")), ["devices"], "x")["slurm.conf"]
    return {name.lower(): value for name, _, value in (line.partition("=") for line in text.splitlines())}


@pytest.mark.parametrize("name", SLURM_CONF)
def test_the_laboratory_has_the_recorded_slurm_settings(laboratory: dict[str, str], name: str) -> None:
    ours = laboratory.get(name.lower())
    recorded = [value.replace("<install_dir>", "/opt/slurm").replace("<user>", "slurm") for value in SLURM_CONF[name]]
    reason = next((reason for reason, names in DIFFERENT.items() if name in names), None)
    if reason is None:
        assert ours in recorded
    else:
        assert ours not in recorded, f"no longer different: {reason}"


def test_our_slurm_settings_extend_the_recorded_ones() -> None:
    assert not HEALTH_CHECK.keys() & SLURM_CONF.keys()
    assert all(int(value) > int(SLURM_CONF[name][0]) for name, value in LONG_GPU_CHECK.items())
    assert set(DIFFERENT["tests wait for them, so they are shorter"]) < SLURM_CONF.keys()


def test_nodes_read_the_file_that_the_cookbook_writes() -> None:
    assert facts("cookbook")["node_name_file"] in (ROOT / "cluster_assets/scans/node-health.sh").read_text("utf-8")


def test_limits_of_custom_resources() -> None:
    limits = facts("cloudformation")
    assert limits["custom_resource_response_bytes"] == response.LIMIT
    template = json.loads((ROOT / "tests/golden/local/cluster.template.json").read_text("utf-8"))
    timeouts = [
        int(item["Properties"]["ServiceTimeout"])
        for item in template["Resources"].values()
        if "ServiceTimeout" in item["Properties"]
    ]
    allowed = limits["custom_resource_timeout_seconds"]
    assert timeouts
    assert all(allowed["minimum"] <= seconds <= allowed["maximum"] for seconds in timeouts)


def clone(folder: Path, files: dict[str, str]) -> str:
    """A git repository with one commit; its folder and ref."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "t"]):
        subprocess.run([*git, *words], check=True)
    return f"{folder}@HEAD"


API = """
Parameters: {Region: {Type: String, Default: '*', Description: Words}, On: {Type: String, Default: false}}
Mappings: {ParallelCluster: {Constants: {Version: 9.9.9}}}
Globals: {Api: {Auth: {ResourcePolicy: {CustomStatements: {Condition: {}}}}}}
Resources:
  ParallelClusterApiUserRole: {Properties: {RoleName: !Sub "Renamed-${AWS::StackId}"}}
  PclusterPolicies: {Properties: {Parameters: {Region: !Ref Region}}}
Outputs: {Url: {Value: !GetAtt A.B}}
"""
POLICIES = """
Parameters: {}
Conditions: {One: !Equals [!Ref Region, '*']}
Resources:
  ParallelClusterLambdaRole: {Properties: {RoleName: r, ManagedPolicyArns: [!Ref P]}}
  P: {Properties: {PolicyDocument: {Version: 2012-10-17, Statement: [{Action: [a:B], Resource: !GetAtt X.Arn}]}}}
"""
COOKBOOK = {
    refresh_facts.SLURM_CONF: "# BatchStartTimeout=1\nBatchStartTimeout=240\nUser=<%= node['cluster']['user'] %>\n",
    refresh_facts.CLUSTER_CONF: "{#  #}Select={{ a.b }}\nSelect=CR_CPU\n",
    refresh_facts.MOUNTS: "if @type == 'LUSTRE'\n  @mount_options = %w(a b)\n",
    refresh_facts.ATTRIBUTES: "['etc_dir'] = '/etc/pc'\n['slurm_plugin_dir'] = \"#{['etc_dir']}/slurm\"\n"
    "['hard_mount_options'] = 'hard'\n",
    refresh_facts.NODE_NAME: "file \"#{['slurm_plugin_dir']}/name\" do\n",
    refresh_facts.HOSTNAME: "['use_private_hostname'] = 'false'\n",
    refresh_facts.CHECK: "DCGMI_LEVEL=3\n",
    refresh_facts.CHECK_RECIPE: "link \"#{['install_dir']}/etc/prolog.d/90_x\" do\n",
}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(refresh_facts, "OUT", tmp_path)
    return tmp_path


def test_facts_are_read_from_clones(written: Path) -> None:
    package = clone(written / "package", {refresh_facts.API: API, refresh_facts.POLICIES: POLICIES})
    cookbook = clone(written / "cookbook", COOKBOOK)
    assert refresh_facts.main([f"aws/package={package}", f"aws/cookbook={cookbook}"]) == 0
    found: dict[str, Any] = {path.stem: json.loads(path.read_text()) for path in written.glob("*.json")}
    assert found["api"]["user_role_name"] == {"Fn::Sub": "Renamed-${AWS::StackId}"}
    assert found["api"]["parameters"]["On"] == {"Type": "String", "Default": "false"}
    assert found["api"]["source"]["repository"] == "aws/package"
    [statement] = found["policies"]["policies"]["P"]["statements"]
    assert statement == {"Action": ["a:B"], "Resource": {"Fn::GetAtt": ["X", "Arn"]}}
    expected = {"BatchStartTimeout": ["240"], "User": ["<user>"], "Select": ["<b>", "CR_CPU"]}
    assert found["cookbook"]["slurm_conf"] == expected
    assert found["cookbook"]["node_name_file"] == "/etc/pc/slurm/name"
    assert found["cookbook"]["gpu_health_check"] == {"dcgm_level": 3, "prolog": "/etc/prolog.d/90_x"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Given: nothing; needed are two checkouts"),
        (["aws/package=/nowhere@HEAD", "no-ref"], "needed are two checkouts"),
        (["aws/package=/nowhere@HEAD", "aws/cookbook=/nowhere@HEAD"], "git -C /nowhere show HEAD:"),
    ],
)
def test_wrong_checkouts_are_refused(
    written: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert refresh_facts.main(arguments) == 2
    assert said in capsys.readouterr().err
    assert not list(written.glob("*.json"))


def test_a_changed_source_is_named(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = clone(written / "package", {refresh_facts.API: API, refresh_facts.POLICIES: POLICIES})
    cookbook = clone(written / "cookbook", COOKBOOK | {refresh_facts.CHECK: "LEVEL=3\n"})
    assert refresh_facts.main([f"aws/package={package}", f"aws/cookbook={cookbook}"]) == 2
    assert "gpu_health_check.sh lacks ^DCGMI_LEVEL" in capsys.readouterr().err
    assert refresh_facts.main([f"aws/package={cookbook}", f"aws/cookbook={cookbook}"]) == 2
    without = clone(written / "renamed", {refresh_facts.API: "Resources: {}", refresh_facts.POLICIES: POLICIES})
    assert refresh_facts.main([f"aws/package={without}", f"aws/cookbook={cookbook}"]) == 2
    assert "lack 'Mappings'" in capsys.readouterr().err
