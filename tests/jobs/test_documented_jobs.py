"""The cluster commands of the documentation, as printed, on the laboratory: Slurm judges each job, and starts none."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.slurm import Laboratory
from tests.jobs.conftest import NODE_TORCH, ROOT
from tests.jobs.test_fine_tuning import safetensors

BLOCK = re.compile(r"<!-- on the cluster -->\n```(?:bash|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Their commands need queues, nodes or files that this laboratory lacks; tests of their own run them (test_megatron.py).
OTHERS = {"docs/bootstrap.md", "docs/megatron.md"}
PAGES = sorted(
    name
    for path in (ROOT / "docs").glob("*.md")
    if BLOCK.search(path.read_text("utf-8")) and (name := path.relative_to(ROOT).as_posix()) not in OTHERS
)
FIRST = ("source ~/pcluster-env.sh", 'cd "$SCRIPTS_DIR/current/jobs"')
# Programs of Slurm and Linux that only have to exist.
PLAIN = {"cat", "head", "ls", "sacct", "sacctmgr", "scancel", "sinfo", "squeue", "sshare", "tail"}


def dry(line: str) -> str:
    """A command that checks what the printed one would do, and changes nothing."""
    words = shlex.split(line, comments=True)
    program = words[0]
    if program in {"source", "cd", "export"}:
        return line
    if program == "sudo":
        return line if line.split("#", maxsplit=1)[0].rstrip().endswith("/apply.sh plan") else f"command -v {words[1]}"
    if program in PLAIN:
        return f"command -v {program}"
    if program in {"sbatch", "srun"} or program.endswith((".sbatch", "/shell.sh")):
        return re.sub(rf"^{re.escape(program)}", f"{program} --test-only", line)
    if program == "python3":
        return f"{program} {words[1]} --help"
    assert program.endswith(".sh"), f"`{line}`: the test does not know how to check it; add the program to it"
    return f"{program} --help"


def commands(page: str) -> list[str]:
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def write_weights(folder: Path, lab: Laboratory, target: str) -> None:
    """What the check before a submission reads of a model; the file of weights by a program, because it is binary."""
    sizes = {"hidden_size": 4, "num_hidden_layers": 1, "vocab_size": 8, "tie_word_embeddings": True}
    lab.write(f"{target}/config.json", json.dumps(sizes))
    lab.write(f"{target}/tokenizer.json", json.dumps({"model": {"vocab": {"a": 0, "b": 6}}, "added_tokens": []}))
    safetensors(folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes().hex()
    lab.run(["python3", "-c", f"open('{target}/model.safetensors', 'wb').write(bytes.fromhex('{content}'))"])


@pytest.fixture(scope="module")
def prepared(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the pages assume: an imported image, a data set, a queue `cpu`, and a job file of the user."""
    image, mine = "/fsx1/containers/images/pytorch.sqsh", "/home/ubuntu/.documented/my-job.sbatch"
    data = lab.plan.settings()["folders"]["data"]  # type: ignore[index]
    lab.write(image, "")
    lab.run(["mkdir", "-p", f"{data}/corpus", f"{data}/wikitext-2"])
    for split in ("train", "test"):
        lab.write(f"{data}/wikitext-2/wiki.{split}.tokens", "text")
    write_weights(tmp_path_factory.mktemp("weights"), lab, f"{data}/qwen2.5-0.5b")
    # Where the pages have data, which is on the head node only: Slurm gets none of the jobs.
    for folder in ("/fsx/data", "/lustre/data"):
        lab.run(["install", "-d", "-o", "ubuntu", folder], user="root")
        write_weights(tmp_path_factory.mktemp("weights"), lab, f"{folder}/qwen2.5-0.5b")
        lab.run(["ln", "-sfn", f"{data}/wikitext-2", f"{folder}/wikitext-2"])
    lab.run(
        ["scontrol", "create", "PartitionName=cpu", f"Nodes={','.join(node.name for node in lab.plan.compute)}"],
        user="root",
    )
    lab.write(mine, "#!/bin/bash\nsrun true\n", mode=0o755)
    yield
    lab.run(["rm", "-r", image, mine, *(f"{data}/{name}" for name in ("corpus", "wikitext-2", "qwen2.5-0.5b"))])
    lab.run(["scontrol", "delete", "PartitionName=cpu"], user="root")


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("page", PAGES)
def test_slurm_would_take_what_the_page_says(lab: Laboratory, page: str) -> None:
    script = [*FIRST, f"export PYTHONPATH={NODE_TORCH}"]
    lines = commands(page)
    for number, line in enumerate(lines):
        checked = dry(line).replace("my-job.sbatch", "~/.documented/my-job.sbatch")
        # A job that Slurm would take is reported with its start.
        script.append(f"{{ {checked}\n}} >/tmp/documented 2>&1 || {{ echo 'FAILED {number}'; cat /tmp/documented; }}")
        if "--test-only" in checked:
            script.append(f"grep -q 'to start at' /tmp/documented || echo 'REFUSED {number}'")
    said = lab.run(["bash", "-lc", "\n".join(script)], check=False).stdout
    failed = [f"{lines[int(number)]}\n" for number in re.findall(r"(?m)^(?:FAILED|REFUSED) (\d+)", said)]
    assert not failed, f"{page}: {failed}\n{said}"


def test_the_pages_have_commands() -> None:
    assert {"docs/jobs.md", "docs/training-data.md", "docs/tutorial.md"} <= set(PAGES)


def test_prices_of_the_tutorial_are_those_of_the_file() -> None:
    text = (ROOT / "docs/tutorial.md").read_text("utf-8")
    known = json.loads((ROOT / "settings/data/prices.json").read_text())["regions"]["us-east-1"]
    found = dict(re.findall(r"`([a-z0-9]+\.\d*x?large)` \| ([\d.]+) per hour", text))
    assert len(found) == 3
    assert found == {name: str(known["instance_hour"][name]) for name in found}
    openzfs = known["openzfs"]["SINGLE_AZ_1"]
    assert f"| {512 * openzfs['gib_month'] + 640 * openzfs['mbps_month']:.2f} per month" in text
