"""File systems, associations, buckets and repositories."""

from __future__ import annotations

from tests.settings.examples.common import NO_MODELS, Bad, C, Good, L, Z

DRA = {"path": "/x", "bucket": "data", "prefix": "x/"}


def _lustre(n: int) -> list[dict[str, object]]:
    return [{"name": f"fs{i}", "mount": f"/m{i}", "capacity_gib": 1200} for i in range(n)]


GOOD: list[Good] = [
    {f"{L}.capacity_gib": 2400},
    {f"{L}.capacity_gib": 7200, f"{L}.throughput": 1000},
    {f"{L}.capacity_gib": 38400, f"{L}.throughput": 125, f"{L}.efa": True},
    {f"{L}.capacity_gib": 19200, f"{L}.throughput": 250, f"{L}.efa": True},
    {f"{L}.capacity_gib": 9600, f"{L}.throughput": 500, f"{L}.efa": True},
    {f"{L}.capacity_gib": 4800, f"{L}.throughput": 1000, f"{L}.efa": True},
    {"storage.lustre.1.backups": {"days": 7}},
    {f"{L}.associations": [{"path": f"/a{i}", "bucket": "data", "prefix": f"a{i}/"} for i in range(8)]},
    {f"{L}.associations.1": {"path": "/data2", "bucket": "data", "prefix": "data2/"}},
    {f"{L}.associations.1": {"path": "/x", "bucket": "checkpoints", "prefix": "data/"}},
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
]

BAD: list[Bad] = [
    ({f"{L}.capacity_gib": 1000}, "storage.lustre[0].capacity_gib", "use 1200 or 2400"),
    ({f"{L}.capacity_gib": 3600}, "storage.lustre[0].capacity_gib", "use 2400 or 4800"),
    ({f"{L}.capacity_gib": 4800, f"{L}.efa": True}, "storage.lustre[0].capacity_gib", "19200"),
    ({f"{L}.capacity_gib": 7200, f"{L}.throughput": 1000, f"{L}.efa": True}, "storage.lustre[0].capacity_gib", "4800"),
    ({f"{L}.backups": {"days": 7}}, "storage.lustre[0].backups.days", "linked to S3"),
    (
        {f"{L}.capacity_gib": 19200, f"{L}.efa": True, f"{C}.os": "rhel8"},
        "storage.lustre[0].efa",
        "ubuntu2204",
    ),
    (
        {f"{L}.associations": [{"path": f"/a{i}", "bucket": "data", "prefix": f"a{i}/"} for i in range(9)]},
        "storage.lustre[0].associations",
        "at most 8",
    ),
    ({f"{L}.associations.1": DRA | {"path": "/data/x"}}, "storage.lustre[0].associations[1].path", "/data"),
    ({f"{L}.associations.0.path": "/", f"{L}.associations.1": DRA}, "storage.lustre[0].associations[1].path", "with /"),
    ({f"{L}.associations.1": DRA | {"path": "/"}}, "storage.lustre[0].associations[1].path", "overlaps"),
    ({f"{L}.associations.1": DRA | {"prefix": "data/x/"}}, "storage.lustre[0].associations[1].prefix", "data/"),
    ({f"{L}.associations.1": DRA | {"prefix": ""}}, "storage.lustre[0].associations[1].prefix", "begins with"),
    ({f"{L}.associations.0.import_events": []}, "storage.lustre[0].associations[0].export_events", "at least one"),
    (
        {f"{L}.associations.0.import_events": ["new", "new"]},
        "storage.lustre[0].associations[0].import_events",
        "at most once",
    ),
    (
        {
            f"{L}.associations.0.export_events": ["new"],
            "storage.lustre.1.associations": [DRA | {"prefix": "data/x/", "export_events": ["new"]}],
        },
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
    ({"storage.lustre": _lustre(20), **NO_MODELS}, "storage.openzfs.volumes[0].mount", "at most 20"),
    ({f"{L}.name": "default"}, "storage.lustre[0].name", "forbids"),
    ({f"{L}.name": "a" * 31}, "storage.lustre[0].name", "at most 30"),
    ({"storage.lustre.1.name": "fast"}, "storage.lustre[1].name", "storage.lustre[0]"),
    ({f"{Z}.volumes.0.name": "fast"}, "storage.openzfs.volumes[0].name", "storage.lustre[0]"),
    ({"images.repositories": [{"name": "ab"}, {"name": "ab"}]}, "images.repositories[1].name", "repositories[0]"),
    ({"images.build": {"repository": "other"}}, "images.build.repository", "one of the repositories"),
    (
        {"images.repositories": [{"name": "ab", "immutable": True}], "images.build": {"repository": "ab"}},
        "images.build.repository",
        "without immutable",
    ),
    ({"storage.buckets.name_prefix": "xn--a"}, "storage.buckets.name_prefix", "xn--"),
]
