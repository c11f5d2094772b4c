"""Examples for the rules: edits of the good environment (conftest.py) with and without faults, by subject."""

from __future__ import annotations

from typing import Any

L, Z, C, N, M = "storage.lustre.0", "storage.openzfs", "cluster", "network", "models"
Q = f"{C}.queues.0"
P = f"{Q}.compute.0"
Q0, Q1 = "cluster.queues[0]", "cluster.queues[1]"
NO_MODELS: dict[str, Any] = {M: []}
EXISTING = {
    "vpc_id": "vpc-0123456789abcdef0",
    "vpc_cidr": "10.0.0.0/16",
    "private_subnet_id": "subnet-0123456789abcdef0",
}
CHECKPOINTS = {"path": "/a/o", "bucket": "checkpoints", "prefix": "checkpoints/a/"}
DRA = {"path": "/x", "bucket": "data", "prefix": "x/"}
NINE = [{"path": f"/a{i}", "bucket": "data", "prefix": f"a{i}/"} for i in range(9)]
TWENTY = [{"name": f"fs{i}", "mount": f"/m{i}", "capacity_gib": 1200} for i in range(20)]
EXPORT = {"prefix": "data/x/", "export_events": ["new"]}
IMMUTABLE = [{"name": "ab", "immutable": True}]
L0 = "storage.lustre[0]"
RESERVATION = "cr-0123456789abcdef0"
GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group/g"
ODCR, BLOCK = ({"type": kind, "reservation": RESERVATION} for kind in ("odcr", "capacity-block"))
CLIENTS = {f"{N}.clients": ["203.0.113.7/32"]}
PUBLIC = {f"{C}.head_node.subnet": "public", **CLIENTS}
CPU = f"{C}.queues.1.compute.0"
MANY = {"name": "many", "compute": [{"name": f"c{i}", "instance_types": ["c7i.large"], "max": 1} for i in range(49)]}
ACCOUNTING = {
    "uri": "db.example.com:3306",
    "user": "slurm",
    "password_secret_arn": "arn:aws:secretsmanager:us-east-1:111122223333:secret:db-AbCdEf",
}
ELSEWHERE = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:x"
TWIN = {"name": "p5", "instance_types": ["p5.48xlarge"], "max": 1}
A = f"{C}.slurm.accounting"
AMI = "ami-0123456789abcdef0"
BOUNDARY = "arn:aws:iam::111122223333:policy/boundary"
X, XQ = "parallelcluster", "parallelcluster.Scheduling.SlurmQueues"
OURS = "arn:aws:iam::111122223333:policy/parallelcluster"
READ = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
OLD = {"name": "old", "mount": "/old", "id": "fs-0123456789abcdef0"}
VOLUME = {"name": "volume", "mount": "/volume", "id": "fsvol-0123456789abcdef0"}
HOOK = {
    "role": "compute-configured",
    "when": "after",
    "script": "hooks/good.sh",
    "sha256": "4ea663e3e4f98b83d563d892bcf7841be9e52f7734beabfe63ec00f69f054694",
}
HOOKS, H0 = f"{C}.hooks", f"{C}.hooks[0]"
SMT = {"DisableSimultaneousMultithreading": True}
EFS = {"Name": "efs", "MountDir": "/efs", "StorageType": "Efs", "EfsSettings": {"FileSystemId": "fs-0123456789abcdef0"}}
OB = "observability"
WEBHOOK = "https://hooks.example.com/services/T0/B0/token"

PERSISTENT_1 = {"deployment": "PERSISTENT_1", "throughput": 200}
P1 = {f"{L}.{key}": value for key, value in PERSISTENT_1.items()}
HA_1 = {f"{Z}.deployment": "SINGLE_AZ_HA_1", f"{Z}.throughput": 128}
TEAM, R, S = {"name": "nlp", "share": 2}, "reservations", f"{C}.slurm.settings"
WEEK = {"name": "week", "queue": "gpu", "nodes": 3, "teams": ["nlp"], "start": "2026-12-01T08:00", "hours": 168}
SHARED: dict[str, Any] = {A: ACCOUNTING, "teams": [TEAM, {"name": "vision"}]}
INTERACTIVE: dict[str, Any] = {A: ACCOUNTING, **NO_MODELS, "qos": [{"name": "interactive", "idle_gpu_minutes": 30}]}
RECEIVED = {"mode": "cloudwatch", "notify": {"emails": ["a@example.com"]}}
PAID = {A: ACCOUNTING, "teams": [{"name": "vision", "monthly_usd": 50_000}]}
CIRCLE = [{"name": "ab", "preempts": ["cd"]}, {"name": "cd", "preempts": ["ef"]}, {"name": "ef", "preempts": ["ab"]}]
JAKARTA = {"region": "ap-southeast-3", f"{N}.zone": "apse3-az1", **HA_1}
CALGARY = {"region": "ca-west-1", f"{N}.zone": "caw1-az1", **HA_1}

PE, PD = "people", "people.directory"
LDAP = {
    "domain": "corp.example.com",
    "address": "ldaps://ldap.corp.example.com",
    "read_user": "cn=reader,dc=corp,dc=example,dc=com",
    "password_secret_arn": "arn:aws:secretsmanager:us-east-1:111122223333:secret:ldap-AbCdEf",
}
CLEAR = {"address": "ldap://ldap", "sssd": {"ldap_auth_disable_tls_never_use_in_production": True}}

