"""The entry script: nothing runs that was not verified, and each failure says what to do."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]
ASSETS = Path(__file__).parents[2] / "cluster_assets"


def test_installs_the_bundle_and_runs_the_roles_steps(node: Node, settings: Settings) -> None:
    sha256 = node.publish(settings)

    result = node.run("head-configured")

    assert (result.returncode, result.stderr) == (0, "")
    assert str(node.path("/opt/trainyard/current").readlink()) == sha256
    done = re.findall(r"step ([\w-]+) done in \d+\.\d{2} s", node.log())
    roles = Path(__file__).parents[2] / "cluster_assets" / "roles"
    assert done == (roles / "head-configured").read_text().split()
    assert not list(node.path("/opt/trainyard").glob(".work*"))


def test_second_run_changes_nothing(node: Node, settings: Settings) -> None:
    node.bootstrap(settings, role="head-configured")
    before, systemctl = node.snapshot(), node.calls("systemctl")

    assert node.run("head-configured").returncode == 0

    assert node.snapshot() == before
    assert node.calls("systemctl") == systemctl == ["daemon-reload", "try-restart slurmctld"]


def test_corrupted_bundle_runs_nothing_and_the_older_one_stays(node: Node, settings: Settings) -> None:
    node.bootstrap(settings, role="compute-configured")
    current = node.path("/opt/trainyard/current")
    older = current.readlink()
    newer = node.publish(settings, changed={"extra.txt": "newer"})
    archive = node.key(f"cluster/bundles/{newer}.tar")
    content = archive.read_bytes()
    archive.write_bytes(content[:700] + bytes([content[700] ^ 1]) + content[701:])
    steps = node.log().count("step")

    result = node.run("compute-configured")

    assert result.returncode == 65
    assert "nothing was run" in result.stderr and newer in result.stderr
    assert node.log().count("step") == steps
    assert current.readlink() == older and not node.path(f"/opt/trainyard/{newer}").exists()

    archive.write_bytes(content)
    assert node.run("compute-configured").returncode == 0
    assert str(current.readlink()) == newer and (current / "extra.txt").read_text() == "newer"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("another name", "names bundle 'cluster/bundles/latest.tar'"),
        ("no JSON", "does not name bundle, sha256 and settings"),
        ("another region", "not of schema 1 and region us-east-1"),
    ],
)
def test_published_files_are_checked(node: Node, settings: Settings, fault: str, reason: str) -> None:
    current = {"bundle": "cluster/bundles/latest.tar"} if fault == "another name" else None
    node.publish(settings | ({"region": "eu-west-1"} if fault == "another region" else {}), current=current)
    if fault == "no JSON":
        node.key("cluster/current.json").write_text("<html>")
    result = node.run("updated")
    assert result.returncode == 65
    assert reason in result.stderr


def test_missing_bucket_fails_at_once(node: Node, settings: Settings) -> None:
    node.publish(settings)
    result = node.run("compute-start", bucket="no-such-bucket")
    assert result.returncode == 69
    assert "s3://no-such-bucket/cluster/current.json" in result.stderr and "NoSuchBucket" in result.stderr
    assert len(node.calls("aws")) == 1


@pytest.mark.parametrize(("refusals", "code"), [(3, 0), (20, 69)])
def test_throttled_fetch_is_tried_again_six_times(node: Node, settings: Settings, refusals: int, code: int) -> None:
    for number in range(refusals):
        (node.fake / f"refuse/{number}").touch()
    result = node.bootstrap(settings, role="compute-start", code=code)
    assert len(re.findall(r"attempt \d of 6 to fetch .* failed", node.log())) == min(refusals, 5)
    assert not code or ("attempt 6 of 6" in result.stderr and "SlowDown" in result.stderr)


def test_failing_step_names_itself_and_the_reason(node: Node, settings: Settings) -> None:
    (node.fake / "mounts").write_text("/shared\n")
    result = node.bootstrap(settings, role="compute-configured", code=70)
    assert result.stderr.startswith("step mounts of role compute-configured on ")
    assert "not mounted after 0 s: /lustre. Check that the file system is AVAILABLE" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "step environment" not in node.log()


@pytest.mark.parametrize(
    ("role", "changed", "reason"),
    [
        (
            "compute-start",
            {"steps/limits.sh": "echo working; echo 'disk on fire' >&2; exit 3"},
            "exit status 3: disk on fire\n",
        ),
        ("compute-start", {"roles/compute-start": "limits\ncoffee\n"}, "no steps/coffee.sh"),
        ("barista", {}, "no role 'barista'; allowed: compute-configured compute-start head-configured"),
    ],
)
def test_reason_of_a_role_that_fails(
    node: Node, settings: Settings, role: str, changed: dict[str, str], reason: str
) -> None:
    result = node.bootstrap(settings, changed=changed, role=role, code=70)

    assert reason in result.stderr


def hooks(**moments: list[str]) -> dict[str, str]:
    """The bundle's files for scripts by role and moment, such as compute_start__before."""
    sums = {script: hashlib.sha256(script.encode()).hexdigest() for scripts in moments.values() for script in scripts}
    lists = {
        f"hooks/{moment.replace('__', '.').replace('_', '-')}": "".join(
            f"{sums[script]} own/{number}.sh\n" for number, script in enumerate(scripts)
        )
        for moment, scripts in moments.items()
    }
    return lists | {f"hooks/{sha256}.sh": script for script, sha256 in sums.items()}


