"""`trainyard logs` on an account of plain records, whose calls botocore's models validate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.validate import ParamValidator

from cli import main
from local.slurm import logs as lab_logs
from local.slurm import make, namespaces
from local.slurm.plan import HEAD_NAME
from ops import logs
from ops.logs import CloudWatch, Line, Wanted
from ops.preflight.aws import Aws, Denied, action_of
from ops.problem import Problem
from settings import environment_file, load
from tests.cluster_config.builder import environment
from tests.ops.preflight.account import refusal

MODELS = botocore.session.get_session()
NOW = 1_795_000_000_000
HOUR = 3_600_000
HEAD, NODE, OLD = "i-0aaaaaaaaaaaaaaaa", "i-0bbbbbbbbbbbbbbbb", "i-0cccccccccccccccc"
GROUP = "/aws/parallelcluster/small-202611231800"
HANDLER = "small-api-ClusterProviderWorkLog-1"


@dataclass
class Account(Aws):
    """Log groups as {group: {stream: [(time, text)]}}, and what names the nodes."""

    groups: dict[str, dict[str, list[tuple[int, str]]]] = field(default_factory=dict)
    table: dict[str, str] | None = field(default_factory=lambda: {"gpu-dy-p5-1": NODE})
    denied: str = ""
    calls: list[str] = field(default_factory=list)

    def items(self, service: str, operation: str, key: str, **arguments: Any) -> Iterator[Any]:  # noqa: ANN401
        model: Any = MODELS.get_service_model(service)
        call = next(model.operation_model(name) for name in model.operation_names if xform_name(name) == operation)
        report = ParamValidator().validate(arguments, call.input_shape)
        assert not report.has_errors(), report.generate_report()
        assert key in call.output_shape.members
        assert action_of(service, operation) in logs.ACTIONS
        self.calls.append(operation)
        if self.denied == operation:
            raise Denied(action_of(service, operation))
        yield from getattr(self, f"_{operation}")(**arguments)

    def _describe_instances(self, Filters: Any) -> list[Any]:  # noqa: N803, ANN401
        assert {"Name": "tag:parallelcluster:cluster-name", "Values": ["small"]} in Filters
        return [{"Instances": [{"InstanceId": HEAD}]}]

    def _scan(self, TableName: str) -> list[Any]:  # noqa: N803
        assert TableName == "parallelcluster-slurm-small"
        if self.table is None:
            raise refusal("ResourceNotFoundException", "no table", "Scan")
        nodes = [{"Id": {"S": name}, "InstanceId": {"S": instance}} for name, instance in self.table.items()]
        return [*nodes, {"Id": {"S": "CLUSTER_CONFIG.i-0"}, "Data": {"M": {}}}]

    def _list_stack_resources(self, StackName: str) -> list[Any]:  # noqa: N803
        if HANDLER not in self.groups:
            raise refusal("ValidationError", f"Stack with id {StackName} does not exist", "ListStackResources")
        ids = ("AWS::Logs::LogGroup", "ClusterProviderWorkLog1", HANDLER), ("AWS::IAM::Role", "ClusterProvider2", "x")
        return [dict(zip(("ResourceType", "LogicalResourceId", "PhysicalResourceId"), one, strict=True)) for one in ids]

    def _describe_log_groups(self, logGroupNamePrefix: str) -> list[Any]:  # noqa: N803
        found = [name for name in self.groups if name.startswith(logGroupNamePrefix)]
        return [{"logGroupName": name, "creationTime": int(name[-12:])} for name in found]

    def _describe_log_streams(
        self,
        logGroupName: str,  # noqa: N803
        logStreamNamePrefix: str = "",  # noqa: N803
        orderBy: str = "LogStreamName",  # noqa: N803
        descending: bool = False,
    ) -> list[Any]:
        # The API refuses both (API reference, DescribeLogStreams).
        assert not (logStreamNamePrefix and orderBy == "LastEventTime")
        found = [
            {"logStreamName": name, "creationTime": 1, "lastEventTimestamp": events[-1][0]}
            for name, events in self.groups[logGroupName].items()
            if name.startswith(logStreamNamePrefix)
        ]
        order = "lastEventTimestamp" if orderBy == "LastEventTime" else "logStreamName"
        return sorted(found, key=lambda item: item[order], reverse=descending)

    def _filter_log_events(
        self,
        logGroupName: str,  # noqa: N803
        logStreamNames: list[str],  # noqa: N803
        startTime: int,  # noqa: N803
        filterPattern: str = "",  # noqa: N803
    ) -> list[Any]:
        assert 1 <= len(logStreamNames) <= 100
        return [
            {"logStreamName": name, "timestamp": at, "message": text, "eventId": f"{name}{number}"}
            for name in logStreamNames
            for number, (at, text) in enumerate(self.groups[logGroupName][name])
            if at >= startTime and filterPattern.strip('"') in text
        ]


def account(**other: Any) -> Account:  # noqa: ANN401
    """A cluster of a head node and a compute node, with an instance that the compute node had before."""
    streams = {
        f"ip-10-0-0-1.{HEAD}.clustermgtd": [(NOW, "launching"), (NOW + 2, "\x1b[31mlaunched")],
        f"ip-10-0-0-1.{HEAD}.slurmctld": [(NOW, "Allocate JobId=12 NodeList=x"), (NOW + 1, "done JobId=123")],
        f"ip-10-0-0-2.{NODE}.slurmd": [(NOW + 1, "slurmd started")],
        f"ip-10-0-0-2.{NODE}.trainyard-bootstrap": [(NOW + 1, "step mounts")],
        f"ip-10-0-0-3.{OLD}.cloud-init": [(NOW - 1, "of the instance before")],
        f"ip-10-0-0-4.{OLD}.clustermgtd": [(NOW - 100 * HOUR, "long ago")],
        "job__var_log_trainyard_jobs_fsx+logs+train-12.out": [(NOW + 3, "step 1")],
        "job__var_log_trainyard_jobs_fsx+logs+train-112.out": [(NOW + 3, "of another job")],
    }
    older = {f"ip-10-0-0-9.{HEAD}.clustermgtd": [(NOW, "of a deleted cluster of this name")]}
    other_name = {f"ip-10-0-0-8.{HEAD}.clustermgtd": [(NOW, "of the cluster small-too")]}
    groups = {
        "/aws/parallelcluster/small-202501010000": older,
        GROUP: streams,
        "/aws/parallelcluster/small-too-202701010000": other_name,
        HANDLER: {"2026/11/23/[1]x": [(NOW + 1, "CreateCluster")]},
    }
    return Account(**{"groups": groups, **other})


def read(wanted: Wanted, most: int = 50, **other: Any) -> list[str]:  # noqa: ANN401
    """Label and text of the lines."""
    lines = logs.read([CloudWatch(account(**other), environment())], wanted, most)
    return [str(line).partition(" ")[2] for line in lines]


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (Wanted(), ["head clustermgtd: launching", "handler: CreateCluster", "head clustermgtd: [31mlaunched"]),
        (Wanted("bootstrap"), ["ip-10-0-0-3 cloud-init: of the instance before", "gpu-dy-p5-1 bootstrap: step mounts"]),
        (Wanted("slurm", node="gpu-dy-p5-1"), ["gpu-dy-p5-1 slurmd: slurmd started"]),
        (Wanted(node="gpu-dy-p5-1"), ["gpu-dy-p5-1 slurmd: slurmd started", "gpu-dy-p5-1 bootstrap: step mounts"]),
        (Wanted(node=OLD), ["ip-10-0-0-3 cloud-init: of the instance before"]),
        (
            Wanted("slurm", node="head"),
            ["head slurmctld: Allocate JobId=12 NodeList=x", "head slurmctld: done JobId=123"],
        ),
        (Wanted(job="12"), ["head slurmctld: Allocate JobId=12 NodeList=x", "job: step 1"]),
    ],
    ids=["cluster", "bootstrap", "slurm of a node", "node", "replaced instance", "head", "job"],
)
def test_each_choice_shows_its_logs_in_the_order_of_time(wanted: Wanted, shown: list[str]) -> None:
    since = NOW - HOUR
    assert read(Wanted(wanted.topic, wanted.node, wanted.job, since)) == shown


def test_only_the_last_lines() -> None:
    assert read(Wanted(since_ms=NOW - HOUR), most=1) == ["head clustermgtd: [31mlaunched"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Wanted(job="99"), "No output of job 99, and no line of slurmctld"),
        (
            Wanted(node="gpu-dy-p5-7"),
            "No log of the node 'gpu-dy-p5-7' in this time. Nodes with logs: gpu-dy-p5-1, head",
        ),
    ],
)
def test_unknown_job_and_node(wanted: Wanted, words: str) -> None:
    with pytest.raises(Problem, match=words):
        read(Wanted(wanted.topic, wanted.node, wanted.job, NOW - HOUR))


def test_no_log_group_yet() -> None:
    with pytest.raises(Problem, match="small has no logs in 123456789012, us-east-1"):
        read(Wanted(), groups={})
    only_handler = {HANDLER: {"x": [(NOW, "CreateCluster failed")]}}
    assert read(Wanted(), groups=only_handler, table=None) == ["handler: CreateCluster failed"]


def test_a_missing_permission_is_named() -> None:
    with pytest.raises(Denied, match="logs:FilterLogEvents is not allowed"):
        read(Wanted(), denied="filter_log_events")


def test_many_streams_are_asked_in_parts() -> None:
    many = {f"ip-10-0-0-1.{HEAD}{n:03x}.slurmd": [(NOW, str(n))] for n in range(250)}
    found = account(groups={GROUP: many})
    assert len(logs.read([CloudWatch(found, environment())], Wanted("slurm"), 1000)) == 250
    assert found.calls.count("filter_log_events") == 3


def test_following_shows_each_new_line_once_also_late_ones_and_new_streams() -> None:
    found = account()
    source = CloudWatch(found, environment())
    wanted = Wanted("slurm", since_ms=NOW - HOUR)
    shown = logs.read([source], wanted, 50)
    slurmd, controller = (next(s for s in found.groups[GROUP] if s.endswith(log)) for log in ("slurmd", "slurmctld"))
    clock = [NOW / 1000]
    added = {
        1: (slurmd, (NOW + 50, "second")),
        2: (controller, (NOW + 49, "late")),
        6: (f"ip-10-0-0-5.{OLD}.slurmd", (NOW + 120_000, "of a new node")),
    }

    def sleep(_: float) -> None:
        clock.append(clock[-1] + 20)
        if made := added.get(len(clock) - 1):
            found.groups[GROUP].setdefault(made[0], []).append(made[1])

    lines = logs.follow([source], wanted, shown, sleep=sleep, now=lambda: clock[-1])
    assert [line.text for line in itertools.islice(lines, 3)] == ["second", "late", "of a new node"]


def test_following_prints_no_line_that_lines_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Busy:
        answers = iter([3, 4])

        def streams(self, since: int, *, job: bool) -> Iterator[logs.Stream]:  # noqa: ARG002
            yield logs.Stream("group", "stream", "clustermgtd", NOW)

        def lines(self, streams: object, since: int, words: str = "") -> Iterator[Line]:  # noqa: ARG002
            if (count := next(self.answers, 0)) == 0:
                raise KeyboardInterrupt
            yield from (Line(NOW + number, "head", f"line {number}", str(number)) for number in range(count))

    monkeypatch.setattr("cli.logs.aws_session", lambda *_: nullcontext())
    monkeypatch.setattr("cli.logs._sources", lambda *_: [Busy()])
    monkeypatch.setattr(logs, "POLL_S", 0.0)
    assert main(["logs", "local", "--lines", "1", "--follow"]) == 130
    assert [line[-6:] for line in capsys.readouterr().out.splitlines()] == ["line 2", "line 3"]


def test_lines_do_nothing_to_a_terminal() -> None:
    assert str(Line(0, "a", "x\x1b[2J\x07y\x9b\tz\r\n", "1")) == "1970-01-01T00:00:00Z a: x[2Jy\tz"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["slurm", "--job", "1"], "--job is for the output of a job alone"),
        (["--job", "1", "slurm"], "--job is for the output of a job alone"),
        (["--since", "2 hours"], "a number with m, h or d"),
        (["nonsense"], "invalid choice"),
        (["--job", "x"], "allowed: 1 to"),
    ],
)
def test_wrong_use(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["logs", "local", *arguments])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 4
    assert words in capsys.readouterr().err


def test_nothing_is_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "local", "--state", str(tmp_path)]) == 4
    assert "Nothing is up for 'local'" in capsys.readouterr().err


def test_the_permissions_are_those_of_the_calls() -> None:
    found = account()
    logs.read([CloudWatch(found, environment())], Wanted(job="12", since_ms=NOW - HOUR), 1)
    services = {"scan": "dynamodb", "describe_instances": "ec2", "list_stack_resources": "cloudformation"}
    called = {action_of(services.get(call, "logs"), call) for call in found.calls}
    assert called | {"sts:GetCallerIdentity"} == set(logs.ACTIONS)


def test_files_of_a_laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines without a time have that of the line before them."""
    made = make(load(environment_file("local")))
    monkeypatch.setattr(namespaces, "nodes", lambda _: {"aws": 1, HEAD_NAME: 2, "gpu-dy-p5-1": 3})

    class Nodes:
        state, plan = tmp_path, made

        def path(self, path: str, *, node: str = HEAD_NAME) -> Path:
            return tmp_path / node / path.lstrip("/")

    texts = {
        f"{HEAD_NAME}/var/log/slurmctld.log": "[2026-11-23T10:00:01.500] sched: Allocate JobId=5\n more of it\n",
        "gpu-dy-p5-1/var/log/trainyard/bootstrap.log": "2026-11-23T10:00:00Z trainyard: step mounts\n",
        f"{HEAD_NAME}/fsx/logs/hello-5.out": "8 GPUs\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    source = lab_logs.Files(Nodes())  # type: ignore[arg-type]

    def read(wanted: Wanted) -> list[str]:
        return [f"{line.label}: {line.text}" for line in logs.read([source], wanted, 9)]

    allocated = "head slurmctld: [2026-11-23T10:00:01.500] sched: Allocate JobId=5"
    assert read(Wanted("slurm")) == [allocated, "head slurmctld:  more of it"]
    assert read(Wanted("bootstrap")) == ["gpu-dy-p5-1 bootstrap: 2026-11-23T10:00:00Z trainyard: step mounts"]
    assert sorted(read(Wanted(job="5"))) == [allocated, "job: 8 GPUs"]
    with pytest.raises(Problem, match="No output of job 6"):
        read(Wanted(job="6"))
