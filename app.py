"""The CDK app. `cdk synth -c env=<name>` synthesizes the stacks of environments/<name>.yaml.

`cdk synth -c pipeline=<name>` reads environments/pipelines/<name>.yaml instead: the pipeline, and a stage for each of
its environments. `cdk destroy -c removal=<account>/<region>/<name>` reads no file: it has every stack that this
environment may have.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from threading import Thread

# The modules below make 200,000 objects that live until the end: a search for cycles among them takes 0.1 s.
gc.disable()

from trainyard import jsii_process  # noqa: E402


def _import_ahead() -> None:
    """Import modules that do not need the CDK. Faults are for the imports below to report."""
    with suppress(Exception):
        import_module("settings.pipeline")
        import_module("trainyard.monitoring_bundle")


# The import of aws_cdk waits for Node most of the time.
ahead = Thread(target=_import_ahead)
ahead.start()
import aws_cdk as cdk  # noqa: E402

jsii_process.load_ahead()
ahead.join()

import settings.pipeline  # noqa: E402
from stacks.deployment import compose, compose_removal  # noqa: E402

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
    env, pipeline, removal = map(app.node.try_get_context, ("env", "pipeline", "removal"))
    if env and pipeline:
        raise ValueError(f"Both env={env} and pipeline={pipeline} are given. Give one of them.")
    if removal:
        parts = str(removal).split("/")
        if len(parts) != 3:
            raise ValueError(f"removal={removal} is given. Give <account>/<region>/<name of the environment>.")
        compose_removal(app, *parts)
    elif pipeline:
        # Not at the top: the CDK's modules for pipelines take a tenth of a second to import.
        from stacks.pipeline import compose_promotion

        promotion = settings.pipeline.load(settings.pipeline.pipeline_file(str(pipeline)))
        compose_promotion(app, promotion, context=str(pipeline))
    else:
        compose(app, settings.load(settings.environment_file(str(env or DEFAULT))))


if __name__ == "__main__":
    status = main()
    gc.freeze()  # the search at exit takes 0.2 s
    sys.exit(status)
