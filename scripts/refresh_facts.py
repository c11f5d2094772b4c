"""Writes parallelcluster/facts/{api,policies,cookbook,directory}.json from checkouts of ParallelCluster's sources.

    .venv/bin/python scripts/refresh_facts.py PACKAGE=FOLDER@REF COOKBOOK=FOLDER@REF

PACKAGE and COOKBOOK are the repositories' names, which go into the files as their source: aws/aws-parallelcluster and
aws/aws-parallelcluster-cookbook. FOLDER is a clone, bare or with a work tree; REF is a tag,
branch or commit of it. Take the release that parallelcluster/pyproject.toml pins, or the newest public one.
parallelcluster/facts/README.md describes the files. Exit status: 0 written; 2 wrong use, or a fact was not found.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

OUT = Path(__file__).parent.parent / "parallelcluster" / "facts"
API, POLICIES = "api/infrastructure/parallelcluster-api.yaml", "cloudformation/policies/parallelcluster-policies.yaml"
SLURM, SHARED = "cookbooks/aws-parallelcluster-slurm", "cookbooks/aws-parallelcluster-shared"
SLURM_CONF = f"{SLURM}/templates/default/slurm/slurm.conf.erb"
CLUSTER_CONF = f"{SLURM}/files/default/head_node_slurm/slurm/templates/slurm_parallelcluster.conf"
ATTRIBUTES, HOSTNAME = f"{SHARED}/attributes/cluster.rb", f"{SLURM}/attributes/slurm_attributes.rb"
NODE_NAME, CHECK_RECIPE = f"{SLURM}/recipes/init.rb", f"{SLURM}/recipes/config/config_health_check.rb"
ENVIRONMENT = "cookbooks/aws-parallelcluster-environment"
DIRECTORY = f"{ENVIRONMENT}/recipes/config/directory_service.rb"
SSSD_CONF = f"{ENVIRONMENT}/templates/directory_service/sssd.conf.erb"
SSSD_EXAMPLE = f"{ENVIRONMENT}/recipes/test/mock_directory_service_login.rb"
CHECK = f"{SLURM}/files/default/config_slurm/scripts/health_checks/gpu_health_check.sh"


class NotFoundError(Exception):
    """A checkout, file or setting is missing; the message is for users."""


@dataclass(frozen=True)
class Checkout:
    """One ref of a clone."""

    repository: str
    folder: str
    ref: str

    def git(self, *arguments: str) -> str:
        """The output of git in the clone."""
        done = subprocess.run(["git", "-C", self.folder, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotFoundError(f"git -C {self.folder} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def read(self, path: str) -> str:
        """A file at the ref."""
        return self.git("show", f"{self.ref}:{path}")

    def find(self, path: str, pattern: str) -> str:
        """The first group of a pattern in a file."""
        if not (match := re.search(pattern, self.read(path), re.MULTILINE)):
            raise NotFoundError(f"{self.repository} {self.ref}: {path} lacks {pattern}; adapt refresh_facts.py.")
        return match[1]

    def write(self, name: str, files: list[str], facts: dict[str, Any]) -> None:
        """Write facts with their source."""
        commit, date = self.git("log", "-1", "--format=%H %cs", self.ref).split()
        source = {"repository": self.repository, "ref": self.ref, "commit": commit, "date": date, "files": files}
        (OUT / name).write_text(json.dumps({"source": source} | facts, indent=1) + "\n", encoding="utf-8")


class _Template(yaml.SafeLoader):
    """Long forms of CloudFormation's functions; true, false and dates stay text, as in a parameter."""

    def text(self, node: yaml.ScalarNode) -> str:
        """A scalar as it is written."""
        return str(self.construct_scalar(node))

    def function(self, suffix: str, node: yaml.Node) -> dict[str, Any]:
        """A tag and its argument."""
        if isinstance(node, yaml.SequenceNode):
            value: Any = self.construct_sequence(node, deep=True)
        elif isinstance(node, yaml.MappingNode):
            value = self.construct_mapping(node, deep=True)
        else:
            value = str(node.value)
        if suffix == "GetAtt" and isinstance(value, str):
            value = value.split(".")
        return {suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}": value}


_Template.add_constructor("tag:yaml.org,2002:bool", _Template.text)
_Template.add_constructor("tag:yaml.org,2002:timestamp", _Template.text)
_Template.add_multi_constructor("!", _Template.function)


