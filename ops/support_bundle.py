"""`trainyard support-bundle`: what helps to find a fault in an environment, in one archive without secrets."""

from __future__ import annotations

import io
import json
import platform
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ops import logs
from ops.aws import stacks, status
from ops.problem import Problem
from ops.redaction import redact
from ops.validation import head_node
from trainyard import parallelcluster

if TYPE_CHECKING:
    import boto3

    from settings import Environment

ACTIONS: tuple[str, ...] = tuple(
    sorted(
        {
            *logs.ACTIONS,
            *("cloudformation:DescribeStackEvents", "cloudformation:DescribeStacks", "ec2:DescribeSubnets"),
            *("ec2:DescribeVpcs", "ecr:DescribeRepositories", "fsx:DescribeDataRepositoryAssociations"),
            *(
                "fsx:DescribeFileSystems",
                "fsx:DescribeVolumes",
                "rds:DescribeDBClusters",
                "s3:GetBucketVersioning",
                "s3:ListBucket",
            ),
            *("ssm:GetCommandInvocation", "ssm:GetParameter", "ssm:SendCommand", "sts:AssumeRole"),
        }
    )
)
MOST_OF_A_PART = 4_000_000
"""Characters; of a longer part the end is kept. With at most a dozen parts this bounds the bundle."""
LOG_HOURS, LOG_LINES, EVENTS = 24, 20_000, 60
NEVER = (
    "outputs of jobs, data sets, checkpoints",
    "CloudFormation templates, parameters and outputs, the cluster's configuration",
    "content of Secrets Manager, keys, environment variables of this machine",
)
Part = Callable[[], str]


def require_new(target: Path) -> None:
    """Refuses a file that exists and a folder that does not.

    Raises:
        Problem: it names the file or the folder.
    """
    if target.exists():
        raise Problem(f"{target} exists. Give another file with --output.")
    if not target.parent.is_dir():
        raise Problem(f"{target.parent} is not a folder. Give a file in an existing folder with --output.")


def local_parts(file: Path, state: Path) -> dict[str, Part]:
    """What needs no account: the environment file, versions, logs of deployments in the folder `state`."""
    files = {"environment.yaml": file, **{f"deployment/{log.name}": log for log in sorted(state.glob("*.log"))}}
    return {"versions.txt": _versions} | {
        name: partial(path.read_text, "utf-8", "replace") for name, path in files.items()
    }


def missing(reason: Exception) -> Part:
    """A part that could not be collected; calling it raises `reason`."""

    def part() -> str:
        raise reason

    return part


def account_parts(
    session: boto3.Session, environment: Environment, name: str, sources: Callable[[], Sequence[logs.Source]]
) -> dict[str, Part]:
    """What AWS, the ParallelCluster API and the head node know; `name` is the environment's on a command line."""

    def shown() -> str:
        text = io.StringIO()
        status.show(session, environment, name, Console(file=text, width=200, no_color=True))
        return text.getvalue()

    def slurm() -> str:
        ssm = session.client("ssm")
        document = head_node.document(ssm, environment.name)
        node = head_node.HeadNode(ssm, head_node.find(session.client("ec2"), environment.cluster_name), document)
        return "\n".join(f"$ {command}\n{output}" for command, output in node.ask("state").items())

    def log(topic: str) -> Part:
        wanted = logs.Wanted(topic, since_ms=int((time.time() - LOG_HOURS * 3600) * 1000))
        return lambda: "".join(f"{line}\n" for line in logs.read(sources(), wanted, LOG_LINES))

    return {
        "stacks.json": lambda: _stacks(session, environment),
        "status.txt": shown,
        "slurm.txt": slurm,
        **{f"logs/{topic}.log": log(topic) for topic in logs.TOPICS},
    }


def write(target: Path, environment: Environment, parts: Mapping[str, Part], at: float) -> list[str]:
    """Write the archive, for its owner only; returns why parts are missing. No failure of a part ends it.

    Raises:
        Problem: the file exists.
    """
    found: Counter[str] = Counter()
    members, failed, cut = {}, [], []
    for name, part in sorted(parts.items()):
        try:
            whole = part()
            # Twice as much, so that no secret whose beginning was cut off is in what is kept.
            text = redact(whole[-2 * MOST_OF_A_PART :], found)
        except Exception as error:
            failed.append(redact(f"{name}: {type(error).__name__}: {error}", found))
            continue
        if len(text) > MOST_OF_A_PART or len(whole) > 2 * MOST_OF_A_PART:
            cut.append(f"{name}: its beginning; the last {MOST_OF_A_PART} characters are kept")
        members[name] = text[-MOST_OF_A_PART:]
    lists = {
        "Not collected": failed or ["nothing failed"],
        "Cut": cut or ["nothing"],
        "Left out": [f"{kind}: {count}" for kind, count in sorted(found.items())] or ["nothing"],
        "Never part of a bundle": NEVER,
    }
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    title = f"Support bundle of {environment.name} ({environment.cluster_name}, {environment.region}), {when}"
    note = "Account ids, names, addresses and resource ids stay. Read it before you pass it on."
    body = [line for head, lines in lists.items() for line in ("", f"{head}:", *(f"  {one}" for one in lines))]
    members["README.txt"] = "\n".join([title, note, *body, ""])
    require_new(target)
    target.touch(mode=0o600, exist_ok=False)
    with tarfile.open(target, mode="w:gz") as archive:
        for name, text in sorted(members.items()):
            info = tarfile.TarInfo(f"{target.name.removesuffix('.tar.gz')}/{name}")
            content = text.encode()
            info.size, info.mtime, info.mode = len(content), int(at), 0o600
            archive.addfile(info, io.BytesIO(content))
    return failed


def _versions() -> str:
    try:
        own = version("trainyard")
    except PackageNotFoundError:
        own = "unknown"
    cluster, python = parallelcluster.version(), platform.python_version()
    return f"trainyard {own}\nParallelCluster {cluster}\nPython {python}\n{platform.platform()}\n"


def _stacks(session: boto3.Session, environment: Environment) -> str:
    """State and last events of every stack."""
    client: Any = session.client("cloudformation")
    kept = ("Timestamp", "LogicalResourceId", "ResourceType", "ResourceStatus", "ResourceStatusReason")
    found = []
    for stack in stacks.stacks_of(session, environment):
        events = client.describe_stack_events(StackName=stack["StackName"])["StackEvents"][:EVENTS]
        about = {key: stack.get(key) for key in ("StackName", "StackStatus", "StackStatusReason", "LastUpdatedTime")}
        found.append({**about, "events": [{key: event.get(key) for key in kept} for event in events]})
    return json.dumps(sorted(found, key=lambda one: one["StackName"]), indent=1, default=str)
