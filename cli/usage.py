"""`trainyard cost`: who used a cluster, and what that cost."""

from __future__ import annotations

import argparse
import sys
import time

from cli.files import read
from cli.verdicts import aws_session


def cost(options: argparse.Namespace) -> int:
    """Show GPU hours and dollars by team, user, model or job, with idle and wasted hours, from Slurm's accounting.

    trainyard cost prod --on aws --since 30d
    trainyard cost prod --on aws --since 2026-10-01 --until 2026-11-01 --by user --format csv --output october.csv
    trainyard cost prod --on aws --format html --output cost.html
    """
    from ops.problem import Problem
    from ops.report import write
    from ops.usage.records import usage
    from ops.usage.report import TOP_JOBS, report, table

    _, environment = read(options.environment)
    now = int(time.time())
    until = min(options.until(now), now) if options.until else now
    since = options.since(until)
    if since >= until:
        raise Problem("--since is not before --until, or is in the future; both are times in UTC.")
    jobs = options.jobs or (20_000 if options.by == "job" else TOP_JOBS)
    with aws_session(options, environment) as session:
        found = usage(environment, session, since, until, jobs)
    if options.format == "csv":
        content = table(found, options.by)
        if options.output:
            options.output.write_bytes(content.encode())
        else:
            sys.stdout.write(content)
    else:
        write(report(found, options.by), options.format, options.output)
    return 0
