"""`trainyard data` on a deployed environment, as docs/data.md shows it; what its permissions are for."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from unittest import mock

import pytest

from cli import main
from ops.data import ACTIONS
from ops.data.manifest import MANIFEST
from tests.jobs.conftest import TRAINING, load_module
from tests.ops.deployment.deployed import Deployed

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "data.md").read_text("utf-8")
EXAMPLE = re.compile(r"<!-- example: runs in \S+ -->\n```console\n(.*?)```", re.DOTALL)

pytestmark = pytest.mark.e2e


def test_the_documented_commands_work(
    deployment: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "my-corpus"
    corpus.mkdir()
    (corpus / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n{"text": "three"}\n')
    monkeypatch.chdir(tmp_path)
    s3 = deployment.client("s3")
    names = [one["Name"] for one in s3.list_buckets()["Buckets"]]
    data, checkpoints = (next(name for name in names if part in name) for part in ("bucketsdata", "bucketscheckpoints"))

    def run(line: str) -> tuple[int, str]:
        program, *words = shlex.split(line)
        assert program == ".venv/bin/trainyard"
        words = [str(deployment.local.file) if word == "local" else word for word in words]
        with mock.patch.dict(os.environ):  # the command points this process at the emulator
            status = main([*words, "--state", str(deployment.emulator.state_dir)])
        said = capsys.readouterr()
        return status, said.out + said.err

    pushed, exported, swept = (block.splitlines() for block in EXAMPLE.findall(PAGE))
    said = {line.split()[2] + " --local" * ("--local" in line): run(line) for line in pushed}
    assert [status for status, _ in said.values()] == [0] * 6, said
    assert "1 file, 50 bytes in s3://" in said["push"][1]
    assert "On the cluster: /fsx/data/corpus" in said["push"][1]
    assert re.search(r"corpus +complete +1 +50 bytes", said["list"][1])
    assert said["sample"][1].count('"text"') == 2
    assert (tmp_path / "copy-of-corpus/a.jsonl").read_text() == (corpus / "a.jsonl").read_text()

    checkpoint = load_module(TRAINING / "checkpoint.py")
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared/weights").write_bytes(b"w")
    files = {"weights": checkpoint.sync_and_hash(tmp_path / "prepared/weights")}
    made = checkpoint.publish(tmp_path / "prepared", tmp_path / "step-00000100", files, step=100, final=False)
    status, output = run(exported[0])
    assert status == 1
    assert "manifest.json: missing, and it is written last" in output
    assert "exports new, changed, deleted automatically" in output
    assert "AVAILABLE" in output
    key = "checkpoints/run/step-00000100/"
    for name in ("weights", "manifest.json"):
        s3.put_object(Bucket=checkpoints, Key=key + name, Body=(made.path / name).read_bytes())
    status, output = run(f"{exported[0]} --read")
    assert (status, "step 100, intermediate, 1 files: all arrived; compared names, sizes and SHA-256" in output) == (
        0,
        True,
    )
    for line in swept:
        status, output = run(line)
        assert status == 0
        assert output.startswith("0 temporary files and uploads older than 7 days")
    for name in ("corpus", "absent"):
        s3.delete_object(Bucket=data, Key=f"data/{name}/{MANIFEST}")
        status, output = run(f".venv/bin/trainyard data verify local {name}")
        assert status == 4
        assert "has no manifest: no data set of this name" in output
        assert "Traceback" not in output
    assert json.loads((tmp_path / "copy-of-corpus" / MANIFEST).read_text())["name"] == "corpus"


def test_the_permissions_are_those_of_the_calls() -> None:
    """Each call of the code has its action in the list, and the other way round."""
    code = "\n".join(path.read_text() for path in (ROOT / "ops" / "data").glob("*.py"))
    special = {
        "head_object": "s3:GetObject",
        "list_objects_v2": "s3:ListBucket",
        "list_multipart_uploads": "s3:ListBucketMultipartUploads",
        "list_parts": "s3:ListMultipartUploadParts",
        **dict.fromkeys(("create_multipart_upload", "upload_part", "complete_multipart_upload"), "s3:PutObject"),
    }
    found = set(re.findall(r'\.(?:call|items)\(\s*"(\w+)"', code)) | {"get_object"}
    needed = {special.get(name, "s3:" + "".join(part.title() for part in name.split("_"))) for name in found}
    others = {"cloudformation:ListStackResources", "fsx:DescribeDataRepositoryAssociations", "sts:GetCallerIdentity"}
    assert needed | others == set(ACTIONS)
