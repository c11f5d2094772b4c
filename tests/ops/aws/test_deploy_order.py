"""The order of a deployment that removes a file system: docs/storage.md, "Replace a file system"."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any, cast

import pytest
from rich.console import Console

from ops.aws import deployment, stacks
from ops.problem import Problem
from ops.review.resources import DATABASE, Effect
from ops.review.stacks import Stack
from ops.review.verdict import judge
from tests.constructs.stacks_of import environment, synthesize

if TYPE_CHECKING:
    import boto3
    from aws_cdk.assertions import Template

OLD: dict[str, Any] = {"name": "old", "mount": "/old", "capacity_gib": 1200}
NEW: dict[str, Any] = {"name": "new", "mount": "/new", "capacity_gib": 2400}
LINK: dict[str, Any] = {"path": "/out", "bucket": "checkpoints", "prefix": "out/"}
EXPORTS = {"import_events": [], "export_events": ["new", "changed", "deleted"]}


def imports(template: Template) -> set[str]:
    return set(re.findall(r'"Fn::ImportValue": "([^"]+)"', json.dumps(template.to_json())))


def exports(template: Template) -> set[str]:
    return {output["Export"]["Name"] for output in template.find_outputs("*").values() if "Export" in output}


def test_every_step_keeps_the_exports_that_are_in_use() -> None:
    """CloudFormation refuses to drop an export that the data links, as they are deployed then, import."""
    before = synthesize(storage={"lustre": [{**OLD, "associations": [{**LINK, **EXPORTS}]}]})
    # Two file systems may not export to one prefix: the new one imports only.
    added_link = {**LINK, "import_events": ["new"]}
    both = [{**OLD, "associations": [{**LINK, **EXPORTS}]}, {**NEW, "associations": [added_link]}]
    added = synthesize(storage={"lustre": both})
    after = synthesize(storage={"lustre": [{**NEW, "associations": [{**LINK, **EXPORTS}]}]})

    assert imports(before.data_links) <= exports(added.storage)
    # With the storage stack first, as in `cdk deploy --all`, the removal is refused; with the data links first, not.
    assert not imports(added.data_links) <= exports(after.storage)
    assert imports(after.data_links) <= exports(added.storage) & exports(after.storage)


def test_what_uses_the_removed_is_deployed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("settle", "finish_rollbacks"):
        monkeypatch.setattr(stacks, name, lambda *_: None)
    refused = f"Cannot delete export unit-storage:X {deployment._EXPORT_IN_USE} unit-data-links"
    runs: list[tuple[str, ...]] = []

    def run(*parts: str) -> deployment.Run:
        runs.append(parts)
        return deployment.Run(changed=True, code=int(len(runs) == 1), failures=[refused] if len(runs) == 1 else [])

    done = deployment.deploy(cast("boto3.Session", None), environment(), Console(quiet=True), run)
    assert done.code == 0
    assert runs == [("--all",), ("data-links", "cluster", "observability", "--exclusively"), ("--all",)]


def test_what_a_successful_deployment_could_not_remove_is_shown() -> None:
    failure = "unit-cluster: Cluster (Custom::ParallelCluster): jobs run on the old cluster"
    output = io.StringIO()
    run = lambda *_: deployment.Run(changed=True, code=0, failures=[failure])  # noqa: E731
    deployment.deploy(cast("boto3.Session", None), environment(), Console(file=output, width=200), run)
    assert f"Not removed, and may go on costing: {failure}" in output.getvalue()


def with_database(snapshot: str | None, uri: object) -> dict[str, Stack]:
    value = {"Fn::GetAtt": ["Cluster", "Endpoint.Address"]}
    database = {
        "Resources": {
            "Cluster": {"Type": DATABASE, "Properties": {"SnapshotIdentifier": snapshot} if snapshot else {}}
        },
        "Outputs": {"Address": {"Value": value, "Export": {"Name": "unit-database:Address"}}},
    }
    cluster = {"Resources": {"C": {"Type": "AWS::SSM::Parameter", "Properties": {"Value": uri}}}}
    return {
        part: Stack(part, f"unit-{part}", "us-east-1", template)
        for part, template in (("database", database), ("cluster", cluster))
    }


def test_a_database_is_not_restored_while_the_cluster_imports_its_address() -> None:
    imports_it = {"Fn::ImportValue": "unit-database:Address"}
    new = with_database("before", imports_it)
    verdict = judge("unit", "before", with_database(None, imports_it), new)
    with pytest.raises(Problem, match=r"RDS DBCluster Cluster: refused .* docs/accounting.md, Restore"):
        deployment._confirm_deployment(cast("deployment.Target", None), verdict, yes=True, destructive=True)
    # The step before: the cluster has the address as text.
    verdict = judge("unit", "before", with_database(None, "unit-accounting.cluster-x:3306"), new)
    assert [change.effect for change in verdict.data] == [Effect.REPLACED]


def test_an_association_does_not_get_another_prefix() -> None:
    def stacks(prefix: str) -> dict[str, Stack]:
        properties = {"FileSystemId": "fs-1", "FileSystemPath": "/data", "DataRepositoryPath": f"s3://unit/{prefix}"}
        template = {"Resources": {"Data": {"Type": "AWS::FSx::DataRepositoryAssociation", "Properties": properties}}}
        return {"data-links": Stack("data-links", "unit-data-links", "us-east-1", template)}

    verdict = judge("unit", "before", stacks("old/"), stacks("new/"))
    with pytest.raises(Problem, match=r"DataRepositoryAssociation .*: refused: .* docs/storage.md, Assoc"):
        deployment._confirm_deployment(cast("deployment.Target", None), verdict, yes=True, destructive=True)
