"""ParallelCluster's dry run: by the API where it stands, else by the genuine package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster_resource.api import (
    Accepted,
    ApiAccessError,
    ApiError,
    ApiTrouble,
    ApiUnknownError,
    Change,
    ClusterApi,
    ClusterView,
    Message,
)
from ops.preflight import configuration
from ops.preflight.checks import cluster
from ops.preflight.configuration import Resolver, Unresolved, Wanted
from ops.preflight.results import CheckResult, Verdict
from tests.cluster_config.builder import environment
from tests.ops.preflight.account import Account, context

WANTED = Wanted("small", {"Region": "us-east-1"}, "https://example.com/prod", "arn:aws:iam::123456789012:role/user")
STANDS = {"small-cluster": [("AWS::IAM::ManagedPolicy", "PoliciesHead", "arn:aws:iam::123456789012:policy/x")]}
VIEW = ClusterView("small", "CREATE_COMPLETE", "CREATE_COMPLETE", "arn", "3.16.1", tags={"trainyard:owner": "me"})


@dataclass
class Api:
    """Answers one dry run, and nothing but dry runs."""

    answer: Accepted | ApiTrouble
    view: ClusterView | None = VIEW
    asked: list[tuple[str, str]] = field(default_factory=list)

    def describe(self, name: str) -> ClusterView | None:
        assert name == "small"
        return self.view

    def create(self, name: str, text: str, *, dry_run: bool = False) -> Accepted:
        return self._dry("create", name, text, dry_run=dry_run)

    def update(self, name: str, text: str, *, dry_run: bool = False) -> Accepted:
        return self._dry("update", name, text, dry_run=dry_run)

    def _dry(self, what: str, name: str, text: str, *, dry_run: bool) -> Accepted:
        assert dry_run, "it would be carried out"
        assert name == "small"
        self.asked.append((what, text))
        if isinstance(self.answer, ApiTrouble):
            raise self.answer
        return self.answer


def lines(api: Any, monkeypatch: pytest.MonkeyPatch) -> list[CheckResult]:  # noqa: ANN401 - a part of ClusterApi
    """What the check says where the cluster's stack stands."""
    monkeypatch.setattr(configuration, "wanted", lambda _: WANTED)
    asked: ClusterApi = api
    return list(cluster.check(context(Account(stacks=STANDS), environment()), lambda *_: asked))


@pytest.mark.parametrize(
    ("answer", "verdict", "said"),
    [
        (ApiError(412, "Request would have succeeded, but DryRun flag is set."), Verdict.OK, "it would succeed"),
        (ApiError(400, "No changes found in your cluster configuration."), Verdict.OK, "no changes"),
        (
            ApiError(400, "Update failure", refused=(Change("HeadNode", "a", "b", "cannot change"),)),
            Verdict.WARNING,
            "HeadNode: cannot change",
        ),
        (ApiError(400, "Bad configuration", messages=(Message("ERROR", "X", "no"),)), Verdict.FAULT, "Bad"),
        (ApiError(409, "busy"), Verdict.UNKNOWN, "busy"),
        (ApiUnknownError("HTTP 500"), Verdict.UNKNOWN, "HTTP 500"),
    ],
)
def test_what_the_api_says(answer: ApiTrouble, verdict: Verdict, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(answer)
    first, *_ = lines(api, monkeypatch)
    assert first.verdict is verdict
    assert said in first.found
    assert [what for what, _ in api.asked] == ["update"]
    assert '"trainyard:owner"' in api.asked[0][1]
    assert bool(first.todo) is (verdict is not Verdict.OK)


def test_a_cluster_that_is_not_there_is_created_dry(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(ApiError(412, "would have succeeded"), view=None)
    [line] = lines(api, monkeypatch)
    assert line.verdict is Verdict.OK
    assert [what for what, _ in api.asked] == ["create"]


def test_validators_words_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (Message("ERROR", "SubnetsValidator", "no such subnet"), Message("WARNING", "KeyPairValidator", "no key"))
    first, error, warning = lines(Api(ApiError(400, "Invalid", messages=said)), monkeypatch)
    assert [first.verdict, error.verdict, warning.verdict] == [Verdict.FAULT, Verdict.FAULT, Verdict.NOTE]
    assert error.subject == "SubnetsValidator"


def test_a_role_that_may_not_be_assumed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    [line] = lines(Api(ApiAccessError("the role cannot be assumed")), monkeypatch)
    assert line.verdict is Verdict.UNKNOWN
    assert line.todo == f"grant sts:AssumeRole on {WANTED.api_user_role_arn}"


def test_before_the_first_deployment_the_package_is_asked() -> None:
    first, *_, last = cluster.check(context(Account(), environment()))
    assert first.verdict is Verdict.OK
    assert "fictitious account" in first.asked
    assert (last.verdict, last.found) == (Verdict.NOTE, "not asked: nothing is deployed yet")


def test_the_package_refuses_what_parallelcluster_refuses() -> None:
    # More than a cluster may have: 50 compute resources and the queue's own limit.
    compute = [{"name": f"c{number}", "instance_types": ["c7i.xlarge"], "max": 1} for number in range(51)]
    wrong = environment(cluster={"queues": [{"name": "cpu", "compute": compute}]})
    first, *_ = cluster.check(context(Account(), wrong))
    assert first.verdict is Verdict.FAULT


def test_what_is_not_deployed_yet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unresolved(_: object) -> Wanted:
        raise Unresolved("the export small-storage:X")

    monkeypatch.setattr(configuration, "wanted", unresolved)
    *_, last = cluster.check(context(Account(stacks=STANDS), environment()))
    assert last.found == "not asked: the export small-storage:X is not deployed yet"


RESOLVER = Resolver({"small-network:Subnet": "subnet-1"}, {"Head": "arn:head", "AWS::Region": "us-east-1"})


def test_values_of_a_template_are_put_in() -> None:
    given = {
        "Subnet": {"Fn::ImportValue": "small-network:Subnet"},
        "Policies": [{"Policy": {"Ref": "Head"}}],
        "Script": {"Fn::Join": ["", ["s3://", {"Ref": "AWS::Region"}, "/x"]]},
        "Count": 2,
        "On": True,
    }
    assert RESOLVER.resolve(given) == {
        "Subnet": "subnet-1",
        "Policies": [{"Policy": "arn:head"}],
        "Script": "s3://us-east-1/x",
        "Count": 2,
        "On": True,
    }


@pytest.mark.parametrize(
    "value", [{"Fn::ImportValue": "other"}, {"Ref": "Other"}, {"Fn::GetAtt": ["Head", "Arn"]}, [{"Ref": "Other"}]]
)
def test_a_value_that_cannot_be_known_is_not_made_up(value: object) -> None:
    with pytest.raises(Unresolved):
        RESOLVER.resolve(value)
