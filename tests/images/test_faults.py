"""Imports that cannot be, are cut short, or meet each other: never half an image, and the reason in words."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from local.slurm import Laboratory, namespaces
from tests.images.conftest import IMAGES, NODE, Importer, prepare_node, replaced
from tests.slurm import registry
from tests.slurm.registry import Image

REPOSITORY = "pytorch-training-custom"


@pytest.fixture(scope="module")
def image(lab: Laboratory) -> Image:
    return registry.push(lab, REPOSITORY, "faults", padding_mib=8)


# Each command does half of its work, then hangs.
HALVES = {
    "dd": 'for word; do case "$word" in if=*) in=${word#if=};; of=*) out=${word#of=};; esac; done',
    "mksquashfs": 'in=/dev/urandom out="$2"',
}


def half_done(
    importer: Importer, image: Image, *options: str, command: str = "dd", node: str = NODE
) -> subprocess.Popen[str]:
    """An import that hangs half-way through `command`."""
    marker = f"/tmp/replaced-{command}/half"
    script = f'{HALVES[command]}\nhead -c 1048576 "$in" >"$out"\ntouch {marker}\nsleep 600'
    process = importer.start(image.uri, *options, node=node, env=replaced(importer.lab, command, script, node))
    deadline = time.monotonic() + 120
    while not importer.lab.path(marker, node=node).exists():
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def end(importer: Importer, process: subprocess.Popen[str], signal: str = "KILL -u ubuntu") -> None:
    importer.lab.run(f"pkill -{signal} || true", node=NODE, user="root")
    process.wait(timeout=120)


@pytest.mark.parametrize("command", ["mksquashfs", "dd"])
def test_a_node_that_dies_half_way(importer: Importer, lab: Laboratory, image: Image, command: str) -> None:
    node = "gpu-dy-p5-2"
    process = half_done(importer, image, command=command, node=node)
    assert not importer.image.exists()
    assert bool(importer.leftovers()) is (command == "dd")
    lab.kill(node)
    process.wait(timeout=120)
    assert not importer.image.exists()
    result = importer.run(image.uri)
    assert result.returncode == 0, result.stdout
    assert ("left by an import that was cut short" in result.stdout) is (command == "dd")
    assert not importer.leftovers()
    assert importer.record["digest"] == image.digest
    lab.start(node, slurmd=False)
    prepare_node(lab, node, "environment", "enroot")
    lab.join(node)


def test_killed_import_leaves_the_image_whole_and_the_next_run_cleans_up(importer: Importer, image: Image) -> None:
    assert importer.run(image.uri).returncode == 0
    before = importer.image.stat(), importer.record
    end(importer, half_done(importer, image, "--force"))
    assert (importer.image.stat(), importer.record) == before
    assert len(importer.leftovers()) == 2  # one on the shared file system, one on scratch
    result = importer.run(image.uri, "--force")
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("left by an import that was cut short") == 2
    assert not importer.leftovers()


def test_an_ended_import_cleans_up_after_itself(importer: Importer, lab: Laboratory, image: Image) -> None:
    process = half_done(importer, image)
    end(importer, process, "TERM -u ubuntu -o -f import-container.sh")
    assert process.returncode == 143
    assert not importer.leftovers()
    assert lab.run(["pgrep", "-u", "ubuntu"], node=NODE, check=False).stdout.split() == []


def test_two_at_once(importer: Importer, image: Image) -> None:
    """On two nodes: one imports, the other waits for it and finds that nothing is left to do."""
    processes = [importer.start(image.uri, node=node) for node in ("gpu-dy-p5-1", "gpu-dy-p5-2", "cpu-dy-c7i-1")]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert sum("is there:" in output for output in outputs) == 1
    assert sum("already" in output for output in outputs) == 2
    assert not importer.leftovers()


def test_waiting_for_another_says_who_it_is_and_ends(importer: Importer, lab: Laboratory, image: Image) -> None:
    process = half_done(importer, image)
    env = {"IMPORT_LOCK_SECONDS": "2", "IMPORT_PROGRESS_SECONDS": "1"}
    result = importer.run(image.uri, node="gpu-dy-p5-2", env=env)
    assert result.returncode == 75
    assert "waiting:" in result.stdout
    assert "ubuntu on gpu-dy-p5-1, process" in result.stdout
    # An import of another name does not wait, and does not take what the living import writes for a leftover.
    assert Importer(lab, f"{importer.name}.other").run(image.uri).returncode == 0
    assert len(importer.leftovers()) == 2
    # The program alone killed: what it started still writes, so the lock is still held.
    lab.run("pkill -KILL -u ubuntu -o -f import-container.sh", node=NODE, user="root")
    assert importer.run(image.uri, node="gpu-dy-p5-2", env=env).returncode == 75
    end(importer, process)
    assert importer.run(image.uri, node="gpu-dy-p5-2").returncode == 0


def resize(lab: Laboratory, mount: str, mib: int, node: str | None) -> None:
    """Resize a shared file system, or with `node` that node's scratch; data stays."""
    remount = ["mount", "-o", f"remount,size={mib}m"]
    if node:
        lab.run([*remount, mount], node=node, user="root")
        return
    supervisor = namespaces.supervisor(lab.state)
    assert supervisor
    name = next(one.name for one in lab.plan.shared if one.mount == mount)
    namespaces.inside(supervisor, [*remount, f"{lab.state}/live/shared/{name}"])


