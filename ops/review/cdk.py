"""The published CDK packages, through cdk.mjs: replacement rules of CloudFormation and the CDK's own template diff."""

import functools
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ops.problem import Problem
from ops.review.stacks import Stacks

CUSTOM = "Custom::"
SCRIPT = Path(__file__).with_name("cdk.mjs")
_LIMIT_S = 120

# Both hold what users have put there. The CDK's specification calls neither stateful.
_ALSO_STATEFUL = frozenset({"AWS::FSx::Volume", "AWS::ECR::Repository"})
# In the CloudFormation registry (createOnlyProperties), and not yet in the CDK's specification.
_ALSO_REPLACING = {"AWS::ECR::Repository": {"EncryptionConfiguration": True}}


@dataclass(frozen=True)
class TypeRules:
    """What CloudFormation does to resources of one type.

    Attributes:
        stateful: whether such a resource holds data.
        replacing: paths of properties whose change replaces the resource: always (True), or in some cases (False).
    """

    stateful: bool = False
    replacing: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class TemplateDiff:
    """The CDK's diff of one stack, as text.

    Attributes:
        security: changes of IAM statements, managed policies and rules of security groups; empty where none changes.
        broadened: whether they grant or open more, by the rules of `cdk deploy --require-approval broadening`.
    """

    text: str
    security: str
    broadened: bool


def rules(kind: str) -> TypeRules:
    """The rules of a resource type; a type that the CDK does not know has none. Raises Problem without the packages."""
    known = "AWS::CloudFormation::CustomResource" if kind.startswith(CUSTOM) else kind
    return _all_rules().get(known, TypeRules())


def template_diffs(old: Stacks, new: Stacks) -> list[TemplateDiff]:
    """The diffs of all stacks whose templates differ, new stacks included. Raises Problem without the packages."""
    pairs = [
        {"name": stack.name, "old": before, "new": after}
        for key, stack in new.items()
        if (before := _without_metadata(old[key].template if key in old else {}))
        != (after := _without_metadata(stack.template))
    ]
    return [TemplateDiff(**item) for item in _run("diff", pairs)] if pairs else []


def _without_metadata(template: Mapping[str, Any]) -> dict[str, Any]:
    """Without the construct paths that the CDK CLI adds to each resource; this command synthesizes without the CLI."""
    resources = template.get("Resources", {})
    kept = {name: {key: part[key] for key in part if key != "Metadata"} for name, part in resources.items()}
    return {**template, "Resources": kept}


@functools.cache
def _all_rules() -> dict[str, TypeRules]:
    return {
        kind: TypeRules(
            kind in _ALSO_STATEFUL or known["stateful"], {**known["replacing"], **_ALSO_REPLACING.get(kind, {})}
        )
        for kind, known in _run("rules").items()
    }


def _run(command: str, given: object = None) -> Any:  # noqa: ANN401 - JSON
    try:
        result = subprocess.run(
            ["node", SCRIPT, command],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Problem(f"Node.js, which runs the CDK's diff, did not answer: {error}. Run: make setup") from error
    if result.returncode:
        raise Problem(f"The CDK's diff failed. Install the project's tools with: make setup\n{result.stderr[-3000:]}")
    return json.loads(result.stdout)
