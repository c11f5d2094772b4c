"""What edits come to beyond the cluster's configuration: data, network, the cluster itself. Two syntheses each."""

import copy
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ops.review.resources import Effect
from ops.review.verdict import Level, Verdict, judge
from tests.ops.review.edits import DESTRUCTIVE, DISRUPTIVE, SAFE, Replacements, slurm
from tests.ops.review.synthesis import edited

pytestmark = pytest.mark.xdist_group("review-stacks")


@dataclass(frozen=True)
class Case:
    """`data`: expressions that match the data at stake, one each; `says`: an expression of the headline."""

    level: Level
    replacements: Replacements
    data: tuple[str, ...] = ()
    says: str = ""
    file: str = "local"
    before: Replacements = ()


NO_SHARED = ((r"      - name: shared\n(        .*\n)+", ""),)
NO_ASSOCIATIONS = ((r"      associations:\n(        .*\n)+", ""),)
NO_CHECKPOINTS = ((r"        - path: /checkpoints\n(          .*\n)+", ""),)
KEEP = r"file_systems: delete", "file_systems: keep"
GREEN, SUCCESSOR = (
    ((r"  os: ubuntu2204", f"  name: green\n{more}  os: ubuntu2204"),) for more in ("", "  predecessor: local\n")
)
SHORTER = (
    (r"keep_images: 5", "keep_images: 4"),
    (r"keep: 7", "keep: 3"),
    (r"flow_log_days: 7", "flow_log_days: 3"),
    (r"  log_days: 7", "  log_days: 3"),
    (r"(name: homes)", r"\1\n    backups: {days: 3}"),
)
KINDS = ("Repository", "Schedule", "FileSystem local-storage-homes", *["LogGroup"] * 6)

CASES: dict[str, Case] = {
    "nothing": Case(Level.NOTHING, (), says="NOTHING"),
    "a comment": Case(Level.NOTHING, ((r"name: local", "# mine\nname: local"),)),
    "a larger file system": Case(SAFE, ((r"capacity_gib: 1200", "capacity_gib: 2400"),)),
    "a smaller file system": Case(
        DESTRUCTIVE,
        ((r"capacity_gib: 4800", "capacity_gib: 2400"),),
        (r"FileSystem jakarta-storage-logs refused",),
        file="jakarta-80xp5e",
    ),
    "an OpenZFS file system that is 9 % larger": Case(
        DESTRUCTIVE, ((r"capacity_gib: 64", "capacity_gib: 70"),), (r"FileSystem local-storage-homes refused",)
    ),
    "a faster file system": Case(
        DESTRUCTIVE,
        ((r"throughput: 125\b", "throughput: 250"),),
        (r"FileSystem local-storage-training refused",),
        says="LustreConfiguration.PerUnitStorageThroughput",
    ),
    "a Lustre file system with its first backups": Case(
        SAFE, ((r"(throughput: 125\n)", r"\1      backups: {days: 7}\n"),), before=NO_ASSOCIATIONS
    ),
    "a Lustre file system without EFA": Case(
        DESTRUCTIVE,
        ((r"(per TiB\.\n      )efa: true", r"\1efa: false"),),
        (r"FileSystem .*training refused",),
        file="megatron-2xp5",
    ),
    "another prefix of an association": Case(
        DESTRUCTIVE, ((r"prefix: checkpoints/", "prefix: other/"),), says="refuses FSx DataRepositoryAssociation"
    ),
    "a volume removed": Case(DESTRUCTIVE, NO_SHARED, (r"Volume shared removed lost",)),
    "a volume removed that is kept": Case(DESTRUCTIVE, NO_SHARED, (r"Volume shared removed kept",), before=(KEEP,)),
    "a quota": Case(SAFE, ((r"quota_gib: 40", "quota_gib: 60"),)),
    "retention": Case(SAFE, (KEEP,)),
    "a repository renamed": Case(DESTRUCTIVE, ((r"pytorch-training-custom", "training"),), (r"Repository .* removed",)),
    "another zone": Case(
        DESTRUCTIVE,
        ((r"use1-az4", "use1-az6"),),
        (*(f"FileSystem local-storage-{name} refused" for name in ("homes", "training")), "Volume home", "Volume sh"),
        says="SubnetId",
    ),
    "the accounting database removed": Case(
        DESTRUCTIVE,
        ((r"accounting: true", "accounting: false"),),
        ("DBCluster .* removed kept as a snapshot", "DBInstance", "Secret", *["LogGroup"] * 3),
        before=(slurm("accounting: true"),),
    ),
    "the accounting database restored in place": Case(
        DESTRUCTIVE,
        ((r"accounting: true", "accounting: {snapshot: before}"),),
        ("DBCluster .* refused", "DBInstance"),
        says="SnapshotIdentifier.: the deployment fails",
        before=(slurm("accounting: true"),),
    ),
    "the accounting database upgraded": Case(
        DISRUPTIVE,
        ((r"accounting: true", "accounting: {version: 3.12.0}"),),
        says="DBCluster .* is upgraded",
        before=(slurm("accounting: true"),),
    ),
    "an association removed": Case(DISRUPTIVE, NO_CHECKPOINTS, says="DataRepositoryAssociation .* removed"),
    "the cluster renamed": Case(DESTRUCTIVE, GREEN, says="cluster local is deleted"),
    "a successor next to the cluster": Case(SAFE, SUCCESSOR, says="green is created, next to local"),
    "shorter retention of everything": Case(
        DESTRUCTIVE,
        SHORTER,
        tuple(f"{kind}.* changed in place" for kind in KINDS),
        says=r"(?=.*logs of the cluster are kept for 3 days)(?=.*images .any. expire beyond 4)"
        r"(?=.*3 snapshots are kept instead of 7)(?=.*: logs are kept for 3 days instead of 7)"
        r"(?=.*backups are kept for 3 days instead of 7)",
    ),
    "another environment": Case(DISRUPTIVE, ((r"name: local", "name: other"),), says="local-network, .* stay"),
}


