"""The shipped environments synthesize to tests/golden/. After a wanted change: `make golden`, and review the diff."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster_config.references import environments
from tests.golden import files

ENVIRONMENTS = environments()
LIMIT_LINES = 20_000

# Each environment is synthesized once, by one worker.
pytestmark = pytest.mark.xdist_group("golden")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environment_is_as_reviewed(name: str, tmp_path: Path) -> None:
    complaint = files.complaint(name, files.kept(name), files.made(name, ENVIRONMENTS[name], tmp_path))
    if complaint:
        pytest.fail(complaint, pytrace=False)


def test_pipelines_are_as_reviewed(tmp_path: Path) -> None:
    complaint = files.complaint("pipelines", files.kept("pipelines"), files.made_pipelines(tmp_path))
    if complaint:
        pytest.fail(complaint, pytrace=False)


def test_no_folder_is_left_over_and_all_stay_small() -> None:
    folders = sorted(path.name for path in files.FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__")
    assert folders == sorted([*ENVIRONMENTS, "pipelines"])
    lines = sum(len(one.read_bytes().splitlines()) for one in files.FOLDER.glob("*/*.*") if one.parent.name in folders)
    assert lines < LIMIT_LINES


def test_no_hash_of_an_asset_is_kept() -> None:
    for name in files.FULL:
        text = "".join(files.kept(name).values())
        assert "<sha256>" in text
        assert files._SHA256.search(text) is None


def test_a_difference_reads() -> None:
    kept = files.kept("local")
    template = json.loads(kept["storage.template.json"])
    logical_id, resource = next(
        (key, item) for key, item in template["Resources"].items() if item["Type"] == "AWS::FSx::FileSystem"
    )
    resource["Properties"]["StorageCapacity"] = 7
    complaint = files.complaint("local", kept, {**kept, "storage.template.json": json.dumps(template)})
    lines = complaint.splitlines()
    assert len(lines) == 3
    assert f"storage.template.json: Resources.{logical_id}.Properties.StorageCapacity: " in lines[1]
    assert lines[1].endswith("-> 7")
    assert "make golden" in lines[2]


def test_many_differences_stay_a_page() -> None:
    many = {"a.template.json": json.dumps({str(number): number for number in range(500)})}
    complaint = files.complaint("local", {"a.template.json": "{}"}, many)
    assert "and 460 more" in complaint
    assert len(complaint.splitlines()) == files.SHOWN + 3


def test_a_file_too_many_or_missing_is_named() -> None:
    assert "b.yaml: none -> a file" in files.complaint("local", {}, {"b.yaml": "a: 1"})
    assert "b.yaml: a file -> none" in files.complaint("local", {"b.yaml": "a: 1"}, {})
