"""Deletion: only a cluster of this resource, followed until it is gone."""

from cluster_resource.api import ApiAccessError, ApiError, ApiUnknownError, StackEvent
from tests.cluster_resource import events
from tests.cluster_resource.cases import Case, table
from tests.cluster_resource.events import FakeAws, own_id, properties
from tests.cluster_resource.fake_api import FakeApi, foreign, owned
from tests.cluster_resource.stack_model import INVENTED

DELETE = events.delete()
LOST = ApiUnknownError("DELETE: HTTP 504")
DELETABLE = ("CREATE_COMPLETE", "CREATE_IN_PROGRESS", "ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED", "DELETE_FAILED")
BUSY = ("UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS", "ROLLBACK_IN_PROGRESS")


@table(
    {
        **{
            status: Case(FakeApi(owned(status)), DELETE, changing=("delete local",), physical_id=own_id("local"))
            for status in (*DELETABLE, *BUSY)
        },
        "in progress": Case(FakeApi(owned("DELETE_IN_PROGRESS")), DELETE, changing=()),
        "gone": Case(FakeApi(), DELETE, changing=()),
        "id of CloudFormation": Case(
            FakeApi(owned()), events.delete(physical_id=INVENTED), changing=("delete local",), physical_id=INVENTED
        ),
        "no clear answer": Case(
            FakeApi(owned(), faults={"delete": [LOST, (LOST, True)]}), DELETE, changing=("delete local",) * 2
        ),
        "refused credentials": Case(FakeApi(owned(), faults={"delete": [ApiAccessError("refused")] * 2}), DELETE),
    }
)
def test_a_cluster_of_ours_is_deleted(case: Case) -> None:
    verdict = case.check()
    assert case.api.clusters == {} and verdict.data == {}


def test_a_delete_waits_for_an_operation_that_it_may_not_interrupt() -> None:
    for status in BUSY:
        api = FakeApi(owned(status))
        Case(api, DELETE, aws=FakeAws(stack="DELETE_IN_PROGRESS")).check()
        assert [call for call, _ in api.requests[:3]] == ["describe", "describe", "delete"]


@table(
    {
        "gone between look and call": Case(
            FakeApi(owned(), faults={"delete": [(ApiError(404, "Cluster 'local' does not exist."), True)]}), DELETE
        ),
        "not ours": Case(FakeApi(foreign("local")), DELETE, changing=()),
        "not ours, id of CloudFormation": Case(
            FakeApi(foreign("local")), events.delete(physical_id=INVENTED), changing=()
        ),
        "fails": Case(
            FakeApi(
                owned(),
                outcomes={"DELETE_IN_PROGRESS": "DELETE_FAILED"},
                events=(
                    StackEvent("09:00", "arn:stack", "Group", "sg-1", "AWS::EC2::X", "DELETE_FAILED", "is in use"),
                ),
            ),
            DELETE,
            "FAILED",
            ("Group (AWS::EC2::X) DELETE_FAILED: is in use",),
            ("delete local",),
            own_id("local"),
        ),
        "time limit": Case(
            FakeApi(owned(), frozen=True),
            events.delete(properties(TimeoutMinutes="5")),
            "FAILED",
            ("Last seen: DELETE_IN_PROGRESS",),
        ),
    }
)
def test_a_delete(case: Case) -> None:
    case.check()


def test_what_was_never_created_needs_no_api_and_no_sound_properties() -> None:
    api = FakeApi(owned())
    never = "not-created/local"
    Case(api, events.delete({"ClusterName": "local"}, physical_id=never), physical_id=never).check()
    assert api.requests == []
