"""The product and its stand-ins against the facts recorded from upstream (parallelcluster/facts)."""

from __future__ import annotations

import ast
import fnmatch
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore
import botocore.session
import pytest
from pydantic import TypeAdapter, ValidationError

from cluster_resource import response
from local.slurm import directory, plan, slurm
from scripts import refresh_facts
from settings.loader import load
from settings.model.cluster import BoundaryArn
from settings.rules.access import AWS_POLICIES
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


@pytest.mark.parametrize(
    "file",
    sorted((ROOT / "tests/golden").glob("*/*.template.json")),
    ids=lambda file: f"{file.parent.name}-{file.name.partition(chr(46))[0]}",
)
def test_templates_are_within_the_quotas(file: Path) -> None:
    quotas = facts("cloudformation")["template"]
    template = json.loads(file.read_text("utf-8"))
    assert file.stat().st_size <= quotas["bytes_in_s3"]
    assert len(template["Resources"]) <= quotas["resources"]
    assert len(template.get("Parameters", {})) <= quotas["parameters"]


PACKAGE = next((ROOT / "parallelcluster" / ".venv" / "lib").glob("python3*")) / "site-packages" / "pcluster"
STATEMENTS = [
    *(statement for policy in facts("policies")["policies"].values() for statement in policy["statements"]),
    *(statement for later in facts("later_releases")["facts"] for statement in later.get("statements", [])),
]
# What the package calls without a permission, and why that is no harm here. validators/common.py:168 of 3.16.1 makes a
# warning of a denial to read a secret.
NOT_GRANTED = {
    "cloudformation:DescribeStackResource": "only in a build of an image by the API, which Trainyard does not use",
    "kms:DescribeKey": "only with a KmsKeyId, which Trainyard does not set",
    "secretsmanager:DescribeSecret": "only a warning, with a directory service, which Trainyard does not set",
    "secretsmanager:GetSecretValue": "only a warning, with a secret of Munge's key, which Trainyard does not set",
    "ssm:GetParameter": "only a warning, with a directory service in us-isob-east-1",
    "sts:GetCallerIdentity": "AWS allows it to everybody",
}
PREFIXES = {"monitoring": "cloudwatch", "tagging": "tag"}


def calls_of_the_package() -> Iterator[str]:
    """IAM actions of each call in the package's clients (pcluster/aws), which are all that its API makes."""
    session = botocore.session.get_session()
    for file in sorted((PACKAGE / "aws").glob("*.py")):
        for client in (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.ClassDef)):
            text = ast.unparse(client)
            if service := re.search(r"super\(\)\.__init__\('([\w-]+)'\)", text):
                model = session.get_service_model(service[1])
                names = {botocore.xform_name(name): name for name in model.operation_names}
                prefix = PREFIXES.get(model.signing_name, model.signing_name)
                yield from (f"{prefix}:{names[name]}" for name in re.findall(r"_client\.(\w+)", text) if name in names)


def test_the_function_of_the_api_may_do_what_the_package_does() -> None:
    granted = [action.lower() for statement in STATEMENTS for action in listed(statement["Action"])]
    called = set(calls_of_the_package())
    denied = {action for action in called if not any(fnmatch.fnmatchcase(action.lower(), g) for g in granted)}
    assert len(called) > 60
    assert denied == set(NOT_GRANTED)


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def policies_of_nodes(part: object) -> Iterator[Any]:
    """Each AdditionalIamPolicies of a configuration."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part if isinstance(part, list) else []):
        if key == "AdditionalIamPolicies":
            yield from (item["Policy"] for item in value)
        else:
            yield from policies_of_nodes(value)


@pytest.mark.parametrize("environment", ["local", "jakarta-80xp5e"])
def test_the_api_may_attach_the_policies_of_nodes(environment: str) -> None:
    [statement] = [statement for statement in STATEMENTS if statement.get("Sid") == "IamPolicy"]
    patterns = [
        item["Fn::Sub"].replace("${AWS::Partition}", "aws").replace("${AWS::AccountId}", "111122223333")
        for item in statement["Condition"]["ArnLike"]["iam:PolicyARN"]
    ]
    template = json.loads((ROOT / f"tests/golden/{environment}/cluster.template.json").read_text("utf-8"))["Resources"]
    found = list(policies_of_nodes(template))
    assert found
    for policy in found:
        if isinstance(policy, dict):
            path = template[policy["Ref"]]["Properties"]["Path"]
            policy = f"arn:aws:iam::111122223333:policy{path}{policy['Ref']}"  # noqa: PLW2901
        assert any(fnmatch.fnmatchcase(policy, pattern) for pattern in patterns), policy


@pytest.mark.parametrize("name", ["boundary", "team/boundary", "a.b", "a b", "a+b", "a_b-1", "x/", ""])
@pytest.mark.parametrize("account", ["111122223333", "aws"])
def test_environment_files_take_the_boundaries_that_the_template_takes(name: str, account: str) -> None:
    boundary = f"arn:aws:iam::{account}:policy/{name}"
    try:
        TypeAdapter(BoundaryArn).validate_python(boundary)
    except ValidationError:
        taken = False
    else:
        taken = True
    pattern = facts("api")["parameters"]["PermissionsBoundaryPolicy"]["AllowedPattern"]
    assert taken == bool(re.fullmatch(pattern, boundary))


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
    refresh_facts.ATTRIBUTES: "['etc_dir'] = '/etc/pc'\n['slurm_plugin_dir'] = \"#{['etc_dir']}/slurm\"\n",
    refresh_facts.NODE_NAME: "file \"#{['slurm_plugin_dir']}/name\" do\n",
    refresh_facts.HOSTNAME: "['use_private_hostname'] = 'false'\n",
    refresh_facts.CHECK: "DCGMI_LEVEL=3\n",
    refresh_facts.DIRECTORY: "  x = {\n    'id_provider' => 'ldap',\n    'ldap_uri' => computed,\n  }\n",
    refresh_facts.SSSD_CONF: "[domain/default]\n<% @properties.each do %>\n<% end %>\n\n[nss]\na = b\n",
    refresh_facts.SSSD_EXAMPLE: "file x do\n  content '[domain/default]\nid_provider = ldap'\nend\n",
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
    assert found["directory"]["domain"] == {"id_provider": "ldap"}
    assert found["directory"]["rest"] == ["[nss]", "a = b"]
    assert found["directory"]["example"] == ["[domain/default]", "id_provider = ldap"]
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


def test_the_rules_allow_the_policies_that_the_api_may_attach() -> None:
    text = json.dumps(facts("policies"))
    recorded = set(re.findall(r"iam::aws:policy/([\w/-]+)", text[text.index("iam:PolicyARN") :].partition("]")[0]))
    assert recorded == set(AWS_POLICIES)
    assert "${AWS::AccountId}:policy/parallelcluster*" in text


def test_the_laboratory_s_sssd_conf_is_the_cookbook_s_example() -> None:
    """The cookbook's own example is what its recipe writes for these properties."""
    properties = {
        "DomainName": "corp.something.com",
        "DomainAddr": "corp.something.com",
        "DomainReadOnlyUser": "cn=ReadOnlyUser,ou=Users,ou=CORP,dc=corp,dc=something,dc=com",
        "LdapTlsReqCert": "never",
        "LdapTlsCaCert": "/path/to/domain-certificate.crt",
        "LdapAccessFilter": "filter-string",
        "AdditionalSssdConfigs": {"debug_level": "0x1ff"},
    }
    written = directory.sssd_conf(properties, "fake-secret")
    assert written.rstrip("\n").splitlines() == facts("directory")["example"]
