"""An import that works: its content, its record, when it is skipped and when it is done again."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from local.slurm import Laboratory
from tests.images.conftest import ASSETS, IMAGES, NODE, Importer, replaced
from tests.slurm import registry
from tests.slurm.registry import Image

REPOSITORY = "pytorch-training-custom"


@pytest.fixture(scope="module")
def image(lab: Laboratory) -> Image:
    return registry.push(lab, REPOSITORY, "first", env={"FROM_IMAGE": "some words"}, padding_mib=4)


def test_content_and_record_and_a_second_import_that_is_skipped(
    importer: Importer, lab: Laboratory, image: Image
) -> None:
    result = importer.run(image.uri)
    assert result.returncode == 0, result.stdout
    assert "FROM_IMAGE=some words" in importer.content("etc/environment")
    assert "VERSION_ID=first" in importer.content("etc/os-release")
    path = f"{IMAGES}/{importer.name}.sqsh"
    unpacked = lab.output(
        f"unsquashfs -q -n -d /tmp/unpacked {path} workspace/padding >/dev/null && "
        "stat -c %s /tmp/unpacked/workspace/padding; rm -r /tmp/unpacked"
    )
    assert unpacked == str(4 << 20)
    assert lab.output(["stat", "-c", "%a %U", path]) == "644 ubuntu"
    assert not importer.leftovers()
    words = ["srun", "-n2", "-N2", "-p", "gpu", f"--container-image={path}", "sh", "-c", "echo $FROM_IMAGE"]
    assert lab.output(words).splitlines() == ["some words"] * 2

    record, before = importer.record, importer.image.stat()
    assert record["digest"] == record["manifest"] == image.digest
    assert record["image"] == image.uri
    assert (record["user"], record["host"], record["architecture"]) == ("ubuntu", NODE, "amd64")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["imported"])
    assert record["bytes"] == before.st_size
    assert record["layer_bytes"] > 4 << 20
    again = importer.run(image.uri, node="gpu-dy-p5-2")
    assert again.returncode == 0
    assert f"already has {image.digest}" in again.stdout
    assert importer.image.stat() == before


def test_a_tag_that_moved_is_imported_again(importer: Importer, lab: Laboratory) -> None:
    first = registry.push(lab, REPOSITORY, "moving", env={"VERSION": "1"})
    assert importer.run(first.uri).returncode == 0
    second = registry.push(lab, REPOSITORY, "moving", env={"VERSION": "2"})
    assert second.digest != first.digest
    assert importer.run(second.uri).returncode == 0
    assert "VERSION=2" in importer.content("etc/environment")
    assert importer.record["digest"] == second.digest


def test_by_digest(importer: Importer, lab: Laboratory) -> None:
    first = registry.push(lab, REPOSITORY, "pinned", env={"VERSION": "1"})
    registry.push(lab, REPOSITORY, "pinned", env={"VERSION": "2"})
    uri = f"{first.uri.removesuffix(':pinned')}@{first.digest}"
    result = importer.run(uri)
    assert result.returncode == 0, result.stdout
    assert "VERSION=1" in importer.content("etc/environment")
    assert importer.record["digest"] == first.digest


@pytest.mark.parametrize(
    "change", ["truncate -s -4096 {}.sqsh", "touch {}.sqsh", "rm {}.sqsh", "rm {}.json", "echo no >{}.json"]
)
def test_an_image_that_is_not_what_its_record_says_is_imported_again(
    importer: Importer, lab: Laboratory, image: Image, change: str
) -> None:
    assert importer.run(image.uri).returncode == 0
    lab.run(change.format(f"{IMAGES}/{importer.name}"))
    result = importer.run(image.uri)
    assert result.returncode == 0
    assert "already" not in result.stdout
    lab.run(["unsquashfs", "-s", f"{IMAGES}/{importer.name}.sqsh"])


def push_index(lab: Laboratory, image: Image, architecture: str, tag: str) -> str:
    """Give a tag to an index that names the image for one architecture; returns the index's digest."""
    manifest = "application/vnd.docker.distribution.manifest.v2+json"
    kind = "application/vnd.docker.distribution.manifest.list.v2+json"
    uri = f"https://{lab.plan.registry}/v2/{lab.plan.environment.repository_name(REPOSITORY)}/manifests"
    login = 'curl -sS --fail -u "AWS:$(aws ecr get-login-password)"'
    size = lab.run(f"{login} -H 'Accept: {manifest}' {uri}/{image.digest} | wc -c", node="aws", user="root").stdout
    platform = {"os": "linux", "architecture": architecture}
    entry = {"mediaType": manifest, "size": int(size), "digest": image.digest, "platform": platform}
    index = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [entry]})
    lab.run(
        f"{login} -X PUT -H 'Content-Type: {kind}' --data-binary @- {uri}/{tag}", node="aws", user="root", stdin=index
    )
    return f"sha256:{hashlib.sha256(index.encode()).hexdigest()}"


