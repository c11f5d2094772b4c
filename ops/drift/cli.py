"""`python -m ops.drift ENV`: what stands in the account against what was deployed to it. Changes nothing.

Exit status: 0 no drift; 1 drift; 4 no verdict (wrong use, no credentials, nothing deployed, something is being changed,
or a part could not be looked at).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ops.problem import Problem
from ops.review.command import FAILED, Parser, add_options
from settings import Faults, environment_file, load

ROOT = Path(__file__).resolve().parents[2]


def parser() -> Parser:
    """The command line."""
    top = Parser(prog="python -m ops.drift", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("environment", metavar="ENV", help="a name under environments/, or a file's path")
    add_options(top)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        return _run(environment_file(options.environment).resolve(), options)
    except (Problem, Faults, ValueError) as problem:
        sys.stderr.write(f"{problem}\n")
        return FAILED
    except OSError as error:
        sys.stderr.write(f"The report cannot be written: {error}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: no verdict.\n")
        return FAILED


def _run(file: Path, options: argparse.Namespace) -> int:
    import boto3

    from ops.drift.findings import Report
    from ops.drift.report import write
    from ops.drift.survey import Account, survey
    from ops.review.synthesis import synthesize

    environment = load(file)
    # The signing of the ParallelCluster API's requests looks for the region there.
    os.environ["AWS_DEFAULT_REGION"] = os.environ["AWS_REGION"] = environment.region
    session = boto3.Session(region_name=environment.region)
    _require_account(session, environment.account)
    with tempfile.TemporaryDirectory(prefix="trainyard-drift-") as folder:
        wanted = synthesize(ROOT, file, Path(folder))
    report = survey(Report(environment.name, environment.account), Account.of(session), wanted)
    write(report, form=options.format, output=options.output)
    return int(report.level)


def _require_account(session: object, account: str) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        caller = session.client("sts").get_caller_identity()  # type: ignore[attr-defined]
    except (ClientError, BotoCoreError) as error:
        raise Problem(
            f"AWS does not take the credentials at hand: {error}. Have credentials of the account {account} in the "
            "environment (AWS_PROFILE, or keys)."
        ) from error
    if caller["Account"] != account:
        raise Problem(
            f"The credentials at hand are of the account {caller['Account']}, and the file says {account}: use "
            "credentials of that account."
        )
