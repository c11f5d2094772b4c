"""Imports that cannot be, are cut short, or meet each other: never half an image, and the reason in words."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from local.slurm import Laboratory, images
from local.slurm.images import Image
from tests.images.conftest import IMAGES, Importer, prepare_node

REPOSITORY = "pytorch-training-custom"
Stuck = Callable[[str, str], dict[str, str]]


@pytest.fixture(scope="module")
def image(lab: Laboratory) -> Image:
    return images.push(lab, REPOSITORY, "faults", padding_mib=8)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        assert time.monotonic() < deadline
        time.sleep(0.05)


def half_done(importer: Importer, image: Image, stuck: Stuck, command: str, node: str) -> subprocess.Popen[str]:
    """An import that hangs half-way through `command`."""
    process = importer.start(image.uri, node=node, env=stuck(command, node))
    marker = importer.lab.path(f"/tmp/stuck-{command}/half", node=node)
    wait_for(marker.exists, process)
    return process


@pytest.mark.parametrize("command", ["mksquashfs", "dd"])
def test_a_node_that_dies_half_way(
    importer: Importer, lab: Laboratory, image: Image, stuck: Stuck, command: str
) -> None:
    node = "gpu-dy-p5-2"
    process = half_done(importer, image, stuck, command, node)
    assert not importer.image.exists()
    assert bool(importer.leftovers()) is (command == "dd")
    lab.kill(node)
    process.wait(timeout=30)
    assert not importer.image.exists()
    result = importer.run(image.uri)
    assert result.returncode == 0, result.stdout
    assert ("left by an import that was cut short" in result.stdout) is (command == "dd")
    assert not importer.leftovers()
    assert importer.record["digest"] == image.digest
    lab.start(node, slurmd=False)
    prepare_node(lab, node, "environment", "enroot")
    lab.join(node)


def test_processes_that_are_killed_leave_nothing_that_the_next_run_does_not_clean(
    importer: Importer, lab: Laboratory, image: Image, stuck: Stuck
) -> None:
    process = half_done(importer, image, stuck, "dd", "gpu-dy-p5-1")
    assert importer.leftovers()
    lab.run("pkill -KILL -u ubuntu || true", node="gpu-dy-p5-1", user="root")
    process.wait(timeout=30)
    assert len(importer.leftovers()) == 2  # one on the shared file system, one on scratch
    assert not importer.image.exists()
    result = importer.run(image.uri)
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("left by an import that was cut short") == 2
    assert not importer.leftovers()


def test_an_image_stays_whole_while_its_successor_fails(
    importer: Importer, lab: Laboratory, image: Image, stuck: Stuck
) -> None:
    assert importer.run(image.uri).returncode == 0
    before = importer.image.stat(), importer.record
    process = importer.start(image.uri, "--force", env=stuck("dd", "gpu-dy-p5-1"))
    wait_for(lab.path("/tmp/stuck-dd/half", node="gpu-dy-p5-1").exists, process)
    lab.run("pkill -KILL -u ubuntu || true", node="gpu-dy-p5-1", user="root")
    process.wait(timeout=30)
    assert (importer.image.stat(), importer.record) == before


def test_an_ended_import_cleans_up_after_itself(
    importer: Importer, lab: Laboratory, image: Image, stuck: Stuck
) -> None:
    process = half_done(importer, image, stuck, "dd", "gpu-dy-p5-1")
    lab.run("pkill -TERM -u ubuntu -o -f import-container.sh", node="gpu-dy-p5-1", user="root")
    process.wait(timeout=30)
    assert process.returncode == 143
    assert not importer.leftovers()
    assert lab.run(["pgrep", "-u", "ubuntu"], node="gpu-dy-p5-1", check=False).stdout.split() == []


def test_two_at_once(importer: Importer, image: Image) -> None:
    """On two nodes: one imports, the other waits for it and finds that nothing is left to do."""
    processes = [importer.start(image.uri, node=node) for node in ("gpu-dy-p5-1", "gpu-dy-p5-2", "cpu-dy-c7i-1")]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert sum("is there:" in output for output in outputs) == 1
    assert sum("already" in output for output in outputs) == 2
    assert not importer.leftovers()


def test_waiting_for_another_says_who_it_is_and_ends(
    importer: Importer, lab: Laboratory, image: Image, stuck: Stuck
) -> None:
    process = half_done(importer, image, stuck, "dd", "gpu-dy-p5-1")
    env = {"IMPORT_LOCK_SECONDS": "2", "IMPORT_PROGRESS_SECONDS": "1"}
    result = importer.run(image.uri, node="gpu-dy-p5-2", env=env)
    assert result.returncode == 75
    assert "waiting:" in result.stdout
    assert "ubuntu on gpu-dy-p5-1, process" in result.stdout
    # What the living import writes is not taken for a leftover.
    assert len(importer.leftovers()) == 2
    # The program alone killed: what it started still writes, so the lock is still held.
    lab.run("pkill -KILL -u ubuntu -o -f import-container.sh", node="gpu-dy-p5-1", user="root")
    assert importer.run(image.uri, node="gpu-dy-p5-2", env=env).returncode == 75
    lab.run("pkill -KILL -u ubuntu || true", node="gpu-dy-p5-1", user="root")
    process.wait(timeout=30)
    assert importer.run(image.uri, node="gpu-dy-p5-2").returncode == 0


def test_imports_of_other_names_do_not_wait(importer: Importer, lab: Laboratory, image: Image, stuck: Stuck) -> None:
    process = half_done(importer, image, stuck, "dd", "gpu-dy-p5-1")
    other = Importer(lab, f"{importer.name}.other")
    assert other.run(image.uri, node="gpu-dy-p5-1").returncode == 0
    assert len(importer.leftovers()) == 2
    process.kill()
    lab.run("pkill -KILL -u ubuntu || true", node="gpu-dy-p5-1", user="root")


@pytest.fixture
def small(lab: Laboratory) -> Iterator[Callable[..., None]]:
    """Make a file system so small that only some MiB are free, until the test's end."""
    made: list[tuple[str, str | None]] = []

    def shrink(mount: str, free_mib: int, node: str | None = None) -> None:
        used = lab.output(f"df -B1M --output=used {mount} | tail -n 1", node=node or "head")
        made.append((mount, node))
        lab.resize(mount, int(used) + free_mib, node=node)

    yield shrink
    for mount, node in made:
        lab.resize(mount, 4096, node=node)


