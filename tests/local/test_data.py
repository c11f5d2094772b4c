"""Data sets against the emulated S3 through a proxy that plants faults; awscli looks at the result."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from rich.console import Console

from local.emulator import launch
from ops.data import exports, manifest, store
from ops.data.datasets import DataSets
from ops.data.links import Link
from ops.data.manifest import MANIFEST, PART_SUFFIX
from ops.data.store import Store
from ops.preflight.aws import Denied
from ops.problem import Problem
from tests.jobs.conftest import TRAINING, load_module
from tests.local.s3_faults import Fault, Proxy, proxy_to

ROOT = Path(__file__).parents[2]
BUCKET, MIB = "data-sets", 1 << 20
BIG = 12 * MIB + 7
"""Three parts of at least 5 MiB, the least that S3 allows."""

pytestmark = pytest.mark.e2e
Client = Any
"""A boto3 client."""


@pytest.fixture(scope="module")
def s3(aws: boto3.Session, emulator: launch.Emulator) -> Client:
    untyped: Any = aws
    client = untyped.client("s3", endpoint_url=emulator.endpoint)
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": emulator.region})
    return client


@pytest.fixture
def proxy(emulator: launch.Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(store, "_LONGEST_PAUSE_S", 0.05)
    with proxy_to(emulator.endpoint) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        yield running


@pytest.fixture
def make(aws: boto3.Session, s3: object, proxy: Proxy, request: pytest.FixtureRequest) -> Callable[[], DataSets]:  # noqa: ARG001
    """Data sets under a prefix of the test's own."""
    link = Link("/fsx/data", BUCKET, f"{request.node.name.replace('[', '-').replace(']', '')}/", True, False)
    return lambda: DataSets(Store(aws, BUCKET), link, Console(file=io.StringIO()), workers=4, part_mib=5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "corpus"
    (made / "deep").mkdir(parents=True)
    (made / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    (made / "deep/big.bin").write_bytes(os.urandom(BIG))
    (made / "empty").touch()
    return made


def test_pushed_sets_are_verified_and_pulled(
    make: Callable[[], DataSets], folder: Path, tmp_path: Path, emulator: launch.Emulator, proxy: Proxy
) -> None:
    sets = make()
    made = sets.push("corpus", folder)
    uploaded = proxy.seen("^PUT")
    assert proxy.seen("partNumber") == 3
    assert sets.push("corpus", folder) == made
    assert proxy.seen("^PUT") == uploaded, "what is there already was sent again"
    assert sets.verify("corpus") == sets.verify("corpus", folder) == []
    assert [row[:4] for row in sets.known()] == [("corpus", "complete", "3", "12.6 MB")]
    assert list(sets.sample("corpus", None, 1))[1:] == ['{"text": "one"}']
    sets.pull("corpus", tmp_path / "copy")
    assert (tmp_path / "copy/deep/big.bin").read_bytes() == (folder / "deep/big.bin").read_bytes()
    # The genuine AWS CLI sees the checksum of the whole object, which S3 and not the client keeps.
    key = f"{sets.link.prefix}corpus/deep/big.bin"
    line = f"s3api head-object --bucket {BUCKET} --key {key} --checksum-mode ENABLED --output json"
    env = {**emulator.env(), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [str(ROOT / ".venv/bin/aws"), *line.split()], env=env, capture_output=True, text=True, check=True
    )
    head = json.loads(done.stdout)
    assert (head["ChecksumType"], head["ChecksumCRC64NVME"]) == ("FULL_OBJECT", made.files["deep/big.bin"].crc64nvme)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(make: Callable[[], DataSets], folder: Path, terminal: bool) -> None:
    out = io.StringIO()
    replace(make(), console=Console(file=out, force_terminal=terminal, highlight=False, width=120)).push(
        "corpus", folder
    )
    shown = "push corpus" in out.getvalue() and "12.6/12.6 MB" in out.getvalue() and "0:00:00" in out.getvalue()
    assert shown == terminal
    assert "12.6 MB in s3://" in out.getvalue()


def test_s3_refuses_a_wrong_checksum_of_the_whole_object(s3: Client) -> None:
    created = s3.create_multipart_upload(Bucket=BUCKET, Key="wrong", ChecksumAlgorithm="CRC64NVME")
    assert created["ChecksumType"] == "FULL_OBJECT"
    upload = {"Bucket": BUCKET, "Key": "wrong", "UploadId": created["UploadId"]}
    part = s3.upload_part(**upload, PartNumber=1, Body=b"123456789", ChecksumAlgorithm="CRC64NVME")
    # The check value of CRC-64/NVME: https://reveng.sourceforge.io/crc-catalogue/all.htm
    assert part["ChecksumCRC64NVME"] == manifest.crc_text(0xAE8B14860A799888)
    parts = {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}, "ChecksumType": "FULL_OBJECT"}
    with pytest.raises(ClientError, match="BadDigest"):
        s3.complete_multipart_upload(**upload, **parts, ChecksumCRC64NVME=manifest.crc64nvme(b"other"))
    done = s3.complete_multipart_upload(**upload, **parts, ChecksumCRC64NVME=part["ChecksumCRC64NVME"])
    assert done["ChecksumCRC64NVME"] == part["ChecksumCRC64NVME"]


@pytest.mark.parametrize("kind", ["corrupt", "reset", "503 SlowDown", "400 IncompleteBody", "500 InternalError"])
def test_faults_on_the_way_up_are_survived(make: Callable[[], DataSets], folder: Path, proxy: Proxy, kind: str) -> None:
    proxy.faults = [
        Fault("^PUT .*partNumber=2", kind, 3),
        Fault("^PUT .*a.jsonl", kind, 3),
        *([] if kind in ("corrupt", "400 IncompleteBody") else [Fault("^(POST|GET|HEAD)", kind, 4)]),
    ]
    sets = make()
    sets.push("corpus", folder)
    assert not any(fault.times for fault in proxy.faults)
    assert sets.verify("corpus") == []


@pytest.mark.parametrize("kind", ["corrupt", "truncate", "reset", "503 SlowDown"])
def test_faults_on_the_way_down_are_survived(
    make: Callable[[], DataSets], folder: Path, proxy: Proxy, kind: str, tmp_path: Path
) -> None:
    sets = make()
    sets.push("corpus", folder)
    # A corrupt answer costs the whole file a second attempt: S3 has no checksum of a range.
    proxy.faults = [
        Fault("^GET .*big.bin", kind, 1 if kind == "corrupt" else 3),
        Fault("^GET .*dataset.json", kind, 2),
    ]
    sets.pull("corpus", tmp_path / "copy")
    assert not any(fault.times for fault in proxy.faults)
    assert sets.verify("corpus", tmp_path / "copy") == []
    assert not list((tmp_path / "copy").rglob(f"*{PART_SUFFIX}"))


def test_a_refused_connection_is_tried_again(
    make: Callable[[], DataSets], folder: Path, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets, pauses = make(), list[float]()

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            proxy.listen()

    monkeypatch.setattr(sets.store.stop, "wait", wait)
    proxy.close()
    sets.push("corpus", folder)
    assert len(pauses) == 2


def test_an_object_whose_answer_was_lost_is_compared(
    make: Callable[[], DataSets], folder: Path, proxy: Proxy, s3: Client
) -> None:
    """The second attempt meets the object of the first; an object of another program stays."""
    sets = make()
    proxy.faults = [Fault("^POST .*uploadId", "lost", 2), Fault("^PUT .*a.jsonl", "lost", 2)]
    proxy.faults.append(Fault("^POST .*uploadId", "404 NoSuchUpload"))
    sets.push("corpus", folder)
    assert not any(fault.times for fault in proxy.faults)
    assert sets.verify("corpus") == []
    key = f"{sets.link.prefix}other/a.jsonl"
    proxy.faults = [Fault("^PUT .*other/a.jsonl", lambda: s3.put_object(Bucket=BUCKET, Key=key, Body=b"theirs"))]
    with pytest.raises(Problem, match=r"a.jsonl is not what was sent.*Another program writes it"):
        sets.push("other", folder)
    assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"theirs"


def test_a_replacement_that_ended_early_is_refused_and_finished(
    make: Callable[[], DataSets], folder: Path, proxy: Proxy, tmp_path: Path, s3: Client
) -> None:
    make().push("corpus", folder)
    (folder / "a.jsonl").write_text("other")
    (folder / "empty").write_text("full")
    proxy.faults = [Fault("^PUT .*/empty", "403 AccessDenied", 9)]
    with pytest.raises(Denied):
        make().push("corpus", folder, replace=True)
    sets = make()
    assert ["the data set is being replaced" in row[1] for row in sets.known()] == [True]
    proxy.faults.clear()
    for text in (None, b"{"):
        if text:
            s3.put_object(Bucket=BUCKET, Key=f"{sets.link.prefix}corpus/{MANIFEST}", Body=text)
        with pytest.raises(Problem, match="--replace"):
            make().pull("corpus", tmp_path / "copy")
        with pytest.raises(Problem, match="--replace"):
            make().push("corpus", folder)
        sets = make()
        sets.push("corpus", folder, replace=True)
        assert sets.verify("corpus") == []


def test_a_killed_push_goes_on_with_the_missing_parts(
    make: Callable[[], DataSets], folder: Path, proxy: Proxy, emulator: launch.Emulator
) -> None:
    sets = make()
    program = (
        "import boto3, io, sys; from pathlib import Path; from rich.console import Console\n"
        "from ops.data.datasets import DataSets; from ops.data.links import Link; from ops.data.store import Store\n"
        f"link = Link('/fsx/data', {BUCKET!r}, {sets.link.prefix!r}, True, False)\n"
        f"DataSets(Store(boto3.Session(), {BUCKET!r}), link, Console(), 1, 5).push('corpus', Path({str(folder)!r}))\n"
    )
    env = {**emulator.child_environment(), "AWS_ENDPOINT_URL": proxy.endpoint}
    running = subprocess.Popen([sys.executable, "-c", program], env=env, cwd=ROOT)
    proxy.faults = [Fault("^PUT .*partNumber=3", running.kill)]
    assert running.wait(120) == -9
    assert [row[1] for row in sets.known()] == ["no manifest: not a data set, or its push is not finished"]
    for what in (
        sets.verify,
        lambda name: sets.pull(name, folder / "x"),
        lambda name: list(sets.sample(name, None, 1)),
    ):
        with pytest.raises(Problem, match="has no manifest: no data set of this name, or its push is not finished"):
            what("corpus")
    # The third part may have arrived although its sender is dead; the first two must not be sent again.
    proxy.requests.clear()
    make().push("corpus", folder)
    assert proxy.seen("partNumber=[12]") == 0
    assert proxy.seen("uploads") == 1, "no second multipart upload: one listing of them"
    assert sets.verify("corpus") == []


def test_an_unfinished_upload_of_another_program_does_no_harm(
    make: Callable[[], DataSets], folder: Path, proxy: Proxy, s3: Client
) -> None:
    sets = make()
    key = {"Bucket": BUCKET, "Key": f"{sets.link.prefix}corpus/deep/big.bin"}
    upload = s3.create_multipart_upload(**key, ChecksumAlgorithm="CRC64NVME")["UploadId"]
    s3.upload_part(**key, UploadId=upload, PartNumber=1, Body=b"x" * MIB, ChecksumAlgorithm="CRC64NVME")
    none = s3.create_multipart_upload(**key)["UploadId"]
    sets.push("corpus", folder)
    assert none in {one["UploadId"] for one in s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]}
    assert proxy.seen("partNumber") == 3, "parts of less than 5 MiB, which S3 refuses at the end"
    assert sets.verify("corpus") == []


def test_an_interrupted_pull_goes_on(make: Callable[[], DataSets], folder: Path, proxy: Proxy, tmp_path: Path) -> None:
    sets = make()
    sets.push("corpus", folder)
    copy = tmp_path / "copy"
    proxy.faults = [Fault("^GET .*big.bin", "403 AccessDenied", 3)]
    with pytest.raises(Denied, match="s3:GetObject on s3://data-sets is not allowed"):
        sets.pull("corpus", copy)
    assert not (copy / "deep/big.bin").exists()
    with (copy / f"deep/big.bin{PART_SUFFIX}").open("wb") as part:
        part.write((folder / "deep/big.bin").read_bytes()[: 11 * MIB])
    proxy.faults.clear()
    proxy.requests.clear()
    make().pull("corpus", copy)
    assert proxy.seen("GET .*big.bin") == 1, "more than the missing bytes were read"
    assert make().verify("corpus", copy) == []


def test_a_file_that_changes_during_the_push_is_refused(
    make: Callable[[], DataSets], folder: Path, proxy: Proxy
) -> None:
    def write() -> None:
        with (folder / "deep/big.bin").open("ab") as file:
            file.write(b"more")

    proxy.faults = [Fault("^PUT .*partNumber=1", write)]
    with pytest.raises(Problem, match=r"big.bin changed while it was read: 12582919 bytes before, 12582923 now"):
        make().push("corpus", folder)
    sets = make()
    assert [row[1][:11] for row in sets.known()] == ["no manifest"]
    sets.push("corpus", folder)
    assert sets.verify("corpus") == []


def test_damage_in_the_bucket_is_named(make: Callable[[], DataSets], folder: Path, tmp_path: Path, s3: Client) -> None:
    (folder / "gone.txt").write_text("gone")
    (folder / "cut.txt").write_text("longer")
    sets = make()
    sets.push("corpus", folder)
    prefix = f"{sets.link.prefix}corpus/"
    s3.put_object(
        Bucket=BUCKET, Key=f"{prefix}a.jsonl", Body=b'{"text": "one"}\n{"text": "TWO"}\n', ChecksumAlgorithm="CRC64NVME"
    )
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}cut.txt", Body=b"long")
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}empty", Body=b"", ChecksumAlgorithm="CRC32")
    s3.delete_object(Bucket=BUCKET, Key=f"{prefix}gone.txt")
    wrong = sets.verify("corpus")
    assert [line.split(": ")[0] for line in wrong] == ["a.jsonl", "cut.txt", "empty", "gone.txt"]
    assert "CRC64NVME" in wrong[0]
    assert wrong[1:] == [
        "cut.txt: 4 bytes instead of 6",
        "empty: S3 has no CRC64NVME of the whole object; another program wrote it",
        "gone.txt: missing",
    ]
    assert [row[1] for row in sets.known()] == ["2 files missing or of another size"]
    with pytest.raises(Problem, match="is missing or damaged: it is not what the manifest says"):
        sets.pull("corpus", tmp_path / "copy")
    assert not (tmp_path / "copy/a.jsonl").exists()
    (folder / "deep/big.bin").write_bytes(b"x" * BIG)
    (folder / "cut.txt").unlink()
    assert [line.split()[0] for line in make().verify("corpus", folder)] == ["cut.txt:", "deep/big.bin:"]