@pytest.fixture
def small(lab: Laboratory) -> Iterator[Callable[..., None]]:
    """Make a file system so small that only some MiB are free, until the test's end."""
    made: list[tuple[str, str | None]] = []

    def shrink(mount: str, free_mib: int, node: str | None = None) -> None:
        used = lab.output(f"df -B1M --output=used {mount} | tail -n 1", node=node or "head")
        made.append((mount, node))
        resize(lab, mount, int(used) + free_mib, node)

    yield shrink
    for mount, node in made:
        resize(lab, mount, 4096, node)


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
    assert ("Enroot keeps in /scratch/enroot/cache/user-" in result.stdout) is (file_system[0] == "/scratch")
    assert ("[INFO]" in result.stdout) is bool(percent)
    assert not importer.image.exists()
    assert not importer.leftovers()


def test_a_target_that_fills_up_while_it_is_written(
    importer: Importer, lab: Laboratory, image: Image, small: Callable[..., None]
) -> None:
    """Another file takes the space after the check, simulated by a wrong `df`."""
    small("/shared", 6)
    result = importer.run(image.uri, env=replaced(lab, "df", "echo Avail; echo 999999999999"))
    assert result.returncode == 73
    assert "could not be copied" in result.stdout
    assert not importer.image.exists()
    assert not importer.leftovers()


def test_no_such_tag_needs_no_job(importer: Importer, lab: Laboratory) -> None:
    result = lab.run(importer.line(f"{lab.plan.repository_uri(REPOSITORY)}:nothing"), check=False)
    assert result.returncode == 66
    assert "in partition" not in result.stderr


def test_no_gpu_node_is_started_for_an_import(importer: Importer, lab: Laboratory, image: Image) -> None:
    """Every partition has GPUs, on some nodes at least: the head node imports, unless the user names the partition."""
    lines = "mixed|(null)|up", "mixed|gpu:h100:8(S:0-1)|up", "gpu|gpu:h100:8|up", "cpu|(null)|inact"
    only_gpus = replaced(lab, "sinfo", f"printf '%s\\n' {' '.join(map(repr, lines))}", node="head")
    jobs = lab.output("sacct --allocations --noheader --parsable2 --format=JobID | wc --lines")
    refused = lab.run([*importer.line(image.uri), "--job"], env=only_gpus, check=False)
    assert refused.returncode == 69
    assert "no partition without GPUs is up" in refused.stderr and "--partition (" in refused.stderr
    result = lab.run(importer.line(image.uri), env=only_gpus)
    assert "no GPU node is started for an import: it runs here" in result.stderr
    assert importer.record["host"] == lab.output("hostname").strip() and importer.image.exists()
    assert lab.output("sacct --allocations --noheader --parsable2 --format=JobID | wc --lines") == jobs


def test_a_wrong_password(importer: Importer, lab: Laboratory, image: Image) -> None:
    lab.write("/home/ubuntu/wrong/.credentials", f"machine {lab.plan.registry} login AWS password wrong\n", mode=0o600)
    result = importer.run(image.uri, env={"ENROOT_CONFIG_PATH": "/home/ubuntu/wrong"})
    assert result.returncode == 77
    assert "not logged in" in result.stdout


DENIED = "An error occurred (AccessDeniedException) when calling the GetAuthorizationToken operation"
# The image (that of this file where it is empty), a command that is replaced, the exit status, and what is reported.
FAULTS = {
    "no such tag": ("{repository}:nothing", {}, 66, ("no image", "describe-images")),
    "no credentials": ("aws:443/pytorch-training-custom:faults", {}, 77, ("machine aws login USER password",)),
    "out of reach": ("111122223333.dkr.ecr.eu-west-1.amazonaws.com/train:1", {}, 69, ("cannot be reached",)),
    "no login": ("", {"aws": f"echo '{DENIED}' >&2; exit 254"}, 77, (DENIED, "ecr:GetAuthorizationToken")),
    "Enroot fails": ("", {"enroot": 'echo half >"$3"; exit 1'}, 70, (f"Nothing was changed in {IMAGES}",)),
    "no locks": ("", {"findmnt": "echo rw,localflock"}, 78, ("mount it with flock",)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_imports_that_cannot_be(importer: Importer, lab: Laboratory, image: Image, fault: str) -> None:
    reference, commands, status, reasons = FAULTS[fault]
    env = {name: value for item in commands.items() for name, value in replaced(lab, *item).items()}
    uri = reference.format(repository=lab.plan.repository_uri(REPOSITORY)) or image.uri
    result = importer.run(uri, env=env)
    assert result.returncode == status
    assert all(reason in result.stdout for reason in reasons), result.stdout
    assert not importer.image.exists()
    assert not importer.leftovers()
