"""Updates, renames, and the rollbacks that CloudFormation makes of them."""

from typing import Any

from cluster_resource.api import ApiError, ApiUnknownError, ClusterView
from tests.cluster_resource import events
from tests.cluster_resource.cases import Case, table
from tests.cluster_resource.events import ROLLING_BACK, FakeAws, own_id, properties, text_of
from tests.cluster_resource.fake_api import MAX_COUNT, Cluster, FakeApi, foreign, owned

SMALL, LARGE = properties(max_count=2), properties(max_count=4)
OLD, NEW = properties("old"), properties("new")
GROW = events.update(LARGE, SMALL)
ASSETS = events.update(properties(AssetsVersion="2", Hooks=["compute-start before a.sh 0123"]), SMALL)
NEXT = events.update(properties(Generation="1"), SMALL)
BUSY = ApiError(409, "Cannot execute update while stack is in UPDATE_IN_PROGRESS status.")
FAILS = {"UPDATE_IN_PROGRESS": "UPDATE_ROLLBACK_IN_PROGRESS"}


def changed(**configuration: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """`SMALL` with other keys in its configuration."""
    return {**SMALL, "Configuration": {**SMALL["Configuration"], **configuration}}


@table(
    {
        "once": Case(FakeApi(owned()), GROW, changing=("update local",), physical_id=own_id("local")),
        "a tag": Case(
            FakeApi(owned()),
            events.update(changed(Tags=[{"Key": "team", "Value": "research"}]), SMALL),
            changing=("update local",),
        ),
        "new assets only": Case(FakeApi(owned()), ASSETS, changing=()),
        "no changes": Case(FakeApi(owned("UPDATE_COMPLETE", max_count=4)), GROW, changing=()),
        "new assets after a rollback": Case(FakeApi(owned("UPDATE_ROLLBACK_COMPLETE")), ASSETS, changing=()),
        "rolled back": Case(FakeApi(owned("UPDATE_ROLLBACK_COMPLETE")), events.update(SMALL, LARGE), changing=()),
        "busy before, and when asked": Case(
            FakeApi(owned("UPDATE_IN_PROGRESS"), faults={"update": [BUSY]}), GROW, changing=("update local",) * 2
        ),
        "504, but accepted": Case(
            FakeApi(owned(), faults={"update": [(ApiUnknownError("PUT: HTTP 504"), True)]}), GROW
        ),
        "504, not accepted": Case(FakeApi(owned(), faults={"update": [ApiUnknownError("PUT: HTTP 504")]}), GROW),
        "cluster gone": Case(FakeApi(), ASSETS, changing=("create local",), physical_id=own_id("local")),
        **{
            f"cluster gone, 504 {when}": Case(
                FakeApi(faults={"create": [(ApiUnknownError("POST: HTTP 504"), done)]}),
                GROW,
                changing=("create local",) * n,
            )
            for when, done, n in (("though done", True, 1), ("and done later", "late", 2), ("and not done", False, 2))
        },
        "next generation, cluster gone": Case(FakeApi(), NEXT, changing=("create local",)),
        "next generation, changed by hand": Case(FakeApi(owned(max_count=1)), NEXT, changing=("update local",)),
        "next generation, unchanged": Case(FakeApi(owned()), NEXT, changing=()),
        "creation failed": Case(FakeApi(owned("ROLLBACK_COMPLETE")), GROW, changing=("delete local", "create local")),
        "deletion failed": Case(FakeApi(owned("DELETE_FAILED")), GROW, changing=("delete local", "create local")),
        "being deleted": Case(FakeApi(owned("DELETE_IN_PROGRESS")), GROW, changing=("create local",)),
        **{
            f"fleet {status}": Case(FakeApi(owned(fleet=status)), ASSETS)
            for status in ("STOPPED", "PROTECTED", "STOPPING")
        },
    }
)
def test_an_update_succeeds(case: Case) -> None:
    case.check()


@table(
    {
        "rolled back": Case(
            FakeApi(owned(), outcomes=FAILS),
            GROW,
            "FAILED",
            ("UPDATE_FAILED (UPDATE_ROLLBACK_COMPLETE)", "runs with its former configuration"),
            physical_id=own_id("local"),
        ),
        "half updated": Case(
            FakeApi(owned("UPDATE_FAILED")), ASSETS, "FAILED", ("has the wanted configuration, but is UPDATE_FAILED",)
        ),
        "rollback failed": Case(
            FakeApi(owned("UPDATE_ROLLBACK_FAILED")),
            GROW,
            "FAILED",
            ("continue-update-rollback --stack-name arn:",),
            (),
        ),
        "never in place": Case(
            FakeApi(owned()),
            events.update(changed(Image={"Os": "ubuntu2404"}), SMALL),
            "FAILED",
            (
                "Image.Os: now alinux2023, asked for ubuntu2404 (can never change in place)",
                "cluster.updates.replace: when-needed",
                "giving it another name",
            ),
            (),
        ),
        "invalid": Case(FakeApi(owned(), invalid="Must be at least 1."), GROW, "FAILED", ("Must be at least 1.",), ()),
        "busy": Case(
            FakeApi(owned(), faults={"update": [BUSY] * 999}),
            events.update(properties(max_count=4, TimeoutMinutes="5"), SMALL),
            "FAILED",
            ("Last seen: CREATE_COMPLETE",),
        ),
        "no clear answer": Case(
            FakeApi(owned(), faults={"update": [ApiUnknownError("PUT: HTTP 500: Unexpected fatal exception")] * 99}),
            GROW,
            "FAILED",
            ("5 attempts", "Unexpected fatal"),
        ),
        "not ours": Case(FakeApi(foreign("local")), GROW, "FAILED", ("does not belong",), ()),
        "another version": Case(FakeApi(owned(version="3.15.0")), GROW, "FAILED", ("3.15.0",), ()),
        "time limit": Case(
            FakeApi(owned(), frozen=True),
            events.update(properties(max_count=4, TimeoutMinutes="5"), SMALL),
            "FAILED",
            ("Last seen: UPDATE_IN_PROGRESS",),
            physical_id=own_id("local"),
        ),
    }
)
def test_an_update_fails(case: Case) -> None:
    case.check()


@table(
    {
        "changed by hand": Case(
            FakeApi(owned(max_count=8)),
            GROW,
            "FAILED",
            (f"Changed outside CloudFormation, {MAX_COUNT}: now 8, deployed 2",),
            (),
        ),
        "deployed properties wrong": Case(
            FakeApi(owned(max_count=8)),
            events.update(LARGE, {**SMALL, "Configuration": "wrong"}),
            "FAILED",
            (f"{MAX_COUNT}: now 8, asked for 4",),
        ),
    }
)
def test_a_refusal_names_what_somebody_changed(case: Case) -> None:
    case.check()


def test_a_refusal_of_our_own_change_blames_nobody() -> None:
    verdict = Case(FakeApi(owned(max_count=4)), events.update(SMALL, LARGE), "FAILED").check()
    assert "Changed outside" not in verdict.reason


def test_an_update_that_somebody_undid_is_sent_again_and_fails() -> None:
    class Undone(FakeApi):
        def describe(self, name: str) -> ClusterView | None:
            view = super().describe(name)
            if view and view.status == "UPDATE_COMPLETE":
                self.clusters[name].configuration = text_of(SMALL)
            return view

    Case(Undone(owned()), GROW, "FAILED", ("another configuration",), ("update local",) * 5).check()


def test_a_rename_makes_a_new_cluster_and_the_delete_of_the_old_id_removes_the_old_one() -> None:
    api = FakeApi(owned(name="old"))
    Case(api, events.update(NEW, OLD), changing=("create new",), physical_id=own_id("new")).check()
    # The properties of this Delete do not matter: its physical id names the cluster.
    Case(api, events.delete(NEW, physical_id=own_id("old"))).check()
    assert list(api.clusters) == ["new"]


def renamed(**updates: str) -> dict[str, Any]:
    return events.update({**NEW, "Updates": updates}, OLD)


CLEAN_UP = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"
DELETE_OLD = events.delete(NEW, physical_id=own_id("old"))


def busy(**settings: Any) -> FakeApi:  # noqa: ANN401 - the attributes of FakeApi
    return FakeApi(owned(name="old", compute_nodes=2), **settings)


@table(
    {
        **{
            f"rename, {jobs} jobs": Case(
                busy(),
                renamed(),
                "FAILED",
                ("rename to new deletes the cluster old, and " + said,),
                (),
                aws=FakeAws(jobs=jobs),
            )
            for jobs, said in ((3, "3 jobs run. Nothing was touched"), (None, "whether jobs run could not"))
        },
        "rename, no nodes": Case(FakeApi(owned(name="old")), renamed(), changing=("create new",)),
        "rename, no jobs": Case(busy(), renamed(), changing=("create new",), aws=FakeAws(jobs=0)),
        "rename, jobs may be killed": Case(
            busy(), renamed(RunningJobs="may-be-killed"), changing=("create new",), aws=FakeAws(jobs=3)
        ),
        "rename, 504": Case(
            busy(faults={"create": [ApiUnknownError("504")]}),
            renamed(),
            changing=("create new",) * 2,
            aws=FakeAws(jobs=0),
        ),
        "clean-up, jobs started meanwhile": Case(
            busy(),
            DELETE_OLD,
            "FAILED",
            ("removed the cluster old from the stack, and 1 job runs", "pcluster delete-cluster --cluster-name old"),
            (),
            polls=55 * 3,
            aws=FakeAws(stack=CLEAN_UP, jobs=1),
        ),
        "clean-up, stack status unknown": Case(
            busy(), DELETE_OLD, "FAILED", changing=(), aws=FakeAws(stack=None, jobs=1)
        ),
        "removed from the stack": Case(
            busy(),
            events.delete(OLD, own_id("old")),
            "FAILED",
            changing=(),
            aws=FakeAws(stack="UPDATE_IN_PROGRESS", jobs=1),
        ),
        "clean-up, no jobs": Case(busy(), DELETE_OLD, changing=("delete old",), aws=FakeAws(stack=CLEAN_UP, jobs=0)),
        "clean-up after a rollback": Case(
            busy(),
            DELETE_OLD,
            changing=("delete old",),
            aws=FakeAws(stack=f"{ROLLING_BACK[:15]}_COMPLETE_CLEANUP", jobs=1),
        ),
        "the stack is deleted": Case(
            busy(), DELETE_OLD, changing=("delete old",), aws=FakeAws(stack="DELETE_IN_PROGRESS", jobs=1)
        ),
    }
)
def test_the_jobs_of_the_old_cluster_are_protected(case: Case) -> None:
    case.check()


def test_a_rename_to_a_name_that_is_taken_keeps_both_clusters() -> None:
    api = FakeApi(owned(name="old"), foreign("new"))
    Case(api, events.update(NEW, OLD), "FAILED", physical_id=own_id("old")).check()
    Case(api, events.update(OLD, NEW, own_id("old")), changing=(), physical_id=own_id("old")).check()


def test_the_rollback_of_a_failed_rename_deletes_what_the_rename_left() -> None:
    api = FakeApi(owned(name="old"), outcomes={"CREATE_IN_PROGRESS": "ROLLBACK_IN_PROGRESS"})
    Case(api, events.update(NEW, OLD), "FAILED", physical_id=own_id("old")).check()
    changing = ("create new", "delete new")
    Case(api, events.update(OLD, NEW, own_id("old")), changing=changing, physical_id=own_id("old")).check()


@table(
    {
        "tried again": Case(
            FakeApi(
                owned(name="old"),
                owned(name="new"),
                faults={"delete": [ApiUnknownError("ConnectionResetError"), ApiError(429, "Too Many Requests")]},
            ),
            events.update(OLD, NEW, own_id("old")),
            changing=("delete new",) * 3,
            physical_id=own_id("old"),
        ),
        "left behind": Case(
            FakeApi(owned(name="old"), owned(name="new"), faults={"delete": [ApiError(400, "no")] * 20}),
            events.update(OLD, NEW, own_id("old")),
            says=("cluster new, left by a failed rename, could not be deleted",),
            physical_id=own_id("old"),
        ),
        "rename had succeeded": Case(
            FakeApi(owned(name="old"), owned(name="new")),
            events.update(OLD, NEW, own_id("new")),
            changing=(),
            physical_id=own_id("old"),
        ),
        "id of CloudFormation": Case(
            FakeApi(owned(name="old")),
            events.update(NEW, OLD, "local-cluster-1ABCDEF"),
            changing=("create new",),
            physical_id=own_id("new"),
        ),
    }
)
def test_the_way_back_of_a_rename(case: Case) -> None:
    case.check()


def frozen(**others: str) -> dict[str, Any]:
    """The properties of a predecessor: its successor's settings and version, and that it is kept."""
    return {**properties(max_count=8, ApiVersion="3.17.0", Frozen="true"), **others}


def newer(*clusters: Cluster) -> FakeApi:
    return FakeApi(*clusters, version="3.17.0", shown_version="3.17.0")


@table(
    {
        "back, in a rollback": Case(
            newer(owned("UPDATE_COMPLETE")),
            events.update(SMALL, frozen()),
            changing=(),
            aws=FakeAws(stack=ROLLING_BACK),
        ),
        "back for good": Case(
            FakeApi(owned("UPDATE_COMPLETE")), events.update(LARGE, frozen()), changing=("update local",)
        ),
        "taken out": Case(newer(owned("UPDATE_COMPLETE")), events.delete(frozen()), changing=("delete local",)),
        "never made": Case(
            newer(), events.create(frozen()), "FAILED", ("cluster.predecessor",), (), physical_id="not-created/local"
        ),
        "not ours": Case(newer(foreign("local")), events.create(frozen()), "FAILED", ("cluster.predecessor",), ()),
        "gone": Case(newer(), events.update(frozen(), SMALL), says=("nothing was made",), changing=()),
    }
)
def test_a_predecessor(case: Case) -> None:
    case.check()


def test_a_predecessor_is_only_described() -> None:
    api = newer(owned("UPDATE_COMPLETE", fleet="STOPPED"))
    verdict = Case(api, events.update(frozen(), SMALL), says=("left as it is",), physical_id=own_id("local")).check()
    assert verdict.data["Version"] == "3.16.1" and {call for call, _ in api.requests} == {"describe"}
