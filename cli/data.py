"""`trainyard data`: data sets, exported checkpoints and temporary files in the environment's buckets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cli.exits import DONE, NO
from cli.files import read, say

if TYPE_CHECKING:
    import boto3

    from ops.data.datasets import DataSets
    from settings import Environment


def data(options: argparse.Namespace) -> int:
    """Bring data sets to the cluster and results back, through the environment's buckets.

    trainyard data fetch wikitext-2 wikitext
    trainyard data push my.yaml wikitext wikitext --on aws
    trainyard data verify my.yaml wikitext --on aws
    trainyard data exported my.yaml /fsx/checkpoints/run/step-00000100 --on aws
    """
    if options.action == "fetch":
        return _fetch(options)
    from cli.verdicts import aws_session

    _, environment = read(options.environment)
    with aws_session(options, environment) as session:
        if options.action == "exported":
            return _exported(options, session, environment)
        if options.action == "sweep":
            return _sweep(options, session, environment)
        return _datasets(options, _sets(options, session, environment))


def _datasets(options: argparse.Namespace, sets: DataSets) -> int:
    if options.action == "push":
        sets.push(options.name, options.source, replace=options.replace)
    elif options.action == "pull":
        sets.pull(options.name, options.target, force=options.force)
    elif options.action == "sample":
        for line in sets.sample(options.name, options.file, options.records):
            say(line)
    elif options.action == "list":
        for row in [("NAME", "STATE", "FILES", "SIZE", "PUSHED"), *sets.known()]:
            say("{:<30} {:<10} {:>8} {:>10}  {}".format(*row))
    else:
        wrong = sets.verify(options.name, options.local)
        return _judge(wrong, f"{options.name}: every file is as the manifest says, in {options.local or sets.link.uri}")
    return DONE


def _exported(options: argparse.Namespace, session: boto3.Session, environment: Environment) -> int:
    from ops.data import exports, links
    from ops.data.store import Store

    bucket, prefix = exports.located(options.checkpoint, links.links(environment, links.buckets(session, environment)))
    what, wrong = exports.missing(Store(session, bucket), prefix, read=options.read)
    compared = "sizes and SHA-256" if options.read else "sizes (--read compares SHA-256 too)"
    status = _judge(wrong, f"{what}: all arrived; compared names, {compared}")
    say(links.state(session, environment, bucket, prefix))
    return status


def _sweep(options: argparse.Namespace, session: boto3.Session, environment: Environment) -> int:
    from ops.data import exports, links
    from ops.data.store import Store

    names = links.buckets(session, environment)
    stores = [Store(session, bucket) for bucket in names.values()]
    found = 0
    for line in exports.sweep(stores, links.links(environment, names), options.days, delete=options.delete):
        say(line, at_once=True)  # the record of what was deleted, also if the command is interrupted
        found += 1
    what = f"{found} temporary files and uploads older than {options.days} days"
    say(f"{what} {'were deleted' if options.delete else 'found; nothing was deleted (--delete does)'}")
    return DONE


def _fetch(options: argparse.Namespace) -> int:
    from ops.aws.deployment import console
    from ops.data import hub
    from ops.data.datasets import bar

    wanted = hub.pinned(options.name)
    out = console()
    out.print(f"Fetching {wanted.repository}@{wanted.revision}", soft_wrap=True)
    source = hub.Hub()
    files = list(source.files(wanted))
    with bar(out, f"fetch {options.name}", sum(size for _, size, _ in files)) as advance:
        source.fetch(wanted, files, options.target, advance)
    out.print(f"{len(files)} files in {options.target}, equal to the commit's hashes.", soft_wrap=True)
    out.print(f"Next: trainyard data push ENV NAME {options.target}", soft_wrap=True)
    return DONE


def _sets(options: argparse.Namespace, session: boto3.Session, environment: Environment) -> DataSets:
    from ops.aws.deployment import console
    from ops.data import links
    from ops.data.datasets import DataSets
    from ops.data.store import Store

    names = links.buckets(session, environment)
    link = links.for_data(environment, links.links(environment, names), names["data"], options.folder)
    return DataSets(Store(session, link.bucket, options.workers), link, console(), options.workers, options.part_mib)


def _judge(wrong: list[str], good: str) -> int:
    for line in wrong:
        say(line)
    say(f"{len(wrong)} {'file differs' if len(wrong) == 1 else 'files differ'}" if wrong else good)
    return NO if wrong else DONE