def test_nothing_is_overwritten_by_surprise(
    make: Callable[[], DataSets], folder: Path, tmp_path: Path, proxy: Proxy
) -> None:
    sets, copy = make(), tmp_path / "copy"
    sets.push("corpus", folder)
    sets.pull("corpus", copy)
    (folder / "a.jsonl").write_text('{"text": "one"}\n{"text": "TWO"}\n')
    with pytest.raises(Problem, match=r"a.jsonl exists with other content .* Nothing was overwritten.*--replace"):
        make().push("corpus", folder)
    (folder / "a.jsonl").write_text("shorter")
    proxy.requests.clear()
    with pytest.raises(Problem, match=r"holds another data set: 1 file differs.*a.jsonl. Nothing was uploaded"):
        make().push("corpus", folder)
    assert not proxy.seen("^PUT|^POST")
    made = make().push("corpus", folder, replace=True)
    for text in ("shorter", '{"text": "one"}\n{"text": "two"}\n'):
        (copy / "a.jsonl").write_text(text[::-1])
        with pytest.raises(Problem, match=r"a.jsonl exists with other content. Nothing was overwritten.*--force"):
            make().pull("corpus", copy)
    make().pull("corpus", copy, force=True)
    assert (copy / "a.jsonl").read_text() == "shorter"
    assert manifest.parse((copy / MANIFEST).read_text(), "copy") == made
    (folder / "a.jsonl").unlink()
    with pytest.raises(Problem, match="1 file differs"):
        make().push("corpus", folder)
    make().push("corpus", folder, replace=True)
    assert make().verify("corpus") == []


