"""ParallelCluster's dry run: by the deployed API, else by the genuine package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster_resource import api
from cluster_resource.api import ApiError, ApiTrouble, Message
from ops import pcluster_subprocess
from ops.preflight import configuration
from ops.preflight.checks import cluster
from ops.preflight.configuration import Resolver, Unresolved, Wanted
from ops.preflight.results import CheckResult, Verdict
from tests.cluster_config.builder import environment
from tests.ops.preflight.account import Account, context, results

WANTED = Wanted("small", {"Region": "us-east-1"}, "https://example.com/prod", "arn:aws:iam::123456789012:role/user")
DEPLOYED = Account(stacks={"small-cluster": [("AWS::IAM::ManagedPolicy", "PoliciesHead", "arn:aws:iam::1:policy/x")]})
VIEW = api.ClusterView("small", "CREATE_COMPLETE", "CREATE_COMPLETE", "arn", "3.16.1", tags={"trainyard:owner": "me"})


@dataclass
class Api:
    """Answers one dry run, and nothing but dry runs."""

    answer: api.Accepted | ApiTrouble
    view: api.ClusterView | None = VIEW
    asked: list[tuple[str, str]] = field(default_factory=list)

    def describe(self, name: str) -> api.ClusterView | None:
        assert name == "small"
        return self.view

    def create(self, name: str, text: str, *, dry_run: bool = False, operation: str = "create") -> api.Accepted:
        assert dry_run and name == "small"
        self.asked.append((operation, text))
        if isinstance(self.answer, ApiTrouble):
            raise self.answer
        return self.answer

    def update(self, name: str, text: str, *, dry_run: bool = False) -> api.Accepted:
        return self.create(name, text, dry_run=dry_run, operation="update")


def dry_run(fake: Any, monkeypatch: pytest.MonkeyPatch) -> list[CheckResult]:  # noqa: ANN401 - a part of ClusterApi
    """The results if the cluster's stack is deployed."""
    monkeypatch.setattr(configuration, "wanted", lambda _: WANTED)
    connected: api.ClusterApi = fake
    return list(cluster.check(context(DEPLOYED, environment()), lambda *_: connected))


@pytest.mark.parametrize(
    ("answer", "verdict", "shown"),
    [
        (ApiError(412, "Request would have succeeded, but DryRun flag is set."), Verdict.OK, "it would succeed"),
        (ApiError(400, "No changes found in your cluster configuration."), Verdict.OK, "no changes"),
        (
            ApiError(400, "Update failure", refused=(api.Change("HeadNode", "a", "b", "cannot change"),)),
            Verdict.WARNING,
            "HeadNode: cannot change",
        ),
        (ApiError(400, "Bad configuration", messages=(Message("ERROR", "X", "no"),)), Verdict.FAULT, "Bad"),
        (ApiError(409, "busy"), Verdict.UNKNOWN, "busy"),
        (api.ApiUnknownError("HTTP 500"), Verdict.UNKNOWN, "HTTP 500"),
    ],
)
def test_answers_of_the_api(answer: ApiTrouble, verdict: Verdict, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Api(answer)
    first, *_ = dry_run(fake, monkeypatch)
    assert first.verdict is verdict
    assert shown in first.found
    [(operation, text)] = fake.asked
    assert operation == "update" and '"trainyard:owner"' in text
    assert bool(first.todo) is (verdict is not Verdict.OK)


def test_missing_cluster_is_a_dry_create(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Api(ApiError(412, "would have succeeded"), view=None)
    [result] = dry_run(fake, monkeypatch)
    assert result.verdict is Verdict.OK
    assert [operation for operation, _ in fake.asked] == ["create"]


def test_each_validator_message_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = (Message("ERROR", "SubnetsValidator", "no subnet"), Message("WARNING", "KeyPairValidator", "no key"))
    first, error, warning = dry_run(Api(ApiError(400, "Invalid", messages=messages)), monkeypatch)
    assert [first.verdict, error.verdict, warning.verdict] == [Verdict.FAULT, Verdict.FAULT, Verdict.NOTE]
    assert error.subject == "SubnetsValidator"


def test_role_that_cannot_be_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    [result] = dry_run(Api(api.ApiAccessError("the role cannot be assumed")), monkeypatch)
    assert result.verdict is Verdict.UNKNOWN
    assert result.todo == f"grant sts:AssumeRole on {WANTED.api_user_role_arn}"


def test_package_checks_before_the_first_deployment() -> None:
    first, *_, last = results(cluster.check, Account(), environment())
    assert first.verdict is Verdict.OK
    assert "fictitious account" in first.asked
    assert (last.verdict, last.found) == (Verdict.NOTE, "not asked: nothing is deployed yet")


def test_package_refuses_a_bad_configuration() -> None:
    # More than a cluster may have: 50 compute resources and the queue's own limit.
    compute = [{"name": f"c{number}", "instance_types": ["c7i.xlarge"], "max": 1} for number in range(51)]
    wrong = environment(cluster={"queues": [{"name": "cpu", "compute": compute}]})
    assert results(cluster.check, Account(), wrong)[0].verdict is Verdict.FAULT


def test_missing_export_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unresolved(_: object) -> Wanted:
        raise Unresolved("the export small-storage:X")

    monkeypatch.setattr(configuration, "wanted", unresolved)
    monkeypatch.setattr(pcluster_subprocess, "check", lambda *_: {"ok": True, "schema": {}, "messages": []})
    *_, last = results(cluster.check, DEPLOYED, environment())
    assert last.found == "not asked: the export small-storage:X is not deployed yet"


RESOLVER = Resolver({"small-network:Subnet": "subnet-1"}, {"Head": "arn:head", "AWS::Region": "us-east-1"})


def test_references_are_replaced_by_ids() -> None:
    given = {
        "Subnet": {"Fn::ImportValue": "small-network:Subnet"},
        "Policies": [{"Policy": {"Ref": "Head"}}],
        "Script": {"Fn::Join": ["", ["s3://", {"Ref": "AWS::Region"}, "/x"]]},
    }
    assert RESOLVER.resolve(given) == {
        "Subnet": "subnet-1", "Policies": [{"Policy": "arn:head"}], "Script": "s3://us-east-1/x",
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", [{"Fn::ImportValue": "other"}, {"Ref": "Other"}, {"Fn::GetAtt": ["Head", "Arn"]}, [{"Ref": "Other"}]]
)
def test_unknown_reference_is_unresolved(value: object) -> None:
    with pytest.raises(Unresolved):
        RESOLVER.resolve(value)
