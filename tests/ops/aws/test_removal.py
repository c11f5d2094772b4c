"""`trainyard down --on aws`: it removes the stacks that it announces, whatever the file or an old assembly has."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from rich.console import Console

from ops.aws import removal, stacks
from ops.aws.deployment import Run, Target
from ops.problem import Problem
from tests.constructs.stacks_of import environment

ASKED = "removal=111122223333/eu-central-1/unit"


class Removed(Target):
    """A target that records what it asks of the CDK CLI, which leaves the stacks `left`."""

    asked: list[tuple[str, ...]]
    exist: list[str]
    left: list[str]

    def run(self, *arguments: str) -> Run:
        self.asked.append(arguments)
        self.exist[:] = self.left
        return Run(changed=True, code=0, failures=[])

    @property
    def output(self) -> str:
        return cast("io.StringIO", self.console.file).getvalue()


def down(monkeypatch: pytest.MonkeyPatch, state: Path, *exist: str, left: tuple[str, ...] = ()) -> Removed:
    """What `down` does where these stacks exist and the CDK CLI, which reports no error, leaves some."""
    target = Removed(Path("unit.yaml"), environment(), state, Mock(), Console(file=io.StringIO(), width=200))
    vars(target).update(asked=[], exist=list(exist), left=list(left))

    def stacks_of(*_: object) -> list[dict[str, Any]]:
        return [{"StackName": f"unit-{part}", "StackStatus": "CREATE_COMPLETE"} for part in target.exist]

    for name, stub in (("stacks_of", stacks_of), ("existing", lambda *_: ()), ("require_own", lambda *_: None)):
        monkeypatch.setattr(stacks, name, stub)
    monkeypatch.setattr(removal, "require_account", lambda *_: None)
    monkeypatch.setattr(removal, "template", lambda *_: {})
    removal.down(target, yes=True, delete_data=False)
    return target


@pytest.mark.parametrize("stale", [True, False])
def test_the_stacks_do_not_come_from_the_assembly_or_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stale: bool
) -> None:
    """The file has no accounting, and the state folder may hold the assembly of another environment."""
    if stale:
        (tmp_path / "cdk.out").mkdir()
        (tmp_path / "cdk.out" / "manifest.json").write_text("{}")
    done = down(monkeypatch, tmp_path, "database", "network", "promotion", left=("promotion",))
    assert "Stacks that are removed: unit-database, unit-network\n" in done.output
    output = str(tmp_path / "removal.out")
    assert done.asked == [("destroy", "--all", "--force", "--context", ASKED, "--output", output)]
    assert "Removed." in done.output  # the pipeline's stack stays


def test_stacks_that_are_left_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"still exist: unit-database \(CREATE_COMPLETE\)"):
        down(monkeypatch, tmp_path, "database", "network", left=("database",))