def main(arguments: list[str]) -> int:
    """Write the files; returns the exit status."""
    given = [re.fullmatch(r"([\w.-]+/[\w.-]+)=(.+)@([^@]+)", argument) for argument in arguments]
    if len(given) != 2 or not all(given):
        sys.stderr.write(f"Given: {' '.join(arguments) or 'nothing'}; needed are two checkouts.\n\n{__doc__}")
        return 2
    try:
        package, cookbook = (Checkout(*match.groups()) for match in given if match)
        _templates(package)
        _cookbook(cookbook)
        directory(cookbook)
    except NotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyError as error:
        sys.stderr.write(f"The templates of {arguments[0]} lack {error}; adapt scripts/refresh_facts.py.\n")
        return 2
    return 0


def _templates(package: Checkout) -> None:
    api, policies = (yaml.load(package.read(path), _Template) for path in (API, POLICIES))  # noqa: S506 - a SafeLoader
    resources = api["Resources"]
    facts = {
        "version": api["Mappings"]["ParallelCluster"]["Constants"]["Version"],
        "parameters": _parameters(api),
        "outputs": sorted(api["Outputs"]),
        "user_role_name": resources["ParallelClusterApiUserRole"]["Properties"]["RoleName"],
        "callers": api["Globals"]["Api"]["Auth"]["ResourcePolicy"]["CustomStatements"]["Condition"],
        "policies_parameters": resources["PclusterPolicies"]["Properties"]["Parameters"],
    }
    package.write("api.json", [API], facts)
    role = policies["Resources"].pop("ParallelClusterLambdaRole")["Properties"]
    facts = {
        "parameters": _parameters(policies),
        "conditions": policies["Conditions"],
        "role": {key: role[key] for key in ("RoleName", "ManagedPolicyArns")},
        "policies": {
            key: {"condition": item.get("Condition"), "roles": "Roles" in (properties := item["Properties"])}
            | {"statements": properties["PolicyDocument"]["Statement"]}
            for key, item in policies["Resources"].items()
        },
    }
    package.write("policies.json", [POLICIES], facts)


def _parameters(template: dict[str, Any]) -> dict[str, Any]:
    prose = {"Description", "ConstraintDescription"}
    return {name: {k: v for k, v in item.items() if k not in prose} for name, item in template["Parameters"].items()}


def _cookbook(cookbook: Checkout) -> None:
    settings: dict[str, list[str]] = {}
    for key, value in re.findall(
        r"^(?:\{#.*?#\})?(\w+)=(.+)$", "".join(map(cookbook.read, (SLURM_CONF, CLUSTER_CONF))), re.M
    ):
        # One value for each branch of the template. The last part of an expression names what is put in.
        short = re.sub(
            r"<%=.*?(\w+)'\]\s*%>|\{\{ [\w.]*?(\w+) \}\}|\{\{.*\}\}", lambda m: f"<{m[1] or m[2] or 'computed'}>", value
        )
        settings[key] = list(dict.fromkeys([*settings.get(key, []), short]))
    plugin = cookbook.find(ATTRIBUTES, r"\['slurm_plugin_dir'\] = .*'etc_dir'\]\}(.*?)\"")
    facts = {
        "slurm_conf": settings,
        "node_name_file": cookbook.find(ATTRIBUTES, r"\['etc_dir'\] = '(.*?)'")
        + plugin
        + cookbook.find(NODE_NAME, r"file \".*'slurm_plugin_dir'\]\}(.*?)\""),
        "use_private_hostname": cookbook.find(HOSTNAME, r"\['use_private_hostname'\] = '(.*?)'"),
        "gpu_health_check": {
            "dcgm_level": int(cookbook.find(CHECK, r"^DCGMI_LEVEL=(\d)")),
            "prolog": cookbook.find(CHECK_RECIPE, r"link \".*'install_dir'\]\}(.*?prolog\.d/.*?)\""),
        },
    }
    files = [SLURM_CONF, CLUSTER_CONF, ATTRIBUTES, NODE_NAME, HOSTNAME, CHECK, CHECK_RECIPE]
    cookbook.write("cookbook.json", files, facts)


def directory(cookbook: Checkout) -> None:
    """Write directory.json: sssd.conf as the head node's recipe writes it, and the cookbook's own example of one."""
    pairs = re.findall(r"^ +'(\w+)' => '(.*?)',$", cookbook.read(DIRECTORY), re.M)
    if not pairs:
        raise NotFoundError(f"{cookbook.repository}: {DIRECTORY} has no domain properties; adapt refresh_facts.py.")
    begin, end = "[domain/default]\n", "<% end %>\n"
    facts = {
        "domain": dict(pairs),
        "rest": cookbook.read(SSSD_CONF).partition(begin)[2].rpartition(end)[2].strip().splitlines(),
        "example": cookbook.find(SSSD_EXAMPLE, r"content '([^']*)'").splitlines(),
    }
    cookbook.write("directory.json", [DIRECTORY, SSSD_CONF, SSSD_EXAMPLE], facts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