@pytest.mark.parametrize(
    ("file_system", "percent", "reason"),
    [
        (("/shared", 6, None), "", "no space for the image"),
        (("/scratch", 20, "gpu-dy-p5-1"), "", "no space for unpacking"),
        (("/scratch", 20, "gpu-dy-p5-1"), "1", "scratch is full"),
    ],
)
def test_no_space(  # noqa: PLR0917 -- parameters of pytest
    importer: Importer,
    image: Image,
    small: Callable[..., None],
    file_system: tuple[object, ...],
    percent: str,
    reason: str,
) -> None:
    """Reported before Enroot starts, unless the estimate was too low."""
    small(*file_system)
    result = importer.run(image.uri, env={"IMPORT_SCRATCH_PERCENT": percent})
    assert result.returncode == 73
    assert reason in result.stdout
    assert ("[INFO]" in result.stdout) is bool(percent)
    assert not importer.image.exists()
    assert not importer.leftovers()


def test_a_target_that_fills_up_while_it_is_written(
    importer: Importer, lab: Laboratory, image: Image, small: Callable[..., None]
) -> None:
    """Another file takes the space after the check, simulated by a wrong `df`."""
    small("/shared", 6)
    lying = "#!/bin/bash\necho Avail; echo 999999999999\n"
    lab.write("/tmp/lying/df", lying, node="gpu-dy-p5-1", mode=0o755)
    result = importer.run(image.uri, env={"PATH": "/tmp/lying:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    assert result.returncode == 73
    assert "could not be copied" in result.stdout
    assert not importer.image.exists()
    assert not importer.leftovers()


def test_no_such_tag(importer: Importer, lab: Laboratory) -> None:
    result = importer.run(f"{lab.plan.repository_uri(REPOSITORY)}:nothing")
    assert result.returncode == 66
    assert "no image" in result.stdout
    assert "describe-images" in result.stdout
    assert not importer.image.exists()


def test_no_such_tag_needs_no_job(importer: Importer, lab: Laboratory) -> None:
    result = lab.run(importer.line(f"{lab.plan.repository_uri(REPOSITORY)}:nothing", node="head")[-4:], check=False)
    assert result.returncode == 66
    assert "in partition" not in result.stderr


def test_a_wrong_password(importer: Importer, lab: Laboratory, image: Image) -> None:
    lab.write("/home/ubuntu/wrong/.credentials", f"machine {lab.plan.registry} login AWS password wrong\n", mode=0o600)
    result = importer.run(image.uri, env={"ENROOT_CONFIG_PATH": "/home/ubuntu/wrong"})
    assert result.returncode == 77
    assert "not logged in" in result.stdout
    assert not importer.leftovers()


def test_no_credentials_at_a_registry_that_wants_some(importer: Importer) -> None:
    result = importer.run("aws:443/pytorch-training-custom:faults")
    assert result.returncode == 77
    assert "machine aws login USER password" in result.stdout


def test_an_aws_that_gives_no_login(importer: Importer, lab: Laboratory, image: Image) -> None:
    refusal = "An error occurred (AccessDeniedException) when calling the GetAuthorizationToken operation"
    lab.write("/home/ubuntu/refusing/aws", f"#!/bin/sh\necho '{refusal}' >&2\nexit 254\n", mode=0o755)
    result = importer.run(image.uri, env={"PATH": "/home/ubuntu/refusing:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    assert result.returncode == 77
    assert refusal in result.stdout
    assert "ecr:GetAuthorizationToken" in result.stdout


def test_a_registry_out_of_reach(importer: Importer) -> None:
    result = importer.run("111122223333.dkr.ecr.eu-west-1.amazonaws.com/train:1")
    assert result.returncode == 69
    assert "cannot be reached" in result.stdout


def test_an_enroot_that_fails(importer: Importer, lab: Laboratory, image: Image) -> None:
    lab.write("/home/ubuntu/failing/enroot", '#!/bin/sh\necho half >"$3"\nexit 1\n', mode=0o755)
    result = importer.run(image.uri, env={"PATH": "/home/ubuntu/failing:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    assert result.returncode == 70
    assert f"Nothing was changed in {IMAGES}" in result.stdout
    assert not importer.image.exists()
    assert not importer.leftovers()


def test_a_file_system_without_locks_across_nodes(importer: Importer, lab: Laboratory, image: Image) -> None:
    lab.write("/tmp/local-locks/findmnt", "#!/bin/sh\necho rw,localflock\n", node="gpu-dy-p5-1", mode=0o755)
    result = importer.run(image.uri, env={"PATH": "/tmp/local-locks:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    assert result.returncode == 78
    assert "mount it with flock" in result.stdout
