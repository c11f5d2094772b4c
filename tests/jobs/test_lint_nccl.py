"""The lint of NCCL, EFA and rank settings: each harmful one in each kind of script, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.conftest import ROOT, load_module

LINT = ROOT / "scripts" / "lint_nccl.py"


lint = load_module(LINT)
# A value that each rule rejects.
HARMFUL = {rule.name: "1" for rule in lint.RULES} | {
    "NCCL_ALGO": "Tree",
    "NCCL_PROTO": "simple",
    "NCCL_SOCKET_IFNAME": "ens5",
    "NCCL_IFNAME": "eth0",
    "NCCL_NET": "Socket",
    "FI_PROVIDER": "tcp",
    "CUDA_VISIBLE_DEVICES": "0,1,2,3",
}
FORMS = {
    "run.sh": "#!/bin/bash\nexport {name}={value}\n",
    "alone.sh": "#!/bin/bash\n{name}={value} torchrun train.py\n",
    "quoted.sh": "#!/bin/bash\nexport {name}='{value}'\n",
    "job.sbatch": "#!/bin/bash\n#SBATCH --export=ALL,{name}={value}\nsrun true\n",
    "srun.sbatch": "#!/bin/bash\nsrun --export=ALL,{name}={value} true\n",
    "Dockerfile": "FROM scratch\nENV {name}={value}\n",
    "old.Dockerfile": "FROM scratch\nENV {name} {value}\n",
    "pod.yaml": "env:\n  {name}: '{value}'\n",
    "list.yaml": "env:\n  - name: {name}\n    value: '{value}'\n",
    "train.py": "import os\nos.environ['{name}'] = '{value}'\n",
    "default.py": 'import os\nos.environ.setdefault("{name}", "{value}")\n',
    "mapping.py": 'env = {{"{name}": "{value}"}}\n',
    "config.json": '{{"env": {{"{name}": "{value}"}}}}\n',
}


def run(*files: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, LINT, *files], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", HARMFUL)
def test_each_harmful_setting_in_each_kind_of_script(name: str, form: str) -> None:
    found = [rule.name for _, rule, _ in lint.faults(FORMS[form].format(name=name, value=HARMFUL[name]))]
    assert found == [name]


@pytest.mark.parametrize(
    "text",
    [
        'export NCCL_SOCKET_IFNAME="^docker,lo,veth"',
        "export NCCL_NET=OFI FI_PROVIDER=efa",
        "NCCL_DEBUG=INFO srun all_reduce_perf",
        "# NCCL_ALGO=Tree hangs on EFA",
        'echo "rank ${RANK} sees ${CUDA_VISIBLE_DEVICES}"',
        'if [[ "${NCCL_NET}" == Socket ]]; then exit 1; fi',
        "NODE_RANK=0",
        "rank = int(os.environ['RANK'])",
        'value = os.environ.get("CUDA_VISIBLE_DEVICES")',
        'x="${CUDA_VISIBLE_DEVICES:-none}"',
        "export NCCL_P2P_DISABLE=1 # nccl-lint: allow NCCL_P2P_DISABLE -- shows the fall-back on purpose",
        "# nccl-lint: allow NCCL_ALGO -- measures the tuner against it\nexport NCCL_ALGO=Ring",
    ],
)
def test_what_is_right_passes(text: str) -> None:
    assert not list(lint.faults(text))


def test_an_exception_needs_its_reason_and_its_name() -> None:
    assert list(lint.faults("export NCCL_ALGO=Ring # nccl-lint: allow NCCL_ALGO --"))
    assert list(lint.faults("export NCCL_ALGO=Ring # nccl-lint: allow NCCL_PROTO -- for another"))


def test_the_line_says_what_why_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("#!/bin/bash\nexport NCCL_PROTO=simple\n")
    done = run(file)
    assert done.returncode == 1
    assert done.stdout == (
        f"{file}:2: NCCL_PROTO: turns off LL and LL128, which small messages on P5 need. "
        "Do: remove it: the tuner chooses by size.\n"
    )


def test_this_project_is_clean_and_its_jobs_are_looked_at() -> None:
    done = run()
    assert done.returncode == 0, done.stdout
    assert lint.is_script(Path("cluster_assets/jobs/hello-gpu.sbatch"))
    assert "$(PY) scripts/lint_nccl.py" in (ROOT / "Makefile").read_text()


def test_a_file_that_is_not_there() -> None:
    done = run("nowhere.sh")
    assert done.returncode == 2
    assert "nowhere.sh cannot be read" in done.stderr
