"""AWS-managed policies are a hand-made few.

Policies that a template may attach and that ministack lacks are taken from moto's recorded copies, read as data.
"""

from __future__ import annotations

import ast
import json

from ministack.services import iam

from local.emulator.packages import installed


def install() -> None:
    """Add what moto records and ministack lacks."""
    source = (installed("moto") / "iam" / "aws_managed_policies.py").read_text()
    text = next(
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    for name, entry in json.loads(text).items():
        arn = entry.get("Arn") or f"arn:aws:iam::aws:policy{entry.get('Path', '/')}{name}"
        if arn not in iam._aws_managed_policies:
            resource = arn.removeprefix("arn:aws:iam::aws:policy/")
            iam._aws_managed_policies[arn] = iam._make_aws_managed_record(resource, json.dumps(entry["Document"]))
