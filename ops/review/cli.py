"""`python -m ops.review diff ENV`: what a change does to a deployment.

Exit status: 0 nothing changes; 1 safe; 2 disruptive: nodes must be stopped or drained, or the network is interrupted;
3 destructive: data or the cluster itself are at stake; 4 no verdict.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ops.problem import Problem
from ops.review.command import FAILED, Parser, add_options, report
from settings import Faults, environment_file, load

ROOT = Path(__file__).resolve().parents[2]


def parser() -> argparse.ArgumentParser:
    """The command line. ENV is a name under environments/ or a path to a file."""
    top = Parser(prog="python -m ops.review", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True)
    diff = commands.add_parser("diff", help="the verdict on what a deployment of ENV would change")
    diff.add_argument("environment", metavar="ENV", help="a name under environments/, or a file's path")
    diff.add_argument(
        "--against",
        metavar="GIT_REF",
        help="compare with another revision's synthesis, without credentials; left out, with what is deployed on AWS",
    )
    add_options(diff)
    diff.add_argument("--no-cdk-diff", action="store_true", help="leave the CDK CLI's own diff out (quicker)")
    gate = commands.add_parser("gate", help="the verdict on a synthesized assembly, for the approvals of a pipeline")
    gate.add_argument("environment", metavar="ENV", help="a name under environments/, or a file's path")
    gate.add_argument("--assembly", type=Path, required=True, metavar="FOLDER", help="what is going to be deployed")
    gate.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="where the report goes")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        file = environment_file(options.environment).resolve()
        load(file)
        if options.command == "gate":
            from ops.review.gate import gate

            return gate(load(file), options.assembly, options.output)
        return _against_revision(file, options) if options.against else _against_account(file, options)
    except (Problem, Faults, ValueError) as problem:
        sys.stderr.write(f"{problem}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: no verdict.\n")
        return FAILED


def _against_revision(file: Path, options: argparse.Namespace) -> int:
    from ops.review.cdk import diff_text
    from ops.review.synthesis import revision, synthesize

    with tempfile.TemporaryDirectory(prefix="trainyard-review-") as folder, revision(options.against) as tree:
        new = synthesize(ROOT, file, Path(folder) / "new")
        there = tree / file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        # A file that the other revision does not have yet is a new environment: nothing stands before it.
        old = synthesize(tree, there, Path(folder) / "old") if there.exists() else {}
        said = "" if options.no_cdk_diff or options.format == "json" else diff_text(old, new)
        return report(
            load(file).name,
            f"revision {options.against}",
            old=old,
            new=new,
            cdk_diff=said,
            form=options.format,
            output=options.output,
        )


def _against_account(file: Path, options: argparse.Namespace) -> int:
    import boto3

    from ops.review.cdk import diff_text
    from ops.review.stacks import deployed
    from ops.review.synthesis import synthesize

    environment = load(file)
    with tempfile.TemporaryDirectory(prefix="trainyard-review-") as folder:
        new = synthesize(ROOT, file, Path(folder), bundle=True)
        old = deployed(boto3.Session(region_name=environment.region).client("cloudformation"), new)
        return report(
            environment.name,
            f"what is deployed in {environment.account}",
            old=old,
            new=new,
            cdk_diff="" if options.no_cdk_diff or options.format == "json" else diff_text(old, new),
            form=options.format,
            output=options.output,
        )
