"""The document's script where slurmctld does not answer; tests/slurm/test_new_jobs.py runs it on a real one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.stubs import fake_command
from trainyard.head_node_documents import NEW_JOBS

PARTITIONS = (
    "PartitionName=gpu AllowGroups=ALL State=UP TotalCPUs=1\nPartitionName=cpu Nodes=a State=DOWN TotalCPUs=1\n"
)


def run(folder: Path, action: str, scontrol: str) -> tuple[int, str]:
    program = fake_command(folder / "scontrol", scontrol)
    text = NEW_JOBS.read_text("utf-8").replace("{{ Action }}", action)
    text = text.replace("/opt/slurm/bin/scontrol", str(program)).replace("/var/lib/trainyard", str(folder))
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize("action", ["stop", "resume"])
@pytest.mark.parametrize("fails", ["show", "update"])
def test_a_failure_of_scontrol_is_a_failure_of_the_command(tmp_path: Path, action: str, fails: str) -> None:
    (tmp_path / "new-jobs-stopped").write_text("cpu\n")
    answer = (
        f'[[ $1 == {fails} ]] && {{ echo "Unable to contact slurm controller" >&2; exit 1; }}\nprintf "{PARTITIONS}"'
    )
    status, output = run(tmp_path, action, answer)
    assert status != 0
    assert output == ""
