"""`trainyard status --web`: the overview dashboard as one page."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from cli.exits import DONE
from cli.files import read, say

if TYPE_CHECKING:
    from settings import Environment

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
    from ops.overview.prometheus import Prometheus
    from ops.overview.server import server
    from ops.problem import Problem
    from ops.report import write

    _, environment = read(options.environment)
    if options.output and options.port:
        raise Problem("--port: not with --output, which writes a file and serves nothing. Leave one of them out.")
    with _address(options, environment) as found:
        prometheus = Prometheus(found)
        if options.output:
            write(overview(environment.name, prometheus, time.time()), "html", options.output)
            say(f"Wrote {options.output}", at_once=True)
            return DONE
        with server(environment.name, prometheus, options.port or PORT) as running, suppress(KeyboardInterrupt):
            address = f"http://127.0.0.1:{running.server_port}/"
            say(f"{address} shows {environment.name}, from Prometheus at {found}. Ctrl-C ends it.", at_once=True)
            running.serve_forever()
    return DONE


@contextmanager
def _address(options: argparse.Namespace, environment: Environment) -> Iterator[str]:
    """Prometheus: --prometheus, else the environment's running laboratory, else port 9090 of this machine."""
    from ops.overview.prometheus import DEFAULT
    from ops.problem import Problem

    if options.prometheus:
        yield options.prometheus
        return
    if options.on == "local":
        from local.commands.session import ROOT
        from local.slurm import Laboratory, monitoring

        laboratory = Laboratory(ROOT / ".trainyard" / "lab" / "lab")
        if laboratory.running and laboratory.plan.metrics_s and laboratory.plan.environment.name == environment.name:
            with monitoring.tunnel(laboratory) as address:
                yield address
            return
    if reason := _WITHOUT.get(environment.observability.mode, ""):
        raise Problem(f"{environment.name}: {reason.format(name=environment.name)} --prometheus names another server.")
    yield DEFAULT


def refuse_web_options(options: argparse.Namespace) -> None:
    """Without --web, its options have no meaning.

    Raises:
        Problem: one of them is given.
    """
    from ops.problem import Problem

    if wrong := [f"--{name}" for name in ("port", "prometheus", "output") if getattr(options, name)]:
        raise Problem(f"{', '.join(wrong)}: only with --web. Leave it out, or add --web.")