def test_an_index_of_several_platforms(importer: Importer, lab: Laboratory, image: Image) -> None:
    """What `docker buildx` pushes: the tag names an index, and this processor's manifest is taken from it."""
    uri = f"{lab.plan.repository_uri(REPOSITORY)}:index"
    first = push_index(lab, image, "amd64", "index")
    result = importer.run(uri)
    assert result.returncode == 0, result.stdout
    assert importer.record["digest"] == first
    assert importer.record["manifest"] == image.digest
    push_index(lab, image, "arm64", "arm")
    other = importer.run(f"{lab.plan.repository_uri(REPOSITORY)}:arm")
    assert other.returncode == 66
    assert "only for linux/arm64" in other.stdout


@pytest.mark.parametrize(
    ("compression", "found"), [("zstd", "zstd"), ("lz4", "lz4"), ("lzo", "lzo"), ("gzip", "gzip"), ("none", "lzo")]
)
def test_compression(importer: Importer, lab: Laboratory, image: Image, compression: str, found: str) -> None:
    assert importer.run(image.uri, "--compression", compression).returncode == 0
    assert f"Compression {found}" in lab.output(["unsquashfs", "-s", f"{IMAGES}/{importer.name}.sqsh"])
    assert importer.record["compression"] == compression


def test_the_password_shows_nowhere(importer: Importer, lab: Laboratory, image: Image) -> None:
    """Not in an argument of ours, in the environment of what we start, in the log, or in a file."""
    password = lab.path("/run/lab/ecr-password").read_text().strip()
    spy = """
while :; do
  for p in /proc/[0-9]*; do
    case "$(tr '\\0' ' ' <"$p/cmdline")" in
      skopeo*) ;; # the stand-in's own; Enroot has none
      *) tr '\\0' '\\n' <"$p/cmdline"; tr '\\0' '\\n' <"$p/environ" ;;
    esac
  done 2>/dev/null
  find /scratch/enroot/tmp /shared/containers -type f -size -100k -exec grep -h . {} + 2>/dev/null
done >>/tmp/seen
"""
    node = "gpu-dy-p5-2"
    lab.write("/tmp/spy", spy, node=node, user="root")
    lab.run("setsid bash /tmp/spy </dev/null >/dev/null 2>&1 & echo $! >/tmp/spy.pid", node=node, user="root")
    result = importer.run(image.uri, node=node)
    lab.run('kill -- "-$(cat /tmp/spy.pid)"', node=node, user="root", check=False)
    seen = lab.path("/tmp/seen", node=node).read_text(errors="replace")
    assert result.returncode == 0
    assert "enroot import" in seen.replace("\n", " ")
    assert "machine 000000000000.dkr.ecr" in seen
    assert password not in seen
    assert password not in result.stdout


def test_the_nodes_own_credentials_are_used(importer: Importer, lab: Laboratory, image: Image) -> None:
    """Where Enroot has a line for the host, as from a bootstrap that renews logins, no login of ours is made."""
    password = lab.path("/run/lab/ecr-password").read_text().strip()
    folder = "/home/ubuntu/own-enroot"
    lab.write(
        f"{folder}/.credentials", f"machine {lab.plan.registry} login AWS password $(cat {folder}/word)\n", mode=0o600
    )
    lab.write(f"{folder}/word", password, mode=0o600)
    # An aws that cannot log in shows that it was not asked.
    env = {**replaced(lab, "aws", "exit 1"), "ENROOT_CONFIG_PATH": folder}
    result = importer.run(image.uri, env=env)
    assert result.returncode == 0, result.stdout


