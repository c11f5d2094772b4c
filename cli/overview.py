"""`trainyard status --web`: the overview dashboard as one page."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress

from cli.exits import DONE
from cli.files import read

PORT = 8600
_WITHOUT = {
    "off": "observability.mode is off, so nothing measures the cluster. Set it to self-hosted.",
    "cloudwatch": "observability.mode is cloudwatch: the dashboard is in the CloudWatch console, in Dashboards.",
    "managed": "observability.mode is managed: the dashboards are in Amazon Managed Grafana, whose address is an "
    "output of the stack {name}-observability.",
}


def show(options: argparse.Namespace) -> int:
    """Serve the page on loopback until it is interrupted, or write it to a file."""
    from ops.overview.page import overview
    from ops.overview.prometheus import DEFAULT, Prometheus
    from ops.overview.server import server
    from ops.problem import Problem
    from ops.report import write

    _, environment = read(options.environment)
    if options.output and options.port:
        raise Problem("--port: not with --output, which writes a file and serves nothing. Leave one of them out.")
    reason = _WITHOUT.get(environment.observability.mode, "")
    if reason and not options.prometheus:
        raise Problem(f"{environment.name}: {reason.format(name=environment.name)} --prometheus names another server.")
    prometheus = Prometheus(options.prometheus or DEFAULT)
    if options.output:
        write(overview(environment.name, prometheus, time.time()), "html", options.output)
        _print(f"Wrote {options.output}")
        return DONE
    with server(environment.name, prometheus, options.port or PORT) as running, suppress(KeyboardInterrupt):
        address = f"http://127.0.0.1:{running.server_port}/"
        _print(f"{address} shows {environment.name}, from Prometheus at {prometheus.address}. Ctrl-C ends it.")
        running.serve_forever()
    return DONE


def refuse_its_options(options: argparse.Namespace) -> None:
    """Without --web, its options have no meaning.

    Raises:
        Problem: one of them is given.
    """
    from ops.problem import Problem

    if wrong := [f"--{name}" for name in ("port", "prometheus", "output") if getattr(options, name)]:
        raise Problem(f"{', '.join(wrong)}: only with --web. Leave it out, or add --web.")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
