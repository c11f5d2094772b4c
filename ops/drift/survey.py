"""One run: everything that is deployed, compared."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from cluster_resource.aws import Aws
from ops.drift import access, assets, cluster, detection, fsx, shares
from ops.drift.deployed_stack import NESTED, DeployedStack, nested, own, read
from ops.drift.findings import Finding, Report
from ops.drift.values import Values
from ops.preflight.aws import emulated
from ops.problem import Problem
from ops.review.cluster import TYPE
from ops.review.stacks import Stacks

if TYPE_CHECKING:
    import boto3

COMPARED_INSIDE = (NESTED, TYPE, assets.DEPLOYMENT, access.CLOSED)
"""Types whose contents are compared, instead of the resources themselves."""
COMPARED_HERE = (*fsx.KINDS, access.POLICY)


def survey(report: Report, session: boto3.Session, wanted: Stacks) -> Report:
    """Fill `report`. `wanted` are the stacks as the file synthesizes now.

    Raises Problem where nothing is deployed, AWS cannot be reached or denies access, or a stack is being changed.
    """
    try:
        _survey(report, session, wanted)
    except BotoCoreError as error:
        raise Problem(f"AWS cannot be reached: {error}") from error
    # The cluster first.
    report.findings.sort(key=lambda item: (item.part != cluster.PART, item.part, item.subject, item.path))
    return report


def _survey(report: Report, session: boto3.Session, wanted: Stacks) -> None:
    client = session.client("cloudformation")
    report.simulated = emulated(client)
    stacks = own(client, wanted)
    report.undeployed = undeployed(wanted, stacks)
    for key, stack in wanted.items():
        if key not in stacks:
            advice = "Deploy it: it was deleted, or never deployed."
            report.findings.append(Finding(stack.name, "the stack", "", "exists", "missing", advice))
    ours = list(stacks.values())
    inner: list[DeployedStack] = []
    for deployed in ours:
        with _note(report, f"{deployed.name}: its nested stacks cannot be read"):
            inner += nested(client, deployed)
    values = Values(ours, inner)
    inner += _compare_clusters(report, session, ours, values)
    report.findings += detection.statuses([*ours, *inner])
    detected = detection.detect(client, [*ours, *inner])
    clients: dict[str, Any] = {name: session.client(name) for name in ("ec2", "fsx", "iam", "s3")}
    for deployed in ours:
        result = detected[deployed.id]
        gone = {finding.subject.partition(" ")[0] for finding in result.findings if finding.actual == "deleted"}
        checks = {
            "FSx": fsx.check(clients["fsx"], deployed, values, result.checked),
            "EC2": access.check_rules(clients["ec2"], deployed, values, gone, ours),
            "IAM": access.check_roles(clients["iam"], deployed, values),
            "S3": assets.check(clients["s3"], deployed, values),
        }
        for service, findings_of in checks.items():
            with _note(report, f"{deployed.name}: {service} does not answer"):
                report.findings += findings_of
    for deployed in [*ours, *inner]:
        result = detected[deployed.id]
        report.findings += result.findings
        report.missing += result.missing
        report.checked += len(result.checked)
        for item in deployed.resources.values():
            if item.logical_id not in result.checked and item.kind not in COMPARED_INSIDE:
                if item.kind in COMPARED_HERE and deployed in ours:
                    report.checked += 1
                else:
                    report.unchecked[item.kind] += 1


def _compare_clusters(
    report: Report, session: boto3.Session, stacks: list[DeployedStack], values: Values
) -> list[DeployedStack]:
    """Compare the clusters, and return their own stacks."""
    client = session.client("cloudformation")
    inner: list[DeployedStack] = []
    for deployed, found in ((stack, found) for stack in stacks for found in cluster.clusters(stack, values)):
        try:
            findings, arn = cluster.compare(found, cluster.Reader(found, deployed.region))
        except cluster.Unreadable as error:
            report.missing.append(f"cluster: {error}")
            continue
        report.findings += findings
        try:
            report.findings += shares.check(session, deployed, found.name)
        except Problem as reason:
            report.missing.append(f"shares of {found.name}: {reason}")
        if arn:
            with _note(report, f"cluster: its stack {arn}, or one nested in it, cannot be read"):
                inner.append(read(client, arn))
                inner += nested(client, inner[-1])
    return inner


def not_as_deployed(session: boto3.Session, deployed: Stacks) -> tuple[list[str], list[str]]:
    """Removals that did not finish, and clusters that differ from what was deployed; and what could not be read.

    Args:
        deployed: the deployed templates.
    """
    found: list[str] = []
    unread: list[str] = []
    try:
        stacks, values = _read(session, deployed)
    except (ClientError, BotoCoreError) as error:
        return found, [f"the deployed stacks cannot be read: {error}"]
    for stack in stacks:
        if removing := stack.status == "DELETE_FAILED":
            found.append(
                f"the removal of the stack {stack.name} did not finish (DELETE_FAILED), and CloudFormation updates no"
                " stack in this state; finish the removal (trainyard down, or cdk destroy), then deploy"
            )
        for item in cluster.clusters(stack, values):
            try:
                findings, _ = cluster.compare(item, cluster.Reader(item, stack.region))
            except (cluster.Unreadable, BotoCoreError, ClientError) as error:
                unread.append(f"whether the cluster {item.name} is as deployed: {error}")
                continue
            # While it is being removed, a missing cluster needs nothing.
            found += cluster.in_words(item.name, (one for one in findings if one.path or not removing))
    return found, unread


def jobs_on(session: boto3.Session, deployed: Stacks, names: Collection[str]) -> dict[str, str]:
    """What runs on these clusters, in words, by the document with which the custom resource counts jobs."""
    if not names:
        return {}
    said = dict.fromkeys(names, "its running jobs could not be counted")
    with suppress(ClientError, BotoCoreError):
        stacks, values = _read(session, deployed)
        documents = [item for stack in stacks for item in stack.of("AWS::SSM::Document")]
        document = next((item.physical_id for item in documents if "JobCount" in item.logical_id), None)
        aws = Aws(session.client, jobs_document=document)  # type: ignore[arg-type]
        for stack in stacks:
            for item in cluster.clusters(stack, values):
                if item.name in said:
                    with suppress(cluster.Unreadable):
                        said[item.name] = _jobs(cluster.Reader(item, stack.region), item.name, aws) or said[item.name]
    return said


def _jobs(reader: cluster.Reader, name: str, aws: Aws) -> str:
    head = ((reader.describe(name) or {}).get("headNode") or {}).get("instanceId")
    if not reader.has_nodes(name):
        return "no job runs on it"
    count = aws.running_jobs(head) if head else None
    return "" if count is None else f"{count} job{' runs' if count == 1 else 's run'} on it"


def _read(session: boto3.Session, deployed: Stacks) -> tuple[list[DeployedStack], Values]:
    client = session.client("cloudformation")
    stacks = [read(client, stack.name, template=stack.template) for stack in deployed.values()]
    return stacks, Values(stacks, [inner for stack in stacks for inner in nested(client, stack)])


@contextmanager
def _note(report: Report, what: str) -> Iterator[None]:
    """A failed or denied call becomes a missing check; the other checks still run."""
    try:
        yield
    except ClientError as error:
        report.missing.append(f"{what}: {error}")


def undeployed(wanted: Stacks, stacks: Mapping[str, DeployedStack]) -> dict[str, int]:
    """Number of resources in which the file differs from what was deployed, by stack; equal stacks are left out.

    The code of functions is not compared, because it is bundled only for a deployment.
    """
    found = {}
    for key, stack in stacks.items():
        now, was = wanted[key].resources, stack.template.get("Resources", {})
        differing = sum(_comparable(now.get(name)) != _comparable(was.get(name)) for name in {*now, *was})
        if differing:
            found[stack.name] = differing
    return found


def _comparable(resource: Mapping[str, Any] | None) -> object:
    if resource is None:
        return None
    properties = {key: value for key, value in resource.get("Properties", {}).items() if key != "Code"}
    return {"Type": resource["Type"], "Properties": properties}
