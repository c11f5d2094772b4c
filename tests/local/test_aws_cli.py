"""The laboratory's AWS CLI against awscli from PyPI, which asks the emulated S3."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.emulator import launch

ROOT = Path(__file__).parents[2]
STAND_IN = ROOT / "local/slurm/root/all/usr/local/bin/aws"

pytestmark = pytest.mark.e2e


def run(program: list[str], folder: Path, words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*program, *words.split()], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_laboratory_s_aws_answers_as_awscli(emulator: launch.Emulator, tmp_path: Path) -> None:
    env = emulator.env() | {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    lab = tmp_path / "lab"
    (lab / "s3/data").mkdir(parents=True)
    (tmp_path / "aws").write_text(STAND_IN.read_text().replace("/run/lab", str(lab)))
    programs = {"awscli": [str(ROOT / ".venv/bin/aws")], "laboratory": [sys.executable, str(tmp_path / "aws")]}
    bucket = "s3api create-bucket --bucket data --create-bucket-configuration LocationConstraint=us-west-2"
    assert run(programs["awscli"], tmp_path, bucket, env).returncode == 0

    (lab / "secrets").mkdir()
    (lab / "secrets/accounting").write_text("word\n")
    secret = "secretsmanager create-secret --name accounting --secret-string word"
    assert run(programs["awscli"], tmp_path, secret, env).returncode == 0
    text = f"--region {emulator.region} --query SecretString --output text"

    answers: dict[str, list[object]] = {}
    for name, program in programs.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "one").write_text("one\n")
        (folder / "tree/deep").mkdir(parents=True)
        for path in ("tree/two", "tree/manifest.json", "tree/deep/manifest.json"):
            (folder / path).write_text(path)

        def ask(words: str, program: list[str] = program, folder: Path = folder) -> tuple[int, str, str]:
            done = run(program, folder, words, env)
            return done.returncode, done.stdout, done.stderr

        answers[name] = [
            ask("s3 cp --only-show-errors --checksum-algorithm CRC32 one s3://data/folder/one"),
            ask("s3 cp --only-show-errors --cli-connect-timeout 10 --cli-read-timeout 60 s3://data/folder/one two"),
            (folder / "two").read_text(),
            ask("s3 cp --no-progress one s3://data/folder/"),
            ask("s3 cp --no-progress s3://data/folder/one ."),
            ask("s3 cp --only-show-errors s3://data/folder/one -"),
            ask("s3 cp --only-show-errors s3://data/missing two"),
            ask("s3 cp --only-show-errors s3://missing/one two"),
            ask("s3 cp --only-show-errors missing s3://data/one"),
            ask("s3 cp --only-show-errors one s3://missing/one"),
            ask("s3 cp --only-show-errors --recursive --exclude manifest.json tree s3://data/tree"),
            ask("s3 cp --only-show-errors --recursive missing s3://data/tree"),
            ask("s3 cp --only-show-errors s3://data/tree/two -"),
            ask("s3 cp --only-show-errors s3://data/tree/manifest.json -"),
            ask("s3 cp --only-show-errors s3://data/tree/deep/manifest.json -"),
            ask(f"secretsmanager get-secret-value --secret-id accounting {text}"),
            ask(f"secretsmanager get-secret-value --secret-id missing {text}"),
        ]
    for real, simulated in zip(answers["awscli"], answers["laboratory"], strict=True):
        assert simulated == real


def test_s3_of_the_validation_with_awscli(emulator: launch.Emulator, tmp_path: Path) -> None:
    """The check of S3 (s3_speed.py) writes, reads and reports errors with the real CLI."""
    path = f"{ROOT / '.venv/bin'}:/usr/bin:/bin"
    env = emulator.env() | {"AWS_MAX_ATTEMPTS": "1", "HOME": str(tmp_path), "PATH": path}
    place = f"--create-bucket-configuration LocationConstraint={emulator.region}"
    aws = run([str(ROOT / ".venv/bin/aws")], tmp_path, f"s3api create-bucket --bucket checks {place}", env)
    assert aws.returncode == 0, aws.stderr
    program = [sys.executable, str(ROOT / "cluster_assets/jobs/lib/s3_speed.py")]

    def measured(bucket: str, **more: str) -> dict[str, Any]:
        words = f"measure s3://{bucket}/validation/7/n1 --region {emulator.region} --procs 2 --mib 9"
        found: dict[str, Any] = json.loads(run(program, tmp_path, words, env | more).stdout)
        return found

    found = measured("checks")
    assert found.keys() == {"write", "read"} and min(found.values()) > 0
    assert "write: upload failed: FILE to OBJECT An error occurred (NoSuchBucket)" in measured("no")["error"]
    refused = measured("checks", AWS_ENDPOINT_URL="http://127.0.0.1:9")["error"]
    assert 'Could not connect to the endpoint URL: "http://127.0.0.1:9/checks/OBJECT' in refused


@pytest.mark.parametrize("words", ["s3 cp one two", "s3 rb s3://data", "s3 ls", "ec2 run-instances"])
def test_the_laboratory_s_aws_refuses_what_it_does_not_simulate(tmp_path: Path, words: str) -> None:
    assert run([sys.executable, str(STAND_IN)], tmp_path, words, {}).returncode == 252
