"""The support bundle: secrets planted in every source are in no part, and no failure of a part ends it."""

from __future__ import annotations

import stat
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from cli import main
from ops import support_bundle
from ops.problem import Problem
from ops.redaction import redact
from tests.cluster_config.builder import environment

PEM = [f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{n:02d}" + "Ab3/" * 8 for n in range(8)] + ["c2hvcnQgZW5k"]
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SECRETS = {
    "AKIAIOSFODNN7EXAMPLE": "key AKIAIOSFODNN7EXAMPLE was used",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "FwoGZXIvYXdzEBYaDJ": '{"aws_session_token": "FwoGZXIvYXdzEBYaDJ//planted=="}',
    "SessionPlanted": "export AWS_SESSION_TOKEN=SessionPlanted+/x",
    "T000/B000/XXXXplanted": "posting to https://hooks.slack.com/services/T000/B000/XXXXplanted failed",
    "IncomingWebhook/planted": "https://acme.webhook.office.com/webhookb2/IncomingWebhook/planted",
    "hf_abcdefghijklmnopqrst": "HF: hf_abcdefghijklmnopqrstuvwx",
    "hunter2": "mysql --user root password=hunter2, retry",
    "quoted pass word": 'db_password: "quoted pass word"',
    "onthecommandline": "login --registry-token onthecommandline now",
    "opaquebearer123": "Authorization: Bearer opaquebearer123",
    "QmFzaWNQbGFudGVk": "authorization: Basic QmFzaWNQbGFudGVk",
    JWT: f"cookie {JWT} end",
    "5d672d79a15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7": (
        "GET https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature="
        "5d672d79a15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7&x=1"
    ),
    "urlpass": "clone https://user:urlpass@example.com/repo.git",
    "grace.hopper@example.com": "mail to grace.hopper@example.com",
    "ghp_0123456789abcdefABCDEF": "remote ghp_0123456789abcdefABCDEF0123456789",
    "netrcplanted": "machine 1.dkr.ecr.amazonaws.com login AWS password netrcplanted",
    "ZG9ja2VyOnBsYW50ZWQ": '{"auths": {"x": {"auth": "ZG9ja2VyOnBsYW50ZWQ="}}}',
    "workflows/planted/trig": "https://prod-1.westus.logic.azure.com:443/workflows/planted/trig?sig=a",
    "wandbplanted": "WANDB_API_KEY='wandbplanted'",
    "slurmdbdplanted": "StoragePass=slurmdbdplanted",
    "slurmplanted": "AccountingStoragePass=slurmplanted",
    "jobcompplanted": "JobCompPass=jobcompplanted",
    "mysqlplanted": "export MYSQL_PWD=mysqlplanted",
    "dbpassplanted": "db_pass: dbpassplanted",
    "inastring": '{"line": "{\\"password\\": \\"inastring, and more\\"}"}',
    "withoutanend": 'token: "withoutanend',
    "inablockofyaml": "secret: |\n  first\n  inablockofyaml\nnext: 1",
    "xxxplantedhookxxxx": "https://chat.example.com/hooks/xxxplantedhookxxxx",
}
TEXT = "\n".join(SECRETS.values())
KEY = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *PEM, "-----END RSA PRIVATE KEY-----"])
LOGGED_KEY = "\n".join(f"2026-11-23T10:00:00Z head bootstrap: {line}" for line in KEY.splitlines())
FACTS = (
    "node gpu-dy-p5-1 in 10.0.16.12 is drained: trainyard: gpus: 7 x H100",
    "bundle 0f343b0931126a20f133d67c2b018a3b0f343b0931126a20f133d67c2b018a3b is installed",
    "tokens_per_second=51234.5 training_tokens: 12",
    "arn:aws:cloudformation:us-east-1:123456789012:stack/small-cluster/1a2b",
    "tokenizer: /fsx/models/llama",
    "passed=3 bypass: yes first_passes=2 PWD=/home/ada compass=north is_passthrough: no",
)


