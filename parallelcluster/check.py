"""Check rendered configurations with the genuine schema, validators and template builder of ParallelCluster:

    parallelcluster/.venv/bin/python -m parallelcluster.check CONFIG... [--account ACCOUNT]

CONFIG is a JSON or YAML file with a configuration; the file's name without its ending is the cluster's. ACCOUNT is a
JSON file `{"<cluster>": {<attributes of account.Account>}}` of what differs from what the configurations name.

Prints a JSON object: by cluster `ok`; `schema`, the errors by key as ParallelCluster nests them (with any, nothing else
was tried); `messages` of the validators (`level`: INFO, WARNING or ERROR, `type`: the validator's class, `message`);
`resources`, how many of which type the cluster's templates have, nested stacks included (none with an ERROR). Exit
status: 0 all are good, with or without warnings; 1 one has an error; 2 wrong use.
"""

from __future__ import annotations

import argparse
import collections
import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from marshmallow import ValidationError
from pcluster.config.cluster_config import BaseClusterConfig
from pcluster.models.s3_bucket import S3Bucket
from pcluster.schemas.cluster_schema import ClusterSchema
from pcluster.templates.cdk_builder import CDKTemplateBuilder
from pcluster.validators.common import ValidatorContext

from parallelcluster.account import Account, AccountError, account_for, region_of
from parallelcluster.aws import answered

# The package logs each refused call as an error, and the validators report the same.
logging.getLogger("pcluster").setLevel(logging.CRITICAL)


def main() -> int:
    """Run the check; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m parallelcluster.check")
    parser.add_argument("configurations", nargs="+", type=Path, metavar="CONFIG", help="JSON or YAML file")
    parser.add_argument("--account", type=Path, help="JSON file of overrides by cluster name")
    options = parser.parse_args()
    structures = {path.stem: _structure(path) for path in options.configurations}
    if len(structures) < len(options.configurations):
        return _wrong_use("Two configurations have one cluster name; give their files different names.")
    overrides = _structure(options.account) if options.account else {}
    if unknown := sorted(set(overrides) - set(structures)):
        return _wrong_use(f"{options.account} names {', '.join(unknown)}; allowed are {', '.join(structures)}.")
    reports = {}
    for name, configuration in structures.items():
        try:
            reports[name] = check(name, configuration, overrides.get(name, {}))
        except AccountError as error:
            return _wrong_use(f"{name}: {error}")
    json.dump(reports, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if all(report["ok"] for report in reports.values()) else 1


def _structure(path: Path) -> dict[str, Any]:
    try:
        structure = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SystemExit(_wrong_use(f"{path} cannot be read as JSON or YAML: {error}")) from None
    if not isinstance(structure, dict):
        raise SystemExit(_wrong_use(f"{path} holds a {type(structure).__name__}; it must hold a mapping."))
    return structure


def _wrong_use(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return 2


def check(name: str, configuration: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The report on the cluster `name` in the account that `configuration` describes, with `overrides` (account.py).

    Raises:
        AccountError: the overrides do not fit.
    """
    schema: Any = {}
    messages: list[dict[str, str]] = []
    resources: dict[str, int] = {}
    # The schema first, in an empty account: a wrong shape cannot be searched for what it names.
    with answered(Account(region_of(configuration))):
        try:
            _loaded(name, configuration)
        except ValidationError as error:
            schema = error.messages if isinstance(error.messages, dict) else {"_schema": error.messages}
    if not schema:
        with answered(account_for(configuration, overrides)):
            cluster = _loaded(name, configuration)
            try:
                found = cluster.validate(set(), ValidatorContext())
                messages = [{"level": str(r.level), "type": r.validator_type, "message": r.message} for r in found]
            except Exception as error:
                # Some look-ups are made outside of the validators (AMIs, instance types, reservations); AWS's error is
                # the finding. The API answers it with a 400.
                messages = [{"level": "ERROR", "type": type(error).__name__, "message": str(error)}]
            if all(message["level"] != "ERROR" for message in messages):
                resources = _resources(name, cluster)
    return {"ok": bool(resources), "schema": schema, "messages": messages, "resources": resources}


def _loaded(name: str, configuration: Mapping[str, Any]) -> BaseClusterConfig:
    # The schema takes its input apart, and must see what the API would: plain JSON.
    return ClusterSchema(cluster_name=name).load(json.loads(json.dumps(configuration)))


def _resources(name: str, cluster: BaseClusterConfig) -> dict[str, int]:
    bucket = S3Bucket(service_name=name, stack_name=name, artifact_directory=name, name="cluster-artifacts")
    template, assets = CDKTemplateBuilder().build_cluster_template(cluster, bucket, name)
    templates = (template, *(asset["content"] for asset in assets))
    types = (resource["Type"] for part in templates for resource in part["Resources"].values())
    return dict(sorted(collections.Counter(types).items()))


if __name__ == "__main__":
    sys.exit(main())