def test_a_full_disk_is_named(
    make: Callable[[], DataSets], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets, copy = make(), tmp_path / "copy"
    sets.push("corpus", folder)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
        with pytest.raises(Problem, match=r"1 bytes free, and 12.6 MB of corpus are missing. Nothing was downloaded"):
            sets.pull("corpus", copy)
    assert not copy.exists()
    if os.geteuid():
        pytest.skip("a small file system needs root")
    copy.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(copy)], check=True)
    try:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 40, 0, 1 << 40))
        with pytest.raises(Problem, match=r"big.bin.trainyard-part: no space left on this disk. What arrived is kept"):
            sets.pull("corpus", copy)
        assert (copy / f"deep/big.bin{PART_SUFFIX}").stat().st_size >= 5 * MIB
        assert not (copy / "deep/big.bin").exists()
    finally:
        subprocess.run(["umount", str(copy)], check=True)


def test_bad_input_is_refused_with_advice(
    make: Callable[[], DataSets], folder: Path, proxy: Proxy, aws: boto3.Session
) -> None:
    sets = make()
    (folder.parent / "none").mkdir()
    (folder.parent / "broken").mkdir()
    (folder.parent / "broken/link").symlink_to("nowhere")
    for name, source, text in (
        ("../x", folder, "'../x' is not a name of a data set. Allowed"),
        ("corpus", folder / "a.jsonl", "is not a folder"),
        ("corpus", folder.parent / "none", "has no files"),
        ("corpus", folder.parent / "broken", "not a regular file"),
    ):
        with pytest.raises(Problem, match=text.replace(".", r"\.")):
            sets.push(name, source)
    assert not proxy.requests
    absent = DataSets(Store(aws, "absent"), sets.link, sets.console)
    with pytest.raises(Problem, match="The bucket absent does not exist"):
        absent.push("corpus", folder)
    proxy.faults = [Fault("^PUT .*a.jsonl", "403 AccessDenied", 9)]
    with pytest.raises(Denied, match="s3:PutObject on s3://data-sets is not allowed"):
        make().push("corpus", folder)
    proxy.faults = [Fault("^PUT .*a.jsonl", "503 SlowDown", 1000)]
    with pytest.raises(Problem, match=r"S3 did not answer put_object .*SlowDown.*run the command again"):
        make().push("corpus", folder)
    for text in ("{", "[]", '{"format": 2}', '{"format": 1, "name": "x", "created": "", "files": {"../x": {}}}'):
        with pytest.raises(Problem, match=r"is not the manifest|has format 2"):
            manifest.parse(text, "here")
    with pytest.raises(Problem, match=r"has no file x\. Its files: a\.jsonl"):
        proxy.faults.clear()
        sets = make()
        sets.push("corpus", folder)
        list(sets.sample("corpus", "x", 1))


