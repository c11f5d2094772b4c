"""Names, tags, Slurm's settings, limits of operations."""

from __future__ import annotations

from tests.settings.examples.common import NO_MODELS, Bad, C, Good, P, Q

ACCOUNTING = {
    "uri": "db.example.com:3306",
    "user": "slurm",
    "password_secret_arn": "arn:aws:secretsmanager:us-east-1:111122223333:secret:db-AbCdEf",
}
AMI = "ami-0123456789abcdef0"

GOOD: list[Good] = [
    {},
    {f"{C}.name": "a" * 60},
    {f"{C}.name": "a" * 40, f"{C}.slurm.accounting": ACCOUNTING},
    {f"{C}.slurm.settings": {"MaxJobCount": 20000, "PriorityType": "priority/multifactor"}},
    {f"{C}.os": "rocky9", f"{C}.head_node.ami": AMI, f"{Q}.ami": AMI, f"{C}.queues.1.ami": AMI},
    {f"{C}.permissions_boundary": "arn:aws:iam::aws:policy/job-function/ReadOnly"},
    {f"{C}.head_node.key_name": "team key (1)"},
    {"tags": {"cost centre": "a/b:c+d=e@f_g.h-i"}},
    {"tags": {f"t{i}": "v" for i in range(40)}},
]

BAD: list[Bad] = [
    ({f"{C}.name": "a" * 41, f"{C}.slurm.accounting": ACCOUNTING}, "cluster.name", "at most 40"),
    ({f"{C}.name": "a" * 61}, "cluster.name", "at most 60"),
    ({f"{C}.name": "base-api"}, "cluster.name", "own stacks"),
    ({f"{C}.name": "base-promotion"}, "cluster.name", "own stacks"),
    ({f"{C}.head_node.key_name": "$(id)"}, "cluster.head_node.key_name", "key pair"),
    ({f"{C}.permissions_boundary": "arn:aws:iam::1:policy/x"}, "cluster.permissions_boundary", "one policy"),
    ({f"{C}.permissions_boundary": "arn:aws:iam::111122223333:policy/*"}, "cluster.permissions_boundary", "one policy"),
    ({f"{Q}.name": "a" * 26, **NO_MODELS}, "cluster.queues[0].name", "at most 25"),
    ({f"{P}.name": "a" * 26}, "cluster.queues[0].compute[0].name", "at most 25"),
    ({f"{P}.name": "P5"}, "cluster.queues[0].compute[0].name", "lower-case"),
    ({f"{Q}.name": "default", **NO_MODELS}, "cluster.queues[0].name", "forbids"),
    ({f"{P}.name": "default"}, "cluster.queues[0].compute[0].name", "forbids"),
    ({f"{C}.login_nodes.name": "default"}, "cluster.login_nodes.name", "forbids"),
    ({f"{C}.queues.1.name": "gpu", **NO_MODELS}, "cluster.queues[1].name", "cluster.queues[0]"),
    (
        {f"{Q}.compute.1": {"name": "p5", "instance_types": ["p5.48xlarge"], "max": 1}, **NO_MODELS},
        "cluster.queues[0].compute[1].name",
        "no other",
    ),
    ({"tags": {f"t{i}": "v" for i in range(41)}}, "tags", "at most 40"),
    ({"tags": {"aws:x": "v"}}, "tags.aws:x", "aws:"),
    ({"tags": {"AWS:x": "v"}}, "tags.AWS:x", "aws:"),
    ({"tags": {"trainyard:owner": "v"}}, "tags.trainyard:owner", "trainyard:"),
    ({"tags": {"k" * 129: "v"}}, f"tags.{'k' * 129}", "128"),
    ({"tags": {"a;b": "v"}}, "tags.a;b", "letters"),
    ({"tags": {"k": "v" * 257}}, "tags.k", "256"),
    ({f"{C}.slurm.settings.SuspendTime": 60}, "cluster.slurm.settings.SuspendTime", "scaledown_minutes"),
    ({f"{C}.slurm.settings.suspendtime": 60}, "cluster.slurm.settings.suspendtime", "scaledown_minutes"),
    ({f"{C}.slurm.settings.PROLOG": "/x"}, "cluster.slurm.settings.PROLOG", "itself"),
    (
        {f"{C}.slurm.accounting": ACCOUNTING, f"{C}.slurm.settings.JobAcctGatherType": "x"},
        "cluster.slurm.settings.JobAcctGatherType",
        "itself",
    ),
    ({f"{C}.slurm.settings": {"A b": "x"}}, "cluster.slurm.settings.A b", "letters and digits"),
    ({f"{C}.slurm.settings": {"MaxJobCount": "x\nProlog=/x"}}, "cluster.slurm.settings.MaxJobCount", "one line"),
    ({f"{C}.slurm.settings": {"MaxJobCount": 1, "maxjobcount": 2}}, "cluster.slurm.settings.maxjobcount", "once"),
    ({f"{C}.slurm.settings.Comment": "{{resolve:ssm:x}}"}, "cluster.slurm.settings.Comment", "dynamic reference"),
    ({f"{C}.slurm.accounting": ACCOUNTING | {"user": "a b"}}, "cluster.slurm.accounting.user", "database user"),
    ({f"{C}.slurm.accounting": ACCOUNTING | {"database": "A-b"}}, "cluster.slurm.accounting.database", "lower-case"),
    ({f"{C}.slurm.accounting": ACCOUNTING | {"uri": "mysql://h"}}, "cluster.slurm.accounting.uri", "host:port"),
    ({f"{C}.slurm.accounting": ACCOUNTING | {"uri": "h:70000"}}, "cluster.slurm.accounting.uri", "host:port"),
    (
        {
            f"{C}.slurm.accounting": ACCOUNTING
            | {"password_secret_arn": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:x"}
        },
        "cluster.slurm.accounting.password_secret_arn",
        "us-east-1",
    ),
    ({f"{C}.timeout_minutes": 721}, "cluster.timeout_minutes", "720 or less"),
    ({f"{C}.name": "green", f"{C}.predecessor": "green"}, "cluster.predecessor", "another name than"),
    ({f"{C}.answer_minutes": 56}, "cluster.answer_minutes", "55 or less"),
    ({f"{C}.updates.stop_fleet": "always"}, "cluster.updates.stop_fleet", "when-needed"),
    ({f"{C}.updates.running_jobs": "kill"}, "cluster.updates.running_jobs", "may-be-killed"),
]