def verdict_of(name: str, folder: Path) -> Verdict:
    case = CASES[name]
    old = edited(case.file, case.before, folder)
    return judge(case.file, "before", old, edited(case.file, (*case.before, *case.replacements), folder))


@pytest.mark.parametrize("name", CASES)
def test_verdict(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    case, verdict = CASES[name], verdict_of(name, tmp_path_factory.getbasetemp())
    assert verdict.level is case.level, verdict.headline
    assert re.search(case.says, verdict.headline), verdict.headline
    at_stake = sorted(f"{one.type} {one.name} {one.effect} {one.data_disposition}" for one in verdict.data)
    assert len(at_stake) == len(case.data), at_stake
    for expression in case.data:
        assert any(re.search(expression, line) for line in at_stake), (expression, at_stake)


def test_changed_hooks_are_disruptive_and_say_which_nodes_run_them(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    old = edited("local", (), tmp_path_factory.getbasetemp())
    template = copy.deepcopy(dict(old["cluster"].template))
    [cluster] = (item for item in template["Resources"].values() if item["Type"] == "Custom::ParallelCluster")
    cluster["Properties"] |= {"AssetsVersion": "other", "Hooks": ["compute-start before hooks/a.sh 0123"]}
    verdict = judge("local", "before", old, {**old, "cluster": replace(old["cluster"], template=template)})
    assert verdict.headline.startswith("DISRUPTIVE: hooks changed: nodes that start later run them")
    [change] = verdict.resources
    assert 'Hooks: none -> ["compute-start before hooks/a.sh 0123"]' in [str(one) for one in change.differences]


def test_what_follows_a_replacement_is_replaced_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    verdict = verdict_of("a faster file system", tmp_path_factory.getbasetemp())
    links = [change for change in verdict.resources if change.type == "AWS::FSx::DataRepositoryAssociation"]
    assert {change.effect for change in links} == {Effect.REPLACED}
    assert {change.causes for change in links} == {("FileSystemId",)}
    [cause] = [change.causes for change in verdict.data]
    assert cause == ("LustreConfiguration.PerUnitStorageThroughput",)