def test_token_shards_are_shown_as_ids(make: Callable[[], DataSets], tmp_path: Path) -> None:
    shards = tmp_path / "tokens"
    shards.mkdir()
    (shards / "manifest.json").write_text('{"format": 1, "dtype": "uint16"}')
    (shards / "shard-00000.bin").write_bytes(b"".join(number.to_bytes(2, "little") for number in range(40)))
    (shards / "text.gz").write_bytes(b"not compressed")
    (shards / "odd.txt").write_bytes(b"\x1b[2Jodd")
    (shards / "other").mkdir()
    (shards / "other/manifest.json").write_text("{")
    (shards / "other/x.bin").write_bytes(b"text")
    sets = make()
    sets.push("tokens", shards)
    assert list(sets.sample("tokens", "odd.txt", 1))[1:] == ["\ufffd[2Jodd"]
    assert list(sets.sample("tokens", "other/x.bin", 1))[1:] == ["text"]
    with pytest.raises(Problem, match=r"text.gz is not compressed with gzip"):
        list(sets.sample("tokens", "text.gz", 1))
    shown = list(sets.sample("tokens", "shard-00000.bin", 2))
    assert shown[1] == "tokens 0: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"
    assert len(shown) == 3


@pytest.mark.usefixtures("proxy")
def test_an_exported_checkpoint_is_judged_by_its_manifest(s3: Client, aws: boto3.Session, tmp_path: Path) -> None:
    checkpoint = load_module(TRAINING / "checkpoint.py")
    prepared = checkpoint.partial(tmp_path, 100, "7")
    prepared.mkdir()
    (prepared / "weights").write_bytes(b"w" * 1000)
    (prepared / "state").write_bytes(b"s" * 10)
    files = {name: checkpoint.sync_and_hash(prepared / name) for name in ("weights", "state")}
    made = checkpoint.publish(prepared, tmp_path / checkpoint.name_of(100), files, step=100, final=True)
    links = [Link("/fsx/checkpoints", BUCKET, "exports/", False, True), Link("/fsx/data", BUCKET, "data/", True, False)]
    bucket, prefix = exports.located("/fsx/checkpoints/run/step-00000100/", links)
    assert (bucket, prefix) == (BUCKET, "exports/run/step-00000100/")
    assert exports.located(f"s3://{BUCKET}/final/x", []) == (BUCKET, "final/x/")
    with pytest.raises(Problem, match=r"no folder that is exported to S3. Exported are: /fsx/checkpoints"):
        exports.located("/fsx/data/x", links)
    found = Store(aws, BUCKET)
    assert exports.missing(found, prefix, read=False)[1] == [
        "manifest.json: missing, and it is written last; 0 objects are there"
    ]
    for name in ("manifest.json", "weights"):
        s3.put_object(Bucket=BUCKET, Key=prefix + name, Body=(made.path / name).read_bytes())
    assert exports.missing(found, prefix, read=False)[1] == ["state: missing"]
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}state", Body=b"S" * 10)
    what, wrong = exports.missing(found, prefix, read=False)
    assert (wrong, what.endswith("step 100, final, 2 files")) == ([], True)
    assert [line.split()[:2] for line in exports.missing(found, prefix, read=True)[1]] == [["state:", "SHA-256"]]
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}state", Body=b"s" * 10)
    assert exports.missing(found, prefix, read=True)[1] == []


