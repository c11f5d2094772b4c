"""The CDK app: one environment file, its stacks. `cdk synth -c env=<name>` takes environments/<name>.yaml."""

from __future__ import annotations

import os
import sys

import aws_cdk as cdk

import settings
from stacks.deployment import compose

DEFAULT = "local"


def main() -> int:
    """Synthesize. 1 where the input is at fault, said on stderr."""
    # Without the CDK CLI, which names the folder, an app would write to a new temporary folder each time.
    app = cdk.App(outdir=os.environ.get("CDK_OUTDIR", "cdk.out"))
    try:
        compose(app, settings.load(settings.environment_file(str(app.node.try_get_context("env") or DEFAULT))))
    except (settings.Faults, ValueError) as fault:
        return _fail(fault)
    except RuntimeError as error:
        if "Failed to bundle asset" not in str(error):
            raise
        return _fail(error)
    app.synth()
    return 0


def _fail(fault: Exception) -> int:
    print(fault, file=sys.stderr)  # noqa: T201 - what the user is told
    return 1


if __name__ == "__main__":
    sys.exit(main())
