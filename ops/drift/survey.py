"""One run: everything that is deployed, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from ops.drift import assets, cluster, detection, fsx, roles, security_groups
from ops.drift.cluster import ReaderOf, Unreadable
from ops.drift.deployed_stack import NESTED, DeployedStack, nested, own, read
from ops.drift.detection import Detected
from ops.drift.findings import Finding, Report
from ops.drift.values import Values
from ops.problem import Problem
from ops.review.stacks import Stacks

if TYPE_CHECKING:
    import boto3

COMPARED_INSIDE = (NESTED, cluster.KIND, assets.DEPLOYMENT, security_groups.CLOSED)
"""Types whose contents are compared, instead of the resources themselves."""


@dataclass(frozen=True)
class Account:
    """Clients of the account of the deployment."""

    cloudformation: Any
    ec2: Any
    fsx: Any
    iam: Any
    s3: Any

    @classmethod
    def of(cls, session: boto3.Session) -> Account:
        return cls(*(session.client(name) for name in ("cloudformation", "ec2", "fsx", "iam", "s3")))


def survey(
    report: Report,
    account: Account,
    wanted: Stacks,
    *,
    reader_of: ReaderOf = cluster.reader_of,
    detect: Callable[[Any, Iterable[DeployedStack]], Mapping[str, Detected]] = detection.detect,
) -> Report:
    """Fill `report`. `wanted` are the stacks as the file synthesizes now.

    Raises:
        Problem: nothing is deployed, AWS cannot be reached or denies access, or a stack is being changed.
    """
    try:
        return _Survey(report, account, own(account.cloudformation, wanted), reader_of).run(wanted, detect)
    except BotoCoreError as error:
        raise Problem(f"AWS cannot be reached: {error}") from error


class _Survey:
    def __init__(
        self, report: Report, account: Account, stacks: Mapping[str, DeployedStack], reader_of: ReaderOf
    ) -> None:
        self._report = report
        self._account = account
        self._stacks = stacks
        self._reader_of = reader_of
        self._inner: dict[str, DeployedStack] = {}

    def run(self, wanted: Stacks, detect: Callable[[Any, Iterable[DeployedStack]], Mapping[str, Detected]]) -> Report:
        client, report = self._account.cloudformation, self._report
        report.undeployed = undeployed(wanted, self._stacks)
        self._find_missing_stacks(wanted)
        for stack in self._stacks.values():
            self._read_nested(stack)
        values = Values(self._stacks.values(), self._inner)
        self._compare_clusters(values)
        everything = [*self._stacks.values(), *self._inner.values()]
        report.findings += detection.statuses(everything)
        detected = detect(client, everything)
        for stack in everything:
            report.findings += detected[stack.id].findings
            report.missing += detected[stack.id].missing
        for stack in self._stacks.values():
            self._compare(stack, values, detected[stack.id])
        for stack in everything:
            self._count(stack, detected[stack.id].checked, ours=stack.id not in self._inner)
        report.findings.sort(key=_rank)
        return report

    def _find_missing_stacks(self, wanted: Stacks) -> None:
        for key, stack in wanted.items():
            if key not in self._stacks:
                advice = "Deploy it: it was deleted, or never deployed."
                self._report.findings.append(Finding(stack.name, "the stack", "", "exists", "missing", advice))

    def _read_nested(self, stack: DeployedStack) -> None:
        try:
            self._inner |= {inner.id: inner for inner in nested(self._account.cloudformation, stack)}
        except ClientError as error:
            self._report.missing.append(f"{stack.name}: its nested stacks cannot be read: {error}")

    def _compare_clusters(self, values: Values) -> None:
        for stack in self._stacks.values():
            for deployed in cluster.clusters(stack, values):
                try:
                    compared = cluster.compare(deployed, self._reader_of(deployed, stack.region))
                except Unreadable as error:
                    self._report.missing.append(f"cluster: {error}")
                    continue
                self._report.findings += compared.findings
                if compared.stack:
                    self._read_cluster_stack(compared.stack)

    def _read_cluster_stack(self, arn: str) -> None:
        try:
            stack = read(self._account.cloudformation, arn)
        except ClientError as error:
            self._report.missing.append(f"cluster: its stack {arn} cannot be read: {error}")
            return
        self._inner[stack.id] = stack
        self._read_nested(stack)

    def _compare(self, stack: DeployedStack, values: Values, detected: Detected) -> None:
        gone = {finding.subject.partition(" ")[0] for finding in detected.findings if finding.actual == "deleted"}
        account = self._account
        checks: dict[str, Callable[[], Iterator[Finding]]] = {
            "FSx": lambda: fsx.check(account.fsx, stack, values, detected.checked),
            "EC2": lambda: security_groups.check(account.ec2, stack, values, gone),
            "IAM": lambda: roles.check(account.iam, stack, values),
            "S3": lambda: assets.check(account.s3, stack, values),
        }
        for service, check in checks.items():
            try:
                self._report.findings += check()
            except ClientError as error:
                self._report.missing.append(f"{stack.name}: {service} does not answer: {error}")

    def _count(self, stack: DeployedStack, checked: frozenset[str], *, ours: bool) -> None:
        compared_here = (*fsx.KINDS, roles.POLICY) if ours else ()
        unchecked = Counter(
            item.kind
            for item in stack.resources.values()
            if item.logical_id not in checked and item.kind not in (*COMPARED_INSIDE, *compared_here)
        )
        here = sum(item.kind in compared_here for item in stack.resources.values() if item.logical_id not in checked)
        self._report.checked += len(checked) + here
        self._report.unchecked += unchecked


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


def _rank(finding: Finding) -> tuple[bool, str, str, str]:
    """The cluster first."""
    return finding.part != cluster.PART, finding.part, finding.subject, finding.path
