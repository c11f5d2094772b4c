"""The CDK app. `cdk synth -c env=<name>` synthesizes the stacks of environments/<name>.yaml.

`cdk synth -c pipeline=<name>` reads environments/pipelines/<name>.yaml instead: the pipeline, and a stage for each of
its environments.
"""

from __future__ import annotations

import os
import sys

import aws_cdk as cdk

import settings
import settings.pipeline
from stacks.deployment import compose

DEFAULT = "local"


def main() -> int:
    """Synthesize. The exit status is 1 for faulty input, with the faults on stderr."""
    # Without the CDK CLI, which names the folder, an app would write to a new temporary folder each time.
    app = cdk.App(outdir=os.environ.get("CDK_OUTDIR", "cdk.out"))
    try:
        _compose(app)
    except (settings.Faults, ValueError) as fault:
        print(fault, file=sys.stderr)  # noqa: T201
        return 1
    app.synth()
    return 0


def _compose(app: cdk.App) -> None:
    env, pipeline = app.node.try_get_context("env"), app.node.try_get_context("pipeline")
    if env and pipeline:
        raise ValueError(f"Both env={env} and pipeline={pipeline} are given. Give one of them.")
    if pipeline:
        # Not at the top: the CDK's modules for pipelines take a tenth of a second to import.
        from stacks.pipeline import compose_promotion

        promotion = settings.pipeline.load(settings.pipeline.pipeline_file(str(pipeline)))
        compose_promotion(app, promotion, context=str(pipeline))
    else:
        compose(app, settings.load(settings.environment_file(str(env or DEFAULT))))


if __name__ == "__main__":
    sys.exit(main())