@pytest.mark.usefixtures("proxy")
def test_a_sweep_deletes_old_temporary_objects_only(s3: Client, aws: boto3.Session) -> None:
    temporary = [
        "sweep/run/.partial-step-00000100-12/weights",
        "sweep/run/.removed-step-00000100-9/a/b",
        "sweep/run/.tmp-job-7/attempts",
        "sweep/corpus/x.trainyard-part",
    ]
    kept = [
        "sweep/imported/.tmp-job-7/x",
        "sweep/run/step-00000100/weights",
        "sweep/.partial-notes",
        "sweep/data/tmp-job-7/x",
    ]
    for key in temporary + kept:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    s3.create_multipart_upload(Bucket=BUCKET, Key="sweep/unfinished")

    def there() -> set[str]:
        listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="sweep/")["Contents"]
        uploads = s3.list_multipart_uploads(Bucket=BUCKET, Prefix="sweep/").get("Uploads", [])
        return {one["Key"] for one in (*listed, *uploads)}

    before, stores, links = there(), [Store(aws, BUCKET)], [Link("/fsx/x", BUCKET, "sweep/imported/", True, True)]
    assert list(exports.sweep(stores, links, 1, delete=True)) == []
    time.sleep(1.1)  # S3's times are whole seconds
    named = [line for line in exports.sweep(stores, links, 0, delete=False) if "sweep/" in line]
    assert len(named) == len(temporary) + 1
    assert there() == before
    list(exports.sweep(stores, links, 0, delete=True))
    assert there() == set(kept)