GOOD: list[dict[str, Any]] = [
    {A: True},
    {A: False},
    {A: {"zone": "use1-az6", "max_acu": 8, "snapshot": "rds:old-2026-11-01"}},
    {A: {"subnet_id": "subnet-0aaaaaaaaaaaaaaaa"}, f"{N}.existing": EXISTING},
    # File systems, associations, buckets and repositories
    {f"{L}.capacity_gib": 2400},
    {f"{L}.capacity_gib": 7200, f"{L}.throughput": 1000},
    {f"{L}.capacity_gib": 38400, f"{L}.throughput": 125, f"{L}.efa": True, f"{P}.max": 128, **NO_MODELS},
    {f"{L}.capacity_gib": 19200, f"{L}.throughput": 250, f"{L}.efa": True},
    {f"{L}.capacity_gib": 9600, f"{L}.throughput": 500, f"{L}.efa": True},
    {f"{L}.capacity_gib": 4800, f"{L}.throughput": 1000, f"{L}.efa": True},
    {"storage.lustre.1.backups": {"days": 7}},
    {f"{L}.deployment": "PERSISTENT_1", f"{L}.throughput": 200, "storage.lustre.1.backups": {"days": 7}},
    {f"{L}.deployment": "SCRATCH_2", f"{L}.throughput": 200},
    {f"{L}.associations": NINE[:8]},
    {f"{L}.associations.1": {"path": "/data2", "bucket": "data", "prefix": "data2/"}},
    {f"{L}.associations.1": {"path": "/x", "bucket": "checkpoints", "prefix": "data/"}},
    {f"{L}.associations.0.export_events": ["new"], "storage.lustre.1.associations": [DRA | {"prefix": "data/x/"}]},
    {f"{Z}.throughput": 64, f"{Z}.deployment": "SINGLE_AZ_1"},
    {f"{Z}.throughput": 10240, f"{Z}.deployment": "SINGLE_AZ_2"},
    {f"{Z}.volumes.0.quota_gib": 64},
    {f"{Z}.backups": {"days": 7, "window": "18:30"}},
    {f"{Z}.backups": {"days": 0, "window": "18:00"}},
    {f"{L}.mount": "/fsx2", **NO_MODELS},
    {f"{L}.mount": "/mnt/fsx", **NO_MODELS},
    {"images.build": {}},
    {"images.repositories": [{"name": "team/ab"}], "images.build": {"repository": "team/ab", "every_days": 7}},
    {"storage.buckets.name_prefix": "my-team"},
    {"images.prefix": ""},
    {"images.prefix": "ml/team"},
    # Addresses, zones, egress
    {f"{N}.cidr": "192.168.4.0/24"},
    {f"{N}.cidr": "172.18.0.0/16"},
    {f"{N}.clients": ["203.0.113.7/32"]},
    {f"{N}.clients": ["203.0.113.7/32"], f"{C}.head_node.subnet": "public"},
    {f"{N}.existing": EXISTING},
    {f"{N}.egress": "endpoints-only"},
    {**JAKARTA, **{f"storage.lustre.{i}.{key}": value for i in (0, 1) for key, value in PERSISTENT_1.items()}},
    # Capacity and instance types of queues, head and login nodes
    {f"{Q}.scratch": "/local"},
    {f"{Q}.capacity": ODCR},
    {f"{Q}.capacity": {"type": "odcr", "reservation_group": GROUP}},
    {f"{Q}.capacity": BLOCK, f"{P}.min": 4},
    {f"{Q}.capacity.type": "spot"},
    {f"{P}.min": 4},
    {f"{CPU}.instance_types": ["c7i.xlarge", "c6i.xlarge"], f"{C}.slurm.memory_scheduling": True},
    {f"{Q}.root_volume": {"size_gib": 200, "iops": 16000, "throughput": 1000}},
    {f"{Q}.gpu_health_check": True, f"{C}.queues.1.node_health_check": False},
    # Prices and budget
    {"cost": {"prices": {"p5.48xlarge": 31.5}, "budget": {"monthly_usd": 90000, "emails": ["a@example.com"]}}},
    {"cost.budget": {"monthly_usd": 90000, "at_limit": "stop-new-jobs"}, OB: RECEIVED},
    # Names, tags, Slurm's settings, limits of operations
    {},
    {f"{C}.name": "a" * 60},
    {f"{C}.name": "a" * 40, A: ACCOUNTING},
    {f"{C}.slurm.settings": {"MaxJobCount": 20000, "PriorityType": "priority/multifactor"}},
    {f"{C}.slurm.settings": {"JobAcctGatherType": "jobacct_gather/linux"}, A: False},
    {"validation": {"schedule": "nightly", "on_failure": "drain"}},
    {"validation": {"schedule": "Sat,Sun 22:00"}},
    {f"{C}.os": "rocky9", f"{C}.head_node.ami": AMI, f"{Q}.ami": AMI, f"{C}.queues.1.ami": AMI},
    {f"{C}.os": "rhel9", f"{C}.head_node.ami": AMI},
    {f"{C}.permissions_boundary": "arn:aws:iam::aws:policy/PowerUserAccess"},
    {"production": True, f"{C}.permissions_boundary": BOUNDARY},
    {f"{C}.head_node.key_name": "team key (1)"},
    {"tags": {"cost centre": "a/b:c+d=e@f_g.h-i"}},
    {"tags": {f"t{i}": "v" for i in range(38)}},
    # What exists already, policies, security groups, hooks, and keys of ParallelCluster's own
    {
        f"{N}.existing": EXISTING,
        "storage.existing": [OLD, VOLUME],
    },
    {f"{L}.associations.0.bucket": "s3://team-data"},
    {f"{Q}.policies": [OURS, f"{OURS}/x", READ], f"{C}.head_node.security_groups": ["sg-0123456789abcdef0"]},
    {HOOKS: [HOOK, HOOK | {"when": "before"}, HOOK | {"role": "head-configured"}]},
    {HOOKS: [HOOK | {"role": "login-configured"}], f"{C}.login_nodes": {"count": 11}},
    {X: {"HeadNode": SMT, "DirectoryService": {"AdditionalSssdConfigs": {"debug_level": "1"}}}},
    {XQ: [{"Name": "gpu", "ComputeResources": [{"Name": "p5", "SpotPrice": 3, **SMT}]}]},
    {f"{X}.SharedStorage": [EFS]},
    # The models that train on the cluster, and the teams that share it
    NO_MODELS,
    # People
    {PE: {"directory": LDAP}},
    {PE: {"directory": LDAP | CLEAR}},
    {
        PE: {
            "directory": LDAP
            | {"domain": "dc=corp,dc=example", "access_filter": "(x=y)", "ca_certificate": "/etc/ca.pem"}
        }
    },
    {**SHARED, f"{M}.0.team": "nlp", "teams.0.max_gpus": 24, "teams.0.max_gpus_per_user": 24},
    {**SHARED, "teams.0.qos": ["normal", "urgent"], "qos": [{"name": "urgent", "preempts": ["normal"]}]},
    {**SHARED, R: [WEEK, WEEK | {"name": "later", "start": "2026-12-08T08:00"}, WEEK | {"name": "ab", "nodes": 1}]},
    {**SHARED, S: {"AccountingStorageEnforce": "all", "PriorityWeightAge": 1}},
]

