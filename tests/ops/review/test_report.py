"""The report in its formats, and the command's exit status."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from cli import main
from ops.report import json_text, markdown, text
from ops.report.commands import review_report
from ops.review.verdict import Verdict, judge
from tests.ops.review.edits import CLUSTER
from tests.ops.review.synthesis import edited

ROOT = Path(__file__).parents[3]
FASTER = ((r"throughput: 125\b", "throughput: 250"),)

pytestmark = pytest.mark.xdist_group("review-stacks")


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """Another head node, fewer nodes, and a faster file system, which is another one."""
    folder = tmp_path_factory.getbasetemp()
    edits = (*FASTER, *CLUSTER["another head node"].replacements, *CLUSTER["fewer nodes"].replacements)
    return judge("local", "revision main", edited("local", (), folder), edited("local", edits, folder))


def test_text_begins_with_the_data_at_stake_in_red(verdict: Verdict) -> None:
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, color_system="standard", width=200, highlight=False)
    text(review_report(verdict), console)
    first, second, *rest = said.getvalue().splitlines()
    assert first == "\x1b[1;31mDATA AT STAKE\x1b[0m"
    assert second.startswith("\x1b[1;31mFSx FileSystem local-storage-training (storage)\x1b[0m  refused: it cannot")
    plain = "\n".join(rest)
    assert "because of: LustreConfiguration.PerUnitStorageThroughput" in plain
    assert "DESTRUCTIVE" in plain
    assert "    old: m7i.2xlarge\n    new: m7i.4xlarge\n" in plain
    assert "QueueUpdateStrategy TERMINATE" in plain


def test_markdown_is_a_comment_for_a_pull_request(verdict: Verdict) -> None:
    said = markdown(review_report(verdict, "Stack local-cluster\n[~] ```x```"))
    assert said.startswith("### local against revision main\n\n> [!CAUTION]\n> **DESTRUCTIVE: ")
    assert "| `HeadNode.InstanceType` | `m7i.2xlarge` | `m7i.4xlarge` | impossible without a new cluster" in said
    assert "<summary><code>cdk diff</code></summary>" in said
    rows = [line for line in said.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} <= {4, 6}
    assert said.count("```") == 2


def test_json_has_the_exit_status(verdict: Verdict) -> None:
    content = json.loads(json_text(review_report(verdict)))
    assert (content["level"], content["exit"]) == ("destructive", 3)
    keys = {key["key"]: key for key in content["cluster"]["keys"]}
    assert keys["HeadNode.InstanceType"]["needs"] == "new-cluster"
    counts = keys["Scheduling.SlurmQueues[gpu].ComputeResources[p5].MaxCount"]
    assert (counts["needs"], counts["strategies"], counts["old"], counts["new"]) == ("fleet", ["TERMINATE"], 2, 1)
    assert content["data"]


def test_an_unknown_revision_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "local", "--against", "no-such-revision"]) == 4
    error = capsys.readouterr().err
    assert "no-such-revision" in error and "Traceback" not in error


def test_against_another_revision(tmp_path: Path) -> None:
    """This checkout against its last commit, as CI runs it; without credentials, and nothing is left behind."""
    before = worktrees()
    report = tmp_path / "report.json"
    line = [sys.executable, "-m", "cli", "diff", "local", "--against", "HEAD", "--format", "json"]
    result = subprocess.run(
        [*line, "--output", str(report)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode in (0, 1, 2, 3), result.stderr
    content = json.loads(report.read_text("utf-8"))
    assert (content["exit"], content["cluster"]["name"]) == (result.returncode, "local")
    assert worktrees() == before


def worktrees() -> list[str]:
    listing = subprocess.run(["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listing.splitlines()]
