"""Images without a container engine: registry, squashfs, and a container's view.

With the stand-ins of Enroot and Pyxis, or the genuine programs where LAB_CONTAINERS names a build of them.
containers.json has what the genuine ones did; a fact with `stand_in` is beyond the stand-ins, for that reason.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.slurm import Laboratory, base
from ops.problem import Problem
from tests.slurm import registry
from tests.slurm.registry import Image

FOLDER = "/fsx/containers"
FACTS = [
    fact
    for fact in json.loads((Path(__file__).parent / "containers.json").read_text())["facts"]
    if "stand_in" not in fact or os.environ.get(base.CONTAINERS)
]


@pytest.fixture(scope="module")
def image(lab: Laboratory) -> Image:
    """A small image in the registry."""
    return registry.push(
        lab,
        "pytorch-training-custom",
        "latest",
        env={"FROM_IMAGE": "a word and another", "HOME_OF": "image", "PYTORCH_VERSION": "2.9.0"},
    )


def reference(image: Image) -> str:
    """The image as Enroot writes it."""
    return "docker://AWS@" + image.uri.replace("/", "#", 1)


@pytest.fixture(scope="module")
def sqsh(lab: Laboratory, image: Image) -> Iterator[str]:
    """The image as a squashfs file on the shared file system."""
    line = f"machine {lab.plan.registry} login AWS password $(aws ecr get-login-password --region us-east-1)\n"
    lab.write("/home/ubuntu/.config/enroot/.credentials", line, mode=0o600)
    path = f"{FOLDER}/test.sqsh"
    lab.run(f"mkdir -p {FOLDER} && enroot import -o {path} {reference(image)}")
    yield path
    lab.run(["rm", "-rf", FOLDER, "/home/ubuntu/.config"])


def test_the_registry_counts_the_same_digest(lab: Laboratory, image: Image) -> None:
    line = 'skopeo --insecure-policy inspect --raw --creds "AWS:$(aws ecr get-login-password)" docker://' + image.uri
    manifest = lab.run(f"{line} | tee /tmp/manifest; sha256sum </tmp/manifest >&2")
    assert manifest.stderr.split()[0] == image.digest.removeprefix("sha256:")
    assert json.loads(manifest.stdout)["mediaType"] == "application/vnd.docker.distribution.manifest.v2+json"


def test_an_import_is_a_squashfs_with_the_images_environment(lab: Laboratory, sqsh: str) -> None:
    assert "FROM_IMAGE=a word and another" in lab.output(["unsquashfs", "-cat", sqsh, "etc/environment"])
    assert lab.output(["stat", "-c", "%U", sqsh]) == "ubuntu"


@pytest.mark.usefixtures("sqsh")
def test_import_by_digest(lab: Laboratory, image: Image) -> None:
    by_digest = f"{reference(image).removesuffix(':latest')}:{image.digest}"
    lab.run(
        f"cd {FOLDER} && enroot import -o by-digest.sqsh {by_digest} && unsquashfs -l by-digest.sqsh | grep -q busybox"
    )


def test_a_container_on_two_nodes(lab: Laboratory, sqsh: str) -> None:
    lab.write("/fsx/containers/data/sample", "content\n")
    parts = (
        "$SLURM_PROCID",
        "$FROM_IMAGE",
        "$(. /etc/os-release; echo $ID)",
        "$(cat /data/sample)",
        "$PWD",
        "$(id -u)",
        "$(hostname)",
        "$(ls /dev/infiniband | wc -l)",
    )
    script = f'echo "{"|".join(parts)}"'
    options = [
        f"--container-image={sqsh}",
        f"--container-mounts={FOLDER}/data:/data,/dev/infiniband:/dev/infiniband",
        "--container-workdir=/data",
        "--no-container-mount-home",
        "--container-name=ours",
        "--gpus-per-node=8",
    ]
    lines = lab.output(["srun", "-N2", "--ntasks-per-node=8", *options, "sh", "-c", script]).splitlines()
    rows = sorted((line.split("|") for line in lines), key=lambda row: int(row[0]))
    assert [int(row[0]) for row in rows] == list(range(16))
    assert {(*row[1:6], row[7]) for row in rows} == {
        ("a word and another", "trainyard", "content", "/data", "1000", "32")
    }
    assert len({row[6] for row in rows}) == 2


def test_a_private_umask_of_the_user_closes_no_folder_of_the_container(lab: Laboratory, sqsh: str) -> None:
    line = f"srun -n1 --container-image={sqsh} --container-mounts={FOLDER}:/a/b sh -c 'ls -d /a/b; umask'"
    assert lab.output(f"umask 077; {line}").split() == ["/a/b", "0077"]


def test_writable_containers_leave_the_image_and_the_node_alone(lab: Laboratory, sqsh: str) -> None:
    before = lab.output(["sha256sum", sqsh])
    container = ["srun", "-n1", "-w", "gpu-dy-p5-1", "--container-writable", f"--container-image={sqsh}", "sh", "-c"]
    assert lab.output([*container, "echo word >/tmp/kept; cat /tmp/kept"]) == "word"
    assert lab.output(["sha256sum", sqsh]) == before
    mounts = lab.output(["findmnt", "-rno", "TARGET"], node="gpu-dy-p5-1").splitlines()
    assert not [mount for mount in mounts if mount.startswith("/run/pyxis")]


@pytest.mark.parametrize("fact", FACTS, ids=[fact["id"] for fact in FACTS])
def test_facts_of_the_genuine_programs(lab: Laboratory, image: Image, sqsh: str, fact: dict[str, Any]) -> None:
    assert image.uri == f"{lab.plan.registry}/local/pytorch-training-custom:latest"
    names = {"{registry}": lab.plan.registry, "{sqsh}": sqsh, "{folder}": FOLDER}

    def fill(text: str) -> str:
        return functools.reduce(lambda done, name: done.replace(name, names[name]), names, text)

    env = {name: fill(value) for name, value in fact.get("env", {}).items()}
    result = lab.run(fill(fact["command"]), env=env, check=False)
    assert result.returncode == fact["status"], result.stderr
    assert [one for one in map(fill, fact.get("stderr", [])) if one not in result.stderr] == []
    if "stdout" in fact:
        assert result.stdout.strip() == fact["stdout"]


def test_a_folder_without_the_genuine_programs_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(base.CONTAINERS, str(tmp_path))
    with pytest.raises(
        Problem, match=r"no Enroot and Pyxis for Debian trixie; build them there with scripts/build-lab"
    ):
        base.containers("trixie")
    plugin = tmp_path / "trixie/usr/local/lib/slurm/spank_pyxis.so"
    plugin.parent.mkdir(parents=True)
    plugin.touch()
    assert base.containers("trixie") == tmp_path / "trixie"
    monkeypatch.delenv(base.CONTAINERS)
    assert base.containers("trixie") is None