BAD: list[tuple[dict[str, Any], str, str]] = [
    # File systems, associations, buckets and repositories
    ({f"{L}.capacity_gib": 1000}, f"{L0}.capacity_gib", "use 1200 or 2400"),
    ({f"{L}.capacity_gib": 3600}, f"{L0}.capacity_gib", "use 2400 or 4800"),
    ({f"{L}.capacity_gib": 4800, f"{L}.efa": True}, f"{L0}.capacity_gib", "19200"),
    ({f"{L}.capacity_gib": 7200, f"{L}.throughput": 1000, f"{L}.efa": True}, f"{L0}.capacity_gib", "4800"),
    ({f"{L}.backups": {"days": 7}}, f"{L0}.backups.days", "linked to S3"),
    ({f"{L}.capacity_gib": 19200, f"{L}.efa": True, f"{C}.os": "rhel8"}, f"{L0}.efa", "ubuntu2204"),
    ({f"{L}.capacity_gib": 19200, f"{L}.efa": True, f"{P}.max": 129, **NO_MODELS}, f"{L0}.efa", "at most 1024"),
    ({f"{L}.efa": True, **P1}, f"{L0}.efa", "only with PERSISTENT_2"),
    ({f"{L}.metadata_iops": 1500, **P1}, f"{L0}.metadata_iops", "only with PERSISTENT_2"),
    ({**P1, f"{L}.throughput": 250}, f"{L0}.throughput", "50, 100 or 200"),
    ({f"{L}.throughput": 50}, f"{L0}.throughput", "125, 250, 500 or 1000"),
    ({f"{L}.deployment": "SCRATCH_2"}, f"{L0}.throughput", "200"),
    ({f"{L}.deployment": "SCRATCH_2", f"{L}.backups": {"days": 1}}, f"{L0}.backups.days", "scratch"),
    (JAKARTA, f"{L0}.deployment", "write deployment: PERSISTENT_1 with throughput: 50, 100 or 200"),
    ({**JAKARTA, f"{Z}.deployment": "SINGLE_AZ_2"}, "storage.openzfs.deployment", "SINGLE_AZ_1 or SINGLE_AZ_HA_1"),
    ({**CALGARY, f"{L}.throughput": 1000}, f"{L0}.throughput", "125 or 250"),
    ({**CALGARY, f"{L}.capacity_gib": 19200, f"{L}.efa": True}, f"{L0}.efa", "false in ca-west-1"),
    ({f"{L}.associations": NINE}, f"{L0}.associations", "at most 8"),
    ({f"{L}.associations.1": DRA | {"path": "/data/x"}}, f"{L0}.associations[1].path", "/data"),
    ({f"{L}.associations.0.path": "/", f"{L}.associations.1": DRA}, f"{L0}.associations[1].path", "with /"),
    ({f"{L}.associations.1": DRA | {"path": "/"}}, f"{L0}.associations[1].path", "overlaps"),
    ({f"{L}.associations.1": DRA | {"prefix": "data/x/"}}, f"{L0}.associations[1].prefix", "data/"),
    ({f"{L}.associations.1": DRA | {"prefix": ""}}, f"{L0}.associations[1].prefix", "begins with"),
    ({f"{L}.associations.0.import_events": []}, f"{L0}.associations[0].export_events", "at least one"),
    ({f"{L}.associations.0.import_events": ["new"] * 2}, f"{L0}.associations[0].import_events", "at most once"),
    (
        {f"{L}.associations.0.export_events": ["new"], "storage.lustre.1.associations": [DRA | EXPORT]},
        "storage.lustre[1].associations[0].prefix",
        "exports too",
    ),
    ({f"{Z}.throughput": 100}, "storage.openzfs.throughput", "use 160"),
    ({f"{Z}.throughput": 160, f"{Z}.deployment": "SINGLE_AZ_1"}, "storage.openzfs.throughput", "128"),
    ({f"{Z}.volumes.0.quota_gib": 65}, "storage.openzfs.volumes[0].quota_gib", "64"),
    ({f"{Z}.backups": {"days": 7, "window": "18:29"}}, "storage.openzfs.backups.window", "30 minutes"),
    ({f"{Z}.volumes.0.mount": "/fsx"}, "storage.openzfs.volumes[0].mount", "overlaps with /fsx"),
    ({"storage.lustre.1.mount": "/fsx/inner"}, "storage.lustre[1].mount", "overlaps with /fsx"),
    ({"storage.lustre.1.mount": "/opt/slurm"}, "storage.lustre[1].mount", "do not use"),
    ({"storage.lustre.1.mount": "/usr/local/data"}, "storage.lustre[1].mount", "do not use"),
    ({"storage.lustre.1.mount": "/opt"}, "storage.lustre[1].mount", "do not use"),
    ({"storage.lustre": TWENTY, **NO_MODELS}, "storage.openzfs.volumes[0].mount", "at most 20"),
    ({f"{L}.name": "default"}, f"{L0}.name", "forbids"),
    ({f"{L}.name": "a" * 31}, f"{L0}.name", "at most 30"),
    ({f"{L}.name": "fsx-1", "storage.lustre.1.name": "fsx1"}, "storage.lustre[1].name", "letters and digits"),
    ({f"{Z}.volumes.0.name": "fast"}, "storage.openzfs.volumes[0].name", L0),
    ({"images.repositories": [{"name": "a/b"}, {"name": "a-b"}]}, "images.repositories[1].name", "clashes with a/b"),
    ({"images.build": {"repository": "other"}}, "images.build.repository", "one of the repositories"),
    (
        {"images.repositories": IMMUTABLE, "images.build": {"repository": "ab"}},
        "images.build.repository",
        "without immutable",
    ),
    ({"storage.buckets.name_prefix": "xn--a"}, "storage.buckets.name_prefix", "xn--"),
    # Addresses, zones, egress
    ({f"{N}.cidr": "10.0.0.1/16"}, "network.cidr", "use 10.0.0.0/16"),
    ({f"{N}.cidr": "10.0.0.300/16"}, "network.cidr", "IPv4"),
    ({f"{N}.cidr": "10.0.0.0/15"}, "network.cidr", "/16 to /24"),
    ({f"{N}.cidr": "10.0.0.0/25"}, "network.cidr", "/16 to /24"),
    ({f"{N}.cidr": "8.8.0.0/16"}, "network.cidr", "10.0.0.0/8"),
    ({f"{N}.cidr": "172.17.0.0/16"}, "network.cidr", "Docker"),
    ({f"{N}.cidr": "10.0.0.0/24", f"{P}.max": 200, **NO_MODELS}, "network.cidr", "use a /23"),
    ({f"{N}.cidr": "10.0.0.0/24", f"{P}.efa": False}, "network.cidr", "at least"),
    ({f"{N}.clients": ["0.0.0.0/0"]}, "network.clients[0]", "203.0.113.7/32"),
    ({f"{N}.clients": ["0.0.0.0/1"]}, "network.clients[0]", "/8 to /32"),
    ({f"{N}.clients": ["203.0.113.7/24"]}, "network.clients[0]", "use 203.0.113.0/24"),
    ({f"{N}.existing": EXISTING, f"{N}.cidr": "10.0.0.0/16"}, "network.cidr", "remove the key"),
    ({f"{N}.existing": EXISTING, f"{N}.egress": "endpoints-only"}, "network.egress", "remove the key"),
    ({f"{N}.existing": EXISTING | {"vpc_cidr": "10.0.0.1/16"}}, "network.existing.vpc_cidr", "host bits"),
    (
        {f"{N}.existing": EXISTING | {"public_subnet_id": "subnet-0123456789abcdef0"}},
        "network.existing.public_subnet_id",
        "other than the private",
    ),
    ({f"{N}.zone": "usw2-az1"}, "network.zone", "use1-az1"),
    ({"region": "us-est-1"}, "region", "us-east-1"),
    # Capacity and instance types of queues, head and login nodes
    ({"storage.lustre.1.mount": "/scratch/x"}, f"{Q0}.scratch", "/scratch/x"),
    ({f"{Q}.scratch": "/etc"}, f"{Q0}.scratch", "do not use"),
    ({f"{N}.existing": EXISTING, **PUBLIC}, "cluster.head_node.subnet", "public_subnet_id"),
    ({f"{N}.egress": "endpoints-only", **PUBLIC}, "cluster.head_node.subnet", "no internet gateway"),
    ({f"{C}.head_node.subnet": "public"}, "cluster.head_node.subnet", "network.clients"),
    ({f"{C}.login_nodes.subnet": "public"}, "cluster.login_nodes.subnet", "network.clients"),
    (
        {f"{C}.login_nodes": {"subnet": "public", "instance_type": "p5.48xlarge"}, **CLIENTS},
        "cluster.login_nodes.instance_type",
        "32 network cards",
    ),
    ({f"{Q}.capacity.type": "odcr"}, f"{Q0}.capacity", "exactly one"),
    ({f"{Q}.capacity": ODCR | {"reservation_group": GROUP}}, f"{Q0}.capacity", "exactly one"),
    ({f"{Q}.capacity": ODCR | {"type": "spot"}}, f"{Q0}.capacity.reservation", "spot"),
    ({f"{Q}.capacity.reservation_group": GROUP}, f"{Q0}.capacity.reservation_group", "on-demand"),
    ({f"{Q}.capacity.type": "capacity-block", f"{P}.min": 4}, f"{Q0}.capacity", "without reservation"),
    ({f"{Q}.capacity": BLOCK}, f"{Q0}.compute[0].min", "min = max"),
    (
        {f"{Q}.capacity": BLOCK | {"reservation_group": GROUP}, f"{P}.min": 4},
        f"{Q0}.capacity.reservation_group",
        "reservation only",
    ),
    ({f"{Q}.capacity": BLOCK, f"{P}.min": 4, f"{Q}.placement_group": True}, f"{Q0}.placement_group", "own placement"),
    (
        {f"{Q}.capacity": ODCR, f"{P}.instance_types": ["p5.48xlarge", "p5en.48xlarge"]},
        f"{Q0}.capacity.reservation",
        "one instance type",
    ),
    ({f"{P}.instance_types": ["p5.48xlage"]}, f"{Q0}.compute[0].instance_types[0]", "did you mean p5.48xlarge"),
    (
        {"region": "ap-southeast-3", f"{N}.zone": "apse3-az1", f"{C}.head_node.instance_type": "c6i.4xlarge"},
        "cluster.head_node.instance_type",
        "c7i.4xlarge",
    ),
    ({f"{C}.head_node.instance_type": "m7g.2xlarge"}, f"{Q0}.compute[0].instance_types[0]", "arm64"),
    ({f"{CPU}.efa": True}, f"{Q1}.compute[0].efa", "c7i.metal-48xl"),
    ({f"{P}.instance_types": ["p5.48xlarge", "p4d.24xlarge"]}, f"{Q0}.compute[0].instance_types[1]", "vCPUs"),
    ({f"{CPU}.instance_types": ["g5.xlarge", "c7i.xlarge"]}, f"{Q1}.compute[0].instance_types[1]", "GPUs"),
    ({f"{P}.instance_types": ["p5.48xlarge"] * 2}, f"{Q0}.compute[0].instance_types", "each type once"),
    (
        {f"{CPU}.instance_types": ["c7i.xlarge", "r7i.xlarge"], f"{C}.slurm.memory_scheduling": True},
        f"{Q1}.compute[0].instance_types[1]",
        "memory_scheduling",
    ),
    ({f"{P}.min": 5}, f"{Q0}.compute[0].min", "at most max, 4"),
    ({f"{C}.queues.2": MANY}, "cluster.queues", "at most 50"),
    ({f"{C}.head_node.instance_type": "t3.small", f"{CPU}.max": 100}, "cluster.head_node.instance_type", "GiB"),
    ({f"{C}.queues.1.gpu_health_check": True}, f"{Q1}.gpu_health_check", "c7i.xlarge"),
    ({f"{C}.os": "rocky9"}, "cluster.head_node.ami", "publishes none"),
    ({f"{C}.os": "rhel9"}, "cluster.head_node.ami", "Systems Manager agent"),
    ({f"{Q}.root_volume": {"size_gib": 100, "throughput": 1000}}, f"{Q0}.root_volume.throughput", "iops to 4000"),
    # Names, tags, Slurm's settings, limits of operations
    ({f"{C}.name": "a" * 41, A: ACCOUNTING}, "cluster.name", "at most 40"),
    ({f"{C}.name": "a" * 61}, "cluster.name", "at most 60"),
    ({f"{C}.name": "base-api"}, "cluster.name", "own stacks"),
    ({f"{C}.head_node.key_name": "$(id)"}, "cluster.head_node.key_name", "key pair"),
    ({f"{C}.permissions_boundary": "arn:aws:iam::1:policy/x"}, "cluster.permissions_boundary", "one policy"),
    ({f"{C}.permissions_boundary": "arn:aws:iam::111122223333:policy/*"}, "cluster.permissions_boundary", "one policy"),
    ({f"{C}.permissions_boundary": f"{BOUNDARY[:-1]}/x"}, "cluster.permissions_boundary", "without a path"),
    (
        {f"{C}.permissions_boundary": "arn:aws:iam::999988887777:policy/x"},
        "cluster.permissions_boundary",
        "account 1111",
    ),
    ({"production": True}, "cluster.permissions_boundary", "docs/permissions.md"),
    ({"images.prefix": "team/"}, "images.prefix", "or an empty text"),
    ({f"{Q}.name": "a" * 26, **NO_MODELS}, "cluster.queues[0].name", "at most 25"),
    ({f"{P}.name": "P5"}, "cluster.queues[0].compute[0].name", "lower-case"),
    ({f"{C}.name": "dev--x"}, "cluster.name", "single hyphens"),
    ({f"{Q}.name": "default", **NO_MODELS}, "cluster.queues[0].name", "forbids"),
    ({f"{P}.name": "default"}, "cluster.queues[0].compute[0].name", "forbids"),
    ({f"{C}.login_nodes.name": "default"}, "cluster.login_nodes.name", "forbids"),
    ({f"{C}.queues.1.name": "gpu", **NO_MODELS}, "cluster.queues[1].name", "cluster.queues[0]"),
    ({f"{Q}.compute.1": TWIN, **NO_MODELS}, f"{Q0}.compute[1].name", "no other"),
    ({"tags": {f"t{i}": "v" for i in range(39)}}, "tags", "at most 38"),
    ({"tags": {"aws:x": "v"}}, "tags.aws:x", "aws:"),
    ({"tags": {"Team": "a", "team": "b"}}, "tags.team", "one of Team and team"),
    ({"tags": {"AWS:x": "v"}}, "tags.AWS:x", "aws:"),
    ({"tags": {"trainyard:owner": "v"}}, "tags.trainyard:owner", "trainyard:"),
    ({"tags": {"k" * 129: "v"}}, f"tags.{'k' * 129}", "128"),
    ({"tags": {"a;b": "v"}}, "tags.a;b", "letters"),
    ({"tags": {"k": "v" * 257}}, "tags.k", "256"),
    ({"tags": {"k": ""}}, "tags.k", "1 to 256"),
    ({"validation": {"schedule": "0 3 * * *"}}, "validation.schedule", "02:30 or Sat,Sun 22:00"),
    ({"validation": {"schedule": "24:00"}}, "validation.schedule", "a time in UTC"),
    ({"validation": {"schedule": "nightly", "on_failure": "stop"}}, "validation.on_failure", "drain"),
    ({"validation": {"on_failure": "drain"}}, "validation.on_failure", "set schedule: nightly"),
    ({f"{C}.slurm.settings.SuspendTime": 60}, "cluster.slurm.settings.SuspendTime", "scaledown_minutes"),
    ({f"{C}.slurm.settings.suspendtime": 60}, "cluster.slurm.settings.suspendtime", "scaledown_minutes"),
    ({f"{C}.slurm.settings.PROLOG": "/x"}, "cluster.slurm.settings.PROLOG", "itself"),
    ({A: ACCOUNTING, f"{C}.slurm.settings.JobAcctGatherType": "x"}, f"{C}.slurm.settings.JobAcctGatherType", "itself"),
    ({f"{C}.slurm.settings": {"A b": "x"}}, "cluster.slurm.settings.A b", "letters and digits"),
    ({f"{C}.slurm.settings": {"MaxJobCount": "x\nProlog=/x"}}, "cluster.slurm.settings.MaxJobCount", "one line"),
    ({f"{C}.slurm.settings": {"MaxJobCount": 1, "maxjobcount": 2}}, "cluster.slurm.settings.maxjobcount", "once"),
    ({f"{C}.slurm.settings.Comment": "{{resolve:ssm:x}}"}, "cluster.slurm.settings.Comment", "dynamic reference"),
    ({A: ACCOUNTING | {"user": "a b"}}, "cluster.slurm.accounting.user", "database user"),
    ({A: ACCOUNTING | {"database": "A-b"}}, "cluster.slurm.accounting.database", "lower-case"),
    ({A: ACCOUNTING | {"uri": "mysql://h"}}, "cluster.slurm.accounting.uri", "host:port"),
    ({A: ACCOUNTING | {"uri": "h:70000"}}, "cluster.slurm.accounting.uri", "host:port"),
    ({A: ACCOUNTING | {"password_secret_arn": ELSEWHERE}}, f"{A}.password_secret_arn", "us-east-1"),
    ({A: {"uri": "h", "password_secret_arn": ELSEWHERE.replace("eu-west", "us-east")}}, f"{A}.user", "add the key"),
    ({A: {"uri": "h", "user": "slurm"}}, f"{A}.password_secret_arn", "or remove uri"),
    ({A: ACCOUNTING | {"max_acu": 8}}, f"{A}.max_acu", "remove the key, or uri"),
    ({A: "on"}, A, "a mapping"),
    ({A: {"user": "slurm"}}, f"{A}.user", "add uri"),
    ({A: {"version": "8.0"}}, f"{A}.version", "Aurora MySQL"),
    ({A: {"snapshot": "Old_1"}}, f"{A}.snapshot", "cluster snapshot"),
    ({A: {"backup_days": 36}}, f"{A}.backup_days", "35 or less"),
    ({A: {"zone": "use1-az4"}}, f"{A}.zone", "use use1-az1"),
    ({A: {"zone": "usw2-az1"}}, f"{A}.zone", "another zone of us-east-1"),
    ({A: {"subnet_id": "subnet-0123456789abcdef0"}}, f"{A}.subnet_id", "network.existing"),
    ({A: True, f"{N}.existing": EXISTING}, f"{A}.subnet_id", "existing database"),
    (
        {A: {"subnet_id": EXISTING["private_subnet_id"]}, f"{N}.existing": EXISTING},
        f"{A}.subnet_id",
        "not one of network.existing",
    ),
    ({A: {"zone": "use1-az1"}, f"{N}.existing": EXISTING}, f"{A}.zone", "with subnet_id"),
    ({f"{C}.timeout_minutes": 721}, "cluster.timeout_minutes", "720 or less"),
    ({f"{C}.name": "green", f"{C}.predecessor": "green"}, "cluster.predecessor", "another name than"),
    ({f"{C}.answer_minutes": 56}, "cluster.answer_minutes", "55 or less"),
    ({f"{C}.updates.stop_fleet": "always"}, "cluster.updates.stop_fleet", "when-needed"),
    ({f"{C}.updates.running_jobs": "kill"}, "cluster.updates.running_jobs", "may-be-killed"),
    # What exists already
    ({"storage.existing": [OLD]}, "storage.existing[0].id", "only with network.existing"),
    ({f"{N}.existing": EXISTING, "storage.existing": [OLD | {"mount": "/fsx"}]}, "storage.existing[0].mount", "/fsx"),
    ({f"{N}.existing": EXISTING, "storage.existing": [OLD | {"name": "fast"}]}, "storage.existing[0].name", L0),
    (
        {f"{N}.existing": EXISTING, "storage.existing": [OLD, OLD | {"name": "more", "mount": "/b"}]},
        "storage.existing[1].id",
        "each file system once",
    ),
    ({"storage.existing": [OLD | {"id": "fc-0123456789abcdef0"}]}, "storage.existing[0].id", "fsvol-"),
    ({f"{L}.associations.0.bucket": "team-data"}, f"{L0}.associations[0].bucket", "s3://<name>"),
    # Policies and security groups of the user's own
    ({f"{Q}.policies": [READ.replace("S3Read", "S3Full")]}, f"{Q0}.policies[0]", "no other policy"),
    ({f"{Q}.policies": ["arn:aws:iam::111122223333:policy/x"]}, f"{Q0}.policies[0]", "path /parallelcluster/"),
    ({f"{C}.login_nodes.policies": [OURS.replace("1111", "9999")]}, f"{C}.login_nodes.policies[0]", "111122223333"),
    ({f"{C}.head_node.policies": [OURS.replace("aws", "aws-cn")]}, f"{C}.head_node.policies[0]", "arn:aws:iam"),
    ({f"{C}.head_node.policies": [READ, READ]}, f"{C}.head_node.policies[1]", "once"),
    ({f"{Q}.policies": [f"{OURS}{i}" for i in range(9)]}, f"{Q0}.policies", "at most 8"),
    ({f"{Q}.security_groups": ["sg-012345678"]}, f"{Q0}.security_groups[0]", "8 or 17"),
    ({f"{Q}.security_groups": [f"sg-0123456{i}" for i in range(4)]}, f"{Q0}.security_groups", "at most 3"),
    # Hooks
    ({HOOKS: [HOOK | {"role": "login-configured"}]}, f"{H0}.role", "add cluster.login_nodes"),
    ({HOOKS: [HOOK | {"role": "compute"}]}, f"{H0}.role", "compute-start"),
    ({HOOKS: [HOOK | {"sha256": "ABC"}]}, f"{H0}.sha256", "64 hexadecimal digits"),
    ({HOOKS: [HOOK | {"sha256": "0" * 64}]}, f"{H0}.sha256", f"hooks/good.sh, {HOOK['sha256']}"),
    ({HOOKS: [HOOK | {"script": "hooks/gone.sh"}]}, f"{H0}.script", "cannot be read"),
    ({HOOKS: [HOOK | {"script": "hooks"}]}, f"{H0}.script", "cannot be read"),
    ({HOOKS: [HOOK | {"script": "../hooks/good.sh"}]}, f"{H0}.script", "below the environment file's folder"),
    ({HOOKS: [HOOK | {"script": "hooks/crlf.sh"}]}, f"{H0}.script", "CRLF"),
    ({HOOKS: [HOOK | {"script": "hooks/text.txt"}]}, f"{H0}.script", "does not begin with #!"),
    ({HOOKS: [HOOK, HOOK | {"when": "before"}, HOOK]}, f"{C}.hooks[2]", "remove one of them"),
    # Keys of ParallelCluster's own
    ({f"{X}.HeadNod": {}}, f"{X}.HeadNod", "did you mean HeadNode?"),
    ({f"{X}.HeadNode.Sequence": 1}, f"{X}.HeadNode.Sequence", "unknown key"),
    ({f"{X}.HeadNode": []}, f"{X}.HeadNode", "a mapping"),
    ({f"{X}.HeadNode": None}, f"{X}.HeadNode", "a mapping"),
    ({f"{X}.Imds.ImdsSupport": "v3"}, f"{X}.Imds.ImdsSupport", "v1.0, v2.0"),
    ({f"{X}.CustomS3Bucket": 2}, f"{X}.CustomS3Bucket", "a text"),
    ({f"{X}.HeadNode.Dcv.Port": True}, f"{X}.HeadNode.Dcv.Port", "a whole number"),
    ({f"{X}.HeadNode.Dcv.Enabled": "yes"}, f"{X}.HeadNode.Dcv.Enabled", "true or false"),
    ({XQ: {}}, XQ, "a list"),
    *(
        ({f"{X}.{key}": value}, f"{X}.{key}", advice)
        for key, value, advice in (
            ("Region", "us-east-1", "use region"),
            ("Tags", [], "use tags"),
            ("Image.Os", "rhel9", "use cluster.os"),
            ("Image.CustomAmi", AMI, "use ami"),
            ("Scheduling.Scheduler", "awsbatch", "slurm"),
            ("Scheduling.SlurmSettings.CustomSlurmSettings", [], "cluster.slurm.settings"),
            ("HeadNode.InstanceType", "m7i.large", "head_node.instance_type"),
            ("HeadNode.CustomActions", {}, "your own image"),
            ("HeadNode.Networking.SubnetId", "subnet-1", "use network"),
            ("HeadNode.Networking.SecurityGroups", [], "security_groups"),
            ("HeadNode.Iam.S3Access", [], "policies"),
            ("HeadNode.Iam.InstanceRole", "x", "policies"),
        )
    ),
    ({XQ: [{"Name": "gpu", "CapacityType": "SPOT"}]}, f"{XQ}[0].CapacityType", "capacity"),
    (
        {XQ: [{"Name": "gpu", "ComputeResources": [{"Name": "p5", "MaxCount": 9}]}]},
        f"{XQ}[0].ComputeResources[0].MaxCount",
        "min and max",
    ),
    ({XQ: [{"Name": "gpus"}]}, f"{XQ}[0]", "once: gpu, cpu"),
    ({XQ: [{"Name": "gpu"}, {"Name": "gpu"}]}, f"{XQ}[1]", "once: gpu, cpu"),
    ({XQ: [{"Name": "cpu", "ComputeResources": [{"Name": "p5"}]}]}, f"{XQ}[0].ComputeResources[0]", "once: c7i"),
    ({f"{X}.LoginNodes.Pools": [{"Name": "login"}]}, f"{X}.LoginNodes.Pools[0]", "(none)"),
    ({f"{X}.SharedStorage": [EFS | {"EfsSettings": {}}]}, f"{X}.SharedStorage[0]", "FileSystemId"),
    ({f"{X}.SharedStorage": [EFS | {"Name": "fast"}]}, f"{X}.SharedStorage[0]", "no other file system"),
    ({f"{X}.SharedStorage": [EFS | {"MountDir": "/fsx"}]}, f"{X}.SharedStorage[0]", "no other file system"),
    ({f"{X}.SharedStorage": [EFS, EFS]}, f"{X}.SharedStorage[1]", "no other file system"),
    # The models that train on the cluster
    ({f"{M}.1.name": "one"}, "models[1].name", "models[0]"),
    ({f"{M}.0.queue": "gpus"}, "models[0].queue", "gpu, cpu"),
    ({f"{M}.0.nodes": 4}, "models[1].nodes", "1 too many"),
    ({f"{M}.0.nodes": 2}, "models[1].nodes", "1 would be idle"),
    ({f"{M}.0.folders.outputs": "/scratch/o"}, "models[0].folders.outputs", "below one of /fsx"),
    ({f"{M}.0.folders.outputs": "/fsx"}, "models[0].folders.outputs", "below one of"),
    ({f"{M}.0.folders.data": "/fsx/../etc"}, "models[0].folders.data", "absolute path"),
    ({f"{M}.1.folders.checkpoints": "/fsx/a/c"}, "models[1].folders.checkpoints", "models[0].folders.checkpoints"),
    ({f"{M}.1.folders.outputs": "/fsx/a/c/o"}, "models[1].folders.outputs", "overlaps"),
    ({f"{M}.0.folders.outputs": "/fsx/a/c"}, "models[0].folders.outputs", "overlaps"),
    ({f"{L}.associations.1": CHECKPOINTS}, "models[0].folders.outputs", "expire after 90 days"),
    # People (the people file itself: test_people.py)
    ({PE: {"file": "people.yml"}}, f"{PE}.file", "a .yaml file"),
    ({PE: {"file": "people/gone.yaml"}}, f"{PE}.file", "cannot be read"),
    ({PE: {"file": "people/gone.yaml", "directory": LDAP}}, PD, "one of them"),
    ({PE: {"home_quota_gib": 5}}, f"{PE}.home_quota_gib", "a quota without a people file"),
    ({PE: {"directory": LDAP, "home_quota_gib": 5}}, f"{PE}.home_quota_gib", "a quota with a directory"),
    (
        {PE: {"file": "people/gone.yaml", "home_quota_gib": 5}, f"{Z}.volumes.0.mount": "/shared"},
        f"{PE}.home_quota_gib",
        "/home is not on an OpenZFS volume",
    ),
    ({PE: {"directory": LDAP | {"domain": "cn=x"}}}, f"{PD}.domain", "corp.example.com"),
    ({PE: {"directory": LDAP | {"address": "ldap.corp"}}}, f"{PD}.address", "ldaps://HOST"),
    ({PE: {"directory": LDAP | {"address": "ldap://ldap.corp"}}}, f"{PD}.address", "in clear text"),
    ({PE: {"directory": LDAP | {"password_secret_arn": ELSEWHERE}}}, f"{PD}.password_secret_arn", "us-east-1"),
    ({PE: {"directory": LDAP | {"verify": "yes"}}}, f"{PD}.verify", "hard, demand"),
    ({PE: {"directory": LDAP | {"sssd": {"ldap_default_authtok": "x"}}}}, f"{PD}.sssd.ldap_default_authtok", "no pass"),
    ({PE: {"directory": LDAP | {"sssd": {"id_provider": "ad"}}}}, f"{PD}.sssd.id_provider", "ldap, the only"),
    (
        {PE: {"directory": LDAP | {"access_filter": "(x=y)", "sssd": {"access_provider": "simple"}}}},
        f"{PD}.sssd.access_provider",
        "remove access_filter",
    ),
    # Prices and budget
    ({"cost.prices": {"p5.48xlarg": 31.5}}, "cost.prices.p5.48xlarg", "an instance type that the file uses"),
    ({"cost.prices": {"p5.48xlarge": 0}}, "cost.prices.p5.48xlarge", "more than 0"),
    ({"cost.prices": {"p5.48xlarge": "dear"}}, "cost.prices.p5.48xlarge", "a number"),
    ({"cost.budget": {"monthly_usd": 0}}, "cost.budget.monthly_usd", "more than 0"),
    ({"cost.budget": {"monthly_usd": 9, "emails": ["a"]}}, "cost.budget.emails[0]", "an e-mail address"),
    ({"cost.budget": {"monthly_usd": 9, "emails": ["A@b.org", "a@b.org"]}}, "cost.budget.emails[0]", "each once"),
    ({"cost.budget": {"monthly_usd": 9}, OB: "cloudwatch"}, "cost.budget", "nobody receives"),
    ({"cost.budget": {"monthly_usd": 9, "at_limit": "stop"}}, "cost.budget.at_limit", "alert, stop-new-jobs"),
    ({"region": "cn-north-1", "cost.budget": {"monthly_usd": 9}}, "cost.budget", "billed in CNY"),
    # Observability
    ({OB: "clodwatch"}, OB, "did you mean cloudwatch?"),
    ({OB: ["a"]}, OB, "one of off, cloudwatch, self-hosted, managed"),
    ({OB: {"mode": "manged"}}, f"{OB}.mode", "did you mean managed?"),
    ({OB: {"notify": {"emails": ["a@example.com"]}}}, f"{OB}.notify", "set mode"),
    ({OB: {"mode": "cloudwatch", "retention_days": 30}}, f"{OB}.retention_days", "self-hosted or managed"),
    ({OB: {"mode": "managed", "volume_gib": 50}}, f"{OB}.volume_gib", "only with mode self-hosted"),
    ({OB: {"mode": "managed", "retention_days": 1096}}, f"{OB}.retention_days", "1095 or less"),
    ({OB: {"mode": "self-hosted", "volume_gib": 5}}, f"{OB}.volume_gib", "10 or more"),
    ({OB: {"mode": "self-hosted", "instance_type": "t3.medum"}}, f"{OB}.instance_type", "did you mean t3.medium?"),
    ({OB: {"mode": "managed", "instance_type": "t4g.medium"}}, f"{OB}.instance_type", "x86_64"),
    ({OB: {"mode": "self-hosted", "instance_type": "t3.nano"}}, f"{OB}.instance_type", "1.3 GiB or more for 6 nodes"),
    ({OB: {"mode": "self-hosted", "instance_type": "i3.xlarge"}}, f"{OB}.instance_type", "built on Nitro"),
    ({**JAKARTA, OB: "managed"}, f"{OB}.mode", "Amazon Managed Grafana is in"),
    ({OB: {"mode": "managed", "notify": {"emails": ["a"]}}}, f"{OB}.notify.emails[0]", "an e-mail address"),
    ({OB: {"mode": "managed", "notify": {"webhook_secret": WEBHOOK}}}, f"{OB}.notify.webhook_secret", "the name of a"),
    (
        {OB: {"mode": "managed", "notify": {"webhook_secret": WEBHOOK.removeprefix("https://")}}},
        f"{OB}.notify.webhook_secret",
        "a dot",
    ),
    (
        {OB: {"mode": "managed", "notify": {"slack": {"workspace": "T1", "channel": "#a"}}}},
        f"{OB}.notify.slack.channel",
        "capital letters",
    ),
    ({OB: {"mode": "managed", "runbooks": "docs"}}, f"{OB}.runbooks", "for example https://"),
    # Teams, qualities of service and reservations
    ({"teams": [TEAM]}, "teams", "accounting: true"),
    ({A: False, "qos": [{"name": "urgent"}]}, "qos", "without accounting"),
    ({**SHARED, "teams.1.name": "nlp"}, "teams[1].name", "no other team has"),
    ({**SHARED, "teams.1.name": "operations"}, "teams[1].name", "administrators"),
    ({**SHARED, "teams.1.name": "pcdefault"}, "teams[1].name", "ParallelCluster makes"),
    ({**SHARED, "qos": [{"name": "ab"}, {"name": "ab"}]}, "qos[1].name", "no other QOS has"),
    ({**SHARED, f"{M}.0.team": "nlq"}, "models[0].team", "did you mean nlp?"),
    ({f"{M}.0.team": "nlp"}, "models[0].team", "there are none"),
    ({**SHARED, "teams.0.qos": ["urgent"]}, "teams[0].qos[0]", "one of the QOS: normal"),
    ({**SHARED, "teams.0.qos": ["normal", "normal"]}, "teams[0].qos[1]", "a second time"),
    ({**SHARED, "qos": [{"name": "ab", "preempts": ["ab"]}]}, "qos[0].preempts[0]", "itself"),
    ({**SHARED, "qos": [{"name": "ab", "preempts": ["normol"]}]}, "qos[0].preempts[0]", "did you mean normal?"),
    ({**SHARED, "qos": CIRCLE}, "qos[0].preempts[0]", "ab preempts cd preempts ef preempts ab"),
    ({**SHARED, "qos": [{"name": "ab", "priority": 1001}]}, "qos[0].priority", "1000 or less"),
    ({**SHARED, "teams.0.max_gpus": 33}, "teams[0].max_gpus", "at most the 32 GPUs of all queues together"),
    ({**SHARED, "qos": [{"name": "ab", "max_gpus_per_user": 40}]}, "qos[0].max_gpus_per_user", "at most the 32 GPUs"),
    ({**SHARED, f"{M}.0.team": "nlp", "teams.0.max_gpus": 16}, "teams[0].max_gpus", "at least the GPUs of the team's"),
    (
        {**SHARED, "teams.0": TEAM | {"max_gpus": 8, "max_gpus_per_user": 9}},
        "teams[0].max_gpus_per_user",
        "of the team, 8",
    ),
    ({**SHARED, R: [WEEK | {"teams": ["nobody"]}]}, "reservations[0].teams[0]", "one of the teams: nlp, vision"),
    ({**SHARED, R: [WEEK | {"queue": "gpus"}]}, "reservations[0].queue", "did you mean gpu?"),
    ({**SHARED, R: [WEEK | {"nodes": 5}]}, "reservations[0].nodes", "at most the 4 nodes of the queue gpu"),
    (
        {**SHARED, R: [WEEK, WEEK | {"name": "two", "nodes": 2}]},
        "reservations[1].nodes",
        "5 in all, together with reservation week",
    ),
    ({**SHARED, R: [WEEK | {"start": "2026-02-30T08:00"}]}, "reservations[0].start", "that exist"),
    ({**SHARED, R: [WEEK | {"start": "tomorrow"}]}, "reservations[0].start", "a time in UTC"),
    ({**SHARED, S: {"prioritytype": "priority/basic"}}, f"{S}.prioritytype", "priority/multifactor, with teams"),
    ({**SHARED, S: {"AccountingStorageEnforce": "limits"}}, f"{S}.AccountingStorageEnforce", "associations, limits"),
    ({**SHARED, S: {"AccountingStorageTRES": "cpu"}}, f"{S}.AccountingStorageTRES", "a list with gres/gpu"),
    ({**SHARED, S: {"PreemptType": "preempt/none"}}, f"{S}.PreemptType", "preempt/qos"),
    ({**SHARED, S: {"PreemptMode": "SUSPEND"}}, f"{S}.PreemptMode", "REQUEUE or CANCEL"),
    # Budgets of teams and idle interactive jobs
    ({**PAID, OB: "cloudwatch"}, "teams[0].monthly_usd", "whose alerts nobody receives"),
    (
        {**PAID, OB: RECEIVED, f"{Q}.capacity.type": "spot"},
        "teams[0].monthly_usd",
        "no price is known for gpu/p5",
    ),
    ({**INTERACTIVE, "storage": {}}, "qos[0].idle_gpu_minutes", "without a shared file system"),
    ({**INTERACTIVE, "storage.lustre": []}, "qos[0].idle_gpu_minutes", "other than /home"),
    ({**INTERACTIVE, PE: {"directory": LDAP}}, "qos", "without teams"),
]
"""Edits, the key of the fault, a part of its text."""