def contents(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        found = {}
        for member in tar.getmembers():
            stream = tar.extractfile(member)
            assert stream is not None and member.mode == 0o600
            found[member.name.partition("/")[2]] = stream.read().decode()
        return found


def text_of(text: str) -> Callable[[], str]:
    return lambda: text


def test_planted_secrets_are_in_no_part(tmp_path: Path) -> None:
    names = ("environment.yaml", "stacks.json", "status.txt", "slurm.txt", "logs/bootstrap.log", "deployment/cdk.log")
    parts = {name: text_of("\n".join((TEXT, KEY, *FACTS, LOGGED_KEY, *FACTS))) for name in names}

    def failing() -> str:
        raise RuntimeError(f"refused: {TEXT}\n{KEY}")

    target = tmp_path / "bundle.tar.gz"
    [failed] = support_bundle.write(target, environment(), {**parts, "cluster.json": failing}, 1_795_000_000)
    found = contents(target)
    assert list(found) == sorted([*names, "README.txt"])
    for name, text in [*found.items(), ("failure", failed)]:
        assert [secret for secret in (*SECRETS, *PEM) if secret in text] == [], name
    for name in names:
        assert [fact for fact in FACTS if found[name].count(fact) != 2] == []
        assert "aws_secret_access_key = [named secret left out]" in found[name]
    assert "cluster.json: RuntimeError: refused: " in found["README.txt"]
    assert f"private key: {2 * len(names) + 1}" in found["README.txt"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with pytest.raises(Problem, match=r"exists\. Give another file"):
        support_bundle.write(target, environment(), parts, 0)


def test_a_key_that_was_cut_off() -> None:
    for text in (KEY.rpartition("\n")[0], "\n".join(PEM[:-1])):
        left = redact(f"before\n{text}", Counter())
        assert left.startswith("before\n")
        assert [line for line in PEM if line in left and len(line) >= 60] == []
    assert redact(KEY.rpartition("\n")[0], Counter()) == "[private key left out]"


@pytest.mark.parametrize("text", ["-", "a", "secret", "eyJ", "A/", "://a:", '"', "x@y.", "--token "])
def test_a_long_line_is_read_in_linear_time(text: str) -> None:
    """Eight times the length takes about eight times as long; in the square of the length, 64 times."""

    def cost(length: int) -> float:
        started = time.process_time()
        assert redact(text * (length // len(text)), Counter())
        return time.process_time() - started

    assert cost(200_000) < 30 * max(cost(25_000), 0.01)


def test_a_part_is_cut_at_its_beginning(tmp_path: Path) -> None:
    text = "first" + "x\n" * support_bundle.MOST_OF_A_PART
    support_bundle.write(tmp_path / "b.tar.gz", environment(), {"logs/slurm.log": text_of(text + "last")}, 0)
    found = contents(tmp_path / "b.tar.gz")
    assert len(found["logs/slurm.log"]) == support_bundle.MOST_OF_A_PART and found["logs/slurm.log"].endswith("last")
    assert "logs/slurm.log: its beginning; the last 4000000 " in found["README.txt"]


def test_the_file_is_checked_before_anything_is_collected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "b.tar.gz"
    there.touch()
    for target, says in ((there, "exists. Give another"), (tmp_path / "none" / "b.tar.gz", "none is not a folder")):
        assert main(["support-bundle", "local", "--state", str(tmp_path), "--output", str(target)]) == 4
        assert says in capsys.readouterr().err


def test_with_a_wrong_profile_there_is_still_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nosuchprofile")
    target = tmp_path / "b.tar.gz"
    assert main(["support-bundle", "local", "--on", "aws", "--state", str(tmp_path), "--output", str(target)]) == 0
    assert "Not collected: account: ProfileNotFound: The config profile (nosuchprofile)" in capsys.readouterr().err
    assert "environment.yaml" in contents(target)


def test_without_an_account_there_is_still_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cdk.log").write_text(f"deploying\n{TEXT}\n")
    target = tmp_path / "bundle.tar.gz"
    monkeypatch.chdir(tmp_path)
    assert main(["support-bundle", "local", "--state", str(tmp_path), "--output", str(target)]) == 0
    said = capsys.readouterr()
    assert f"Wrote {target}" in said.out
    assert "Not collected: account: Problem: Nothing is up for 'local'" in said.err
    found = contents(target)
    assert set(found) == {"README.txt", "environment.yaml", "versions.txt", "deployment/cdk.log"}
    assert "ParallelCluster 3." in found["versions.txt"]
    assert "hunter2" not in found["deployment/cdk.log"]
