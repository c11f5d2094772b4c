"""The calls to AWS: a failed one returns None or nothing, and nothing is raised."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from cluster_resource.aws import UNKNOWN, Aws, Execution

HEAD = "i-0123456789abcdef0"


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Call")


class Service:
    """Clients of all services in one; an answer that is an exception is raised."""

    def __init__(self, **answers: Any) -> None:  # noqa: ANN401
        self.answers = {name: list(given) if isinstance(given, list) else [given] for name, given in answers.items()}
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        def call(*_: str, **request: Any) -> Any:  # noqa: ANN401
            self.calls.append((name, request))
            answers = self.answers[name]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def aws(service: Service, **others: Any) -> Aws:  # noqa: ANN401
    return Aws(lambda _: service, sleep=lambda _: None, **others)


def test_the_status_of_a_stack() -> None:
    service = Service(describe_stacks={"Stacks": [{"StackStatus": "UPDATE_ROLLBACK_IN_PROGRESS"}]})
    assert aws(service).stack_status("arn:stack") == "UPDATE_ROLLBACK_IN_PROGRESS"
    assert service.calls == [("describe_stacks", {"StackName": "arn:stack"})]


@pytest.mark.parametrize(
    "error", [refused("AccessDenied"), refused("Throttling"), EndpointConnectionError(endpoint_url="x")]
)
def test_a_failed_call_returns_nothing(error: Exception) -> None:
    service = Service(describe_stacks=error, get_paginator=error, send_command=error, describe_execution=error)
    client = aws(service, jobs_document="Count")
    assert client.stack_status("arn:stack") is None
    assert client.stack_events("arn:stack") == ()
    assert client.running_jobs(HEAD) is None
    assert client.execution("arn:execution") == Execution(UNKNOWN)


def test_jobs_are_counted_by_the_document_when_the_head_node_has_answered() -> None:
    service = Service(
        send_command={"Command": {"CommandId": "c"}},
        get_command_invocation=[
            refused("InvocationDoesNotExist"),
            {"Status": "InProgress"},
            {"Status": "Success", "StandardOutputContent": "3\n"},
        ],
    )
    assert aws(service, jobs_document="Count").running_jobs(HEAD) == 3
    assert service.calls[0][1]["DocumentName"] == "Count" and service.calls[0][1]["InstanceIds"] == [HEAD]


@pytest.mark.parametrize(
    "answer",
    [
        {"Status": "Failed", "StandardOutputContent": ""},
        {"Status": "Success", "StandardOutputContent": "slurm_load_jobs error"},
        {"Status": "Pending"},
    ],
)
def test_a_head_node_that_does_not_answer_has_no_number_of_jobs(answer: dict[str, str]) -> None:
    service = Service(send_command={"Command": {"CommandId": "c"}}, get_command_invocation=answer)
    assert aws(service, jobs_document="Count").running_jobs(HEAD) is None


def test_without_a_document_nothing_is_called() -> None:
    assert aws(Service()).running_jobs(HEAD) is None


def test_an_execution_and_why_it_failed() -> None:
    service = Service(describe_execution={"status": "FAILED", "cause": "why"})
    assert aws(service).execution("arn:execution") == Execution("FAILED", "why")
    assert aws(Service(describe_execution=refused("ExecutionDoesNotExist"))).execution("arn:execution") is None


@pytest.mark.parametrize(("fails", "read"), [(False, ["Queue", "Queue", ""]), (True, ["Queue"])])
def test_the_events_of_the_latest_operation_are_read_page_by_page(fails: bool, read: list[str]) -> None:
    common = {"Timestamp": datetime(2026, 11, 21, 8, tzinfo=UTC), "StackId": "arn:nested"}
    failed = {**common, "LogicalResourceId": "Queue", "ResourceStatus": "CREATE_FAILED", "ResourceStatusReason": "why"}
    start = {**common, "PhysicalResourceId": "arn:nested", "ResourceStatus": "CREATE_IN_PROGRESS"}

    class Paginator:
        def paginate(self, **_: str) -> Iterator[dict[str, Any]]:
            yield {"StackEvents": [failed]}
            if fails:
                raise refused("Throttling")
            yield {"StackEvents": [failed, start, failed]}

    events = aws(Service(get_paginator=Paginator())).stack_events("arn:nested")
    assert [event.logical_id for event in events] == read
    assert (events[0].timestamp, events[0].reason) == ("2026-11-21T08:00:00.000Z", "why")