def test_a_cache_that_another_user_made_is_not_used(importer: Importer, lab: Laboratory, image: Image) -> None:
    """Enroot takes a layer that is in its cache as it is."""
    env = replaced(lab, "enroot", 'echo "cache=${ENROOT_CACHE_PATH}"; exit 1')
    folder = f"/scratch/enroot/cache/user-{lab.output('id -u', node=NODE)}"
    assert f"cache={folder}\n" in importer.run(image.uri, env=env).stdout
    lab.run(f"rm -rf {folder} && install -d -o ada -m 777 {folder}", node=NODE, user="root")
    try:
        assert "cache=/scratch/enroot/tmp/" in importer.run(image.uri, env=env).stdout
    finally:
        lab.run(f"rm -rf {folder}", node=NODE, user="root")


def test_another_user_of_the_group(importer: Importer, lab: Laboratory, image: Image) -> None:
    """Users who can write to the folder can replace an image, all can read it; others get the reason."""
    assert importer.run(image.uri).returncode == 0
    refused = importer.run(image.uri, "--force", user="ada")
    assert refused.returncode == 73
    assert "you may not write to" in refused.stdout
    skipped = importer.run(image.uri, user="ada")
    assert skipped.returncode == 0
    lab.run(["unsquashfs", "-s", f"{IMAGES}/{importer.name}.sqsh"], user="ada")


def test_as_a_job(importer: Importer, lab: Laboratory, image: Image) -> None:
    """From the head node, without options: a job where an import costs least, its log here, its status ours."""
    words = importer.line(image.uri)
    result = lab.run(words, env={"IMPORT_FOLLOW_SECONDS": "0.3"})
    assert "in partition cpu" in result.stderr
    assert "is there:" in result.stderr
    assert importer.record["host"] == "cpu-dy-c7i-1"
    assert importer.record["job"] in result.stderr
    again = lab.run(words)
    assert "already" in again.stderr
    assert "in partition" not in again.stderr


def test_a_user_without_the_roles_login_leaves_it_to_the_job(importer: Importer, lab: Laboratory, image: Image) -> None:
    """Only where the job's login can differ: a wrong password starts no node."""
    env = {"IMPORT_FOLLOW_SECONDS": "0.3", **replaced(lab, "aws", "exit 1", node="head")}
    result = lab.run(importer.line(image.uri), env=env)
    assert "the job asks the registry again" in result.stderr
    assert importer.record["digest"] == image.digest
    folder = "/home/ubuntu/wrong-enroot"
    lab.write(f"{folder}/.credentials", f"machine {lab.plan.registry} login AWS password wrong\n", mode=0o600)
    refused = lab.run(importer.line(image.uri, "--force"), env={"ENROOT_CONFIG_PATH": folder}, check=False)
    assert refused.returncode == 77 and "in partition" not in refused.stderr


@pytest.mark.parametrize(
    ("partition", "status", "reason"), [("gpu", 73, "/not/there is missing"), ("none", 69, "sinfo lists them")]
)
def test_as_a_job_that_fails(  # noqa: PLR0917 -- parameters of pytest
    importer: Importer, lab: Laboratory, image: Image, partition: str, status: int, reason: str
) -> None:
    env = {"IMPORT_FOLLOW_SECONDS": "0.3", "IMPORT_SCRATCH": "/not/there"}
    result = lab.run(importer.line(image.uri, "--partition", partition), env=env, check=False)
    assert result.returncode == status
    assert reason in result.stderr


def test_the_job_file_alone(importer: Importer, lab: Laboratory, image: Image) -> None:
    file = f"{ASSETS}/images/import-container.sbatch"
    lab.run(["sbatch", "--test-only", file, image.uri, importer.name])
    job = lab.output(
        ["sbatch", "--parsable", "--partition=gpu", "--output=/home/ubuntu/own.log", file, image.uri, importer.name]
    )
    lab.wait_for_job(job)
    assert importer.record["digest"] == image.digest