def test_hooks_run_before_and_after_the_steps(node: Node, settings: Settings) -> None:
    show = (
        '#!/usr/bin/env bash\nprintf "%s %s%s\\n" "${TRAINYARD_ROLE}" "$(jq -r .environment "${TRAINYARD_SETTINGS}")" '
        '"${TRAINYARD_VALUES-}"\n'
    )
    python = "#!/usr/bin/env python3\nprint('written', 'in Python')\n"
    files = hooks(head_configured__before=[show], head_configured__after=[python, show], compute_start__after=[python])
    files["steps/limits.sh"] = 'printf "%s\\n" "${TRAINYARD_VALUES}"\n'

    node.bootstrap(settings, role="updated", changed=files | {"roles/head-configured": "limits\n"})

    done = re.findall(r"trainyard: (?:step )?(\S+|hook \S+) done in \d+\.\d{2} s", node.log())
    assert done == ["hook own/0.sh", "limits", "hook own/0.sh", "hook own/1.sh"]
    assert node.log().count("\nupdated local\n") == 2 and node.log().count("\nwritten in Python\n") == 1
    assert node.log().count("\n.environment=local\n") == 1, "the values of settings.json, for steps alone"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\necho working\necho no driver >&2\nexit 3\n", "exit status 3: no driver"),
        ('#!/bin/sh\necho "no driver" >"${TRAINYARD_REASON}"\nexit 1\n', "no driver"),
    ],
)
def test_failing_hook_names_itself_and_ends_the_role(node: Node, settings: Settings, script: str, reason: str) -> None:
    result = node.bootstrap(settings, role="compute-start", changed=hooks(compute_start__before=[script]), code=70)
    assert re.fullmatch(rf"hook own/0\.sh of role compute-start on \S+: {reason}\n", result.stderr)
    assert "step limits" not in node.log()


@pytest.mark.parametrize("change", [None, "#!/bin/sh\necho other\n"], ids=["missing", "changed"])
def test_hook_that_is_not_the_pinned_one_is_not_run(node: Node, settings: Settings, change: str | None) -> None:
    files = hooks(compute_start__after=["#!/bin/sh\necho mine\n"])
    script = next(name for name in files if name.endswith(".sh"))
    files = {name: text for name, text in files.items() if name != script} | ({script: change} if change else {})
    result = node.bootstrap(settings, role="compute-start", changed=files, code=70)
    assert re.fullmatch(r"hook own/0\.sh: .* is missing or was changed: nothing of it was run\n", result.stderr)
    assert "other" not in node.log()


def test_missing_command_is_named(node: Node, settings: Settings) -> None:
    node.publish(settings)
    tools = node.fake / "tools"
    tools.mkdir()
    for name in ("bash", "mkdir", "tee"):
        (tools / name).symlink_to(shutil.which(name) or "")
    node.environment["PATH"] = str(tools)
    # The script appends the usual folders to PATH; a PATH without jq simulates a node without it.
    entry = (ASSETS / "entry/entry.sh").read_text().replace(':/usr/local/bin:/opt/slurm/bin:/usr/sbin:/sbin"', '"')
    result = subprocess.run(
        ["/bin/bash", "-c", entry, "entry", "a-bucket", "updated", "us-east-1"],
        env=node.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 72
    assert "the command 'aws' is missing on this node" in result.stderr


def test_two_runs_at_once_on_one_node(node: Node, settings: Settings) -> None:
    node.publish(settings)
    first, second = node.start("head-configured"), node.start("head-configured")
    outputs = [process.communicate(timeout=300) for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), outputs
    # One after the other, never interleaved.
    marks = re.findall(r"trainyard: (role head-configured(?:,| is done))", node.log())
    assert marks == ["role head-configured,", "role head-configured is done"] * 2
    assert node.calls("systemctl").count("try-restart slurmctld") == 1


def test_held_lock_is_reported(node: Node, settings: Settings) -> None:
    held, release = node.path("/held"), node.path("/release")
    node.publish(
        settings, changed={"steps/limits.sh": f"touch '{held}'; while [[ ! -e '{release}' ]]; do sleep 0.1; done"}
    )
    node.environment["TRAINYARD_LOCK_SECONDS"] = "1"
    first = node.start("compute-start")
    try:
        while not held.exists():
            assert first.poll() is None
            time.sleep(0.1)
        second = node.run("compute-start")
    finally:
        release.touch()
    first.communicate(timeout=300)
    assert (first.returncode, second.returncode) == (0, 75)
    assert "another run of the bootstrap held" in second.stderr


def test_head_nodes_reason_reaches_the_failure_message(node: Node, settings: Settings) -> None:
    """ParallelCluster writes its own message over the file once the script has ended; the reason follows it."""
    (node.fake / "mounts").write_text("")
    node.publish(settings)
    message = node.path("/var/log/parallelcluster/bootstrap_error_msg")

    assert node.run("head-configured").returncode == 70
    assert not message.exists()
    time.sleep(0.3)
    message.write_text("fetch_and_run - Failed to execute OnNodeConfigured script 1, return code: 70.\n")

    deadline = time.monotonic() + 120
    while "trainyard:" not in message.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    first, second = message.read_text().splitlines()
    assert first.startswith("fetch_and_run")
    assert second.startswith("trainyard: step mounts of role head-configured") and "/lustre /shared" in second
