"""Creation: one cluster, owned, followed until its fleet runs; no other cluster is touched."""

import json

import pytest

from cluster_resource.api import OWNER_TAG, Accepted, ApiAccessError, ApiError, ApiUnknownError, Message, StackEvent
from tests.cluster_resource import events
from tests.cluster_resource.cases import Case, table
from tests.cluster_resource.events import OWNER, FakeAws, own_id, properties
from tests.cluster_resource.fake_api import FakeApi, foreign, owned

LOST = ApiUnknownError("POST /v3/clusters: HTTP 504: Endpoint request timed out")
DENIED = ApiAccessError("the role cannot be assumed: AccessDenied")
CREATE = events.create()
NEVER_MADE = "not-created/local"
SCRIPT = "OnNodeConfiguredExecutionFailure: Failed to execute OnNodeConfigured script."


def test_a_cluster_is_created_with_types_restored_and_the_ownership_tag(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi(messages=(Message("WARNING", "KeyPairValidator", "No SSH key"),))
    verdict = Case(api, CREATE, changing=("create local",), physical_id=own_id("local")).check()
    sent = json.loads(api.bodies[0])
    assert sent["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]["MaxCount"] == 2
    assert sent["Tags"] == [{"Key": "team", "Value": "training"}, {"Key": OWNER_TAG, "Value": OWNER}]
    assert "WARNING KeyPairValidator: No SSH key" in caplog.text
    assert verdict.data == {
        "ClusterName": "local",
        "HeadNodeInstanceId": "i-0123456789abcdef0",
        "HeadNodePrivateIp": "10.0.0.10",
        "StackArn": "arn:aws:cloudformation:us-east-1:123456789012:stack/local/1",
        "Status": "CREATE_COMPLETE",
        "Version": "3.16.1",
        "Execution": events.EXECUTION,
    }


@table(
    {
        "delivered twice, in progress": Case(FakeApi(owned("CREATE_IN_PROGRESS")), CREATE, changing=()),
        "delivered twice, complete": Case(FakeApi(owned()), CREATE, changing=(), physical_id=own_id("local")),
        "delivered twice, updated since": Case(FakeApi(owned("UPDATE_COMPLETE")), CREATE, changing=()),
        "504, but accepted": Case(FakeApi(faults={"create": [(LOST, True)]}), CREATE, changing=("create local",)),
        "504, not accepted": Case(FakeApi(faults={"create": [LOST]}), CREATE, changing=("create local",) * 2),
        "remains of a failed creation": Case(
            FakeApi(owned("ROLLBACK_IN_PROGRESS")), CREATE, changing=("delete local", "create local")
        ),
        "describe fails": Case(
            FakeApi(faults={"describe": [ApiUnknownError("GET: HTTP 500"), ApiError(429, "Too Many Requests")]}),
            CREATE,
            changing=("create local",),
        ),
        "role not visible yet": Case(FakeApi(faults={"describe": [DENIED] * 3}), CREATE),
        "fleet's answer lost": Case(
            FakeApi(faults={"fleet": [ApiUnknownError("GET: HTTP 502"), ApiError(429, "Too Many Requests")]}), CREATE
        ),
        "version call lost": Case(FakeApi(faults={"api_version": [ApiUnknownError("GET: HTTP 500")]}), CREATE),
        "version not shown": Case(FakeApi(faults={"api_version": [ApiError(400, "no such os")]}), CREATE),
        **{
            f"fleet {status}": Case(FakeApi(fleet_of_new=status), CREATE)
            for status in ("START_REQUESTED", "STARTING", "STOP_REQUESTED", "STOPPING", "STOPPED")
        },
    }
)
def test_a_creation_succeeds(case: Case) -> None:
    case.check()


@table(
    {
        "name taken": Case(
            FakeApi(foreign("local")), CREATE, "FAILED", ("exists already", "Choose another cluster"), (), NEVER_MADE
        ),
        "ours, with another configuration": Case(
            FakeApi(owned(max_count=8)), CREATE, "FAILED", ("MaxCount: now 8, asked for 2",), (), NEVER_MADE
        ),
        "no clear answer": Case(
            FakeApi(faults={"create": [LOST] * 9}),
            CREATE,
            "FAILED",
            ("Endpoint request timed out",),
            ("create local",) * 5,
        ),
        "remains cannot be deleted": Case(
            FakeApi(owned("DELETE_FAILED"), outcomes={"DELETE_IN_PROGRESS": "DELETE_FAILED"}),
            CREATE,
            "FAILED",
            ("could not be deleted",),
            changing=("delete local",),
        ),
        "disappears": Case(
            FakeApi(outcomes={"CREATE_IN_PROGRESS": "DELETE_COMPLETE"}), CREATE, "FAILED", ("disappeared",)
        ),
        "time limit": Case(
            FakeApi(frozen=True),
            events.create(properties(TimeoutMinutes="10")),
            "FAILED",
            ("Last seen: CREATE_IN_PROGRESS", "raise the time limit"),
            physical_id=own_id("local"),
            polls=10 * 60 // events.POLL_SECONDS,
        ),
        "version of the cluster": Case(
            FakeApi(version="3.15.0"), CREATE, "FAILED", ("3.15.0", "3.16.1"), physical_id=own_id("local")
        ),
        "version of the API": Case(
            FakeApi(shown_version="3.17.0"),
            CREATE,
            "FAILED",
            ("creates clusters of ParallelCluster 3.17.0, but 3.16.1 is wanted",),
            (),
            NEVER_MADE,
        ),
        "refused": Case(
            FakeApi(faults={"create": [ApiError(400, "Bad Request: region conflicts.")]}),
            CREATE,
            "FAILED",
            ("Bad Request: region conflicts.",),
            physical_id=NEVER_MADE,
        ),
        "no access": Case(
            FakeApi(faults={"describe": [DENIED] * 100}), CREATE, "FAILED", ("may assume",), (), NEVER_MADE, polls=6
        ),
        **{
            f"fleet {status}": Case(
                FakeApi(fleet_of_new=status),
                CREATE,
                "FAILED",
                (status, "log group /aws/parallelcluster/local-202611210800"),
            )
            for status in ("UNKNOWN", "PROTECTED")
        },
    }
)
def test_a_creation_fails_and_its_delete_removes_only_what_it_made(case: Case) -> None:
    verdict = case.check()
    case.api.frozen, case.api.outcomes, case.api.faults = False, {}, {}
    before = dict(case.api.clusters)
    Case(case.api, events.delete(physical_id=verdict.physical_id)).check()
    assert case.api.clusters == (before if verdict.physical_id == NEVER_MADE else {})


def test_a_name_that_is_taken_between_look_and_call_fails() -> None:
    class Racing(FakeApi):
        def create(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted:
            self.clusters[name] = foreign(name)
            return super().create(name, configuration, dry_run=dry_run)

    Case(Racing(), CREATE, "FAILED", changing=("create local",), physical_id=NEVER_MADE).check()


def stack_event(stack: str, logical_id: str, reason: str, physical_id: str = "x") -> StackEvent:
    kind = "AWS::CloudFormation::Stack" if physical_id.startswith("arn:nested") else "AWS::EC2::Instance"
    return StackEvent("08:00", stack, logical_id, physical_id, kind, "CREATE_FAILED", reason)


def test_a_failed_creation_is_reported_with_the_events_of_nested_stacks_and_then_deleted() -> None:
    api = FakeApi(outcomes={"CREATE_IN_PROGRESS": "ROLLBACK_IN_PROGRESS"})
    api.events = (
        stack_event("arn:top", "HeadNode", "Resource creation cancelled"),
        stack_event("arn:top", "Queues", "Embedded stack failed", "arn:nested/queues"),
    )
    nested = (
        stack_event("arn:nested/queues", "Queue", "Resource creation cancelled"),
        stack_event("arn:nested/queues", "LaunchTemplate", "InvalidParameter: it is wrong"),
    )
    aws = FakeAws(nested={"arn:nested/queues": nested})
    said = ("CREATE_FAILED (ROLLBACK_COMPLETE)", SCRIPT, "/aws/parallelcluster/local-202611210800")
    verdict = Case(api, CREATE, "FAILED", said, physical_id=own_id("local"), aws=aws).check()
    lines = verdict.reason.splitlines()
    outer = lines.index("08:00 Queues (AWS::CloudFormation::Stack) CREATE_FAILED: Embedded stack failed")
    assert lines[outer + 1] == "08:00 LaunchTemplate (AWS::EC2::Instance) CREATE_FAILED: InvalidParameter: it is wrong"
    assert "cancelled" not in verdict.reason
    Case(api, events.delete(physical_id=verdict.physical_id)).check()
    assert api.clusters == {}


def test_validation_errors_reach_the_user_before_warnings() -> None:
    messages = (
        Message("WARNING", "PlacementGroupCapacityReservationValidator", "may not start"),
        Message("ERROR", "InstanceTypeValidator", "The instance type 'p5.huge' is not supported."),
        Message("ERROR", "EfaValidator", "EFA needs a placement group decision."),
    )
    api = FakeApi(faults={"create": [ApiError(400, "Invalid cluster configuration.", messages)]})
    lines = Case(api, CREATE, "FAILED", physical_id=NEVER_MADE).check().reason.splitlines()
    assert lines[1:4] == ["Invalid cluster configuration.", *map(str, messages[1:])]


def test_attributes_of_a_cluster_without_head_node_have_a_value() -> None:
    verdict = Case(FakeApi(owned(head=False)), CREATE).check()
    assert verdict.data["HeadNodeInstanceId"] == verdict.data["HeadNodePrivateIp"] == "none"
