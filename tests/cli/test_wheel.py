"""The wheel, installed outside of a checkout: what works there, and what it says where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".tools" / "uv" / "bin" / "uv"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`trainyard` of a new environment with the wheel; the dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [str(UV), "build", "--quiet", "--wheel", "--out-dir", str(folder / "dist"), str(ROOT)]
    subprocess.run(build, check=True, timeout=300)
    [wheel] = (folder / "dist").glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    install = [str(UV), "pip", "install", "--quiet", "--offline", "--no-deps", "--python", str(python), str(wheel)]
    subprocess.run(install, check=True, timeout=300)
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "venv" / "bin" / "trainyard"


def run(command: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "PYTHONPATH"))}
    return subprocess.run(
        [str(command), *arguments],
        cwd=command.parent,
        env=kept | {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--help"], "Exit statuses:"),
        (["check", str(ROOT / "environments" / "local.yaml")], "local.yaml: ok"),
        (["check", "jakarta-80xp5e"], "jakarta-80xp5e.yaml: ok"),
        (["names", "dev"], "region=us-west-2"),
        (["schema"], '"title": "Trainyard environment"'),
        (["completion", "bash"], "complete"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_that_need_only_python(command: Path, arguments: list[str], said: str) -> None:
    done = run(command, *arguments)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_it_synthesizes(command: Path, tmp_path: Path) -> None:
    """With the app, the constructs, the functions and the assets of the wheel."""
    packages = next(command.parents[1].glob("lib/python*/site-packages")) / "trainyard_files"
    program = (
        "import sys; from pathlib import Path; from ops.review import synthesis;"
        "print(synthesis.ROOT); print(*synthesis.synthesize(synthesis.ROOT, Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    file = ROOT / "environments" / "local.yaml"
    line = [str(command.with_name("python")), "-c", program, str(file), str(tmp_path / "out")]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    root, stacks = done.stdout.splitlines()
    assert Path(root) == packages
    assert "cluster" in stacks.split()


@pytest.mark.parametrize(
    "arguments",
    [["up", "local"], ["diff", "local"], ["lab", "status"], ["promote"], ["schema", "--write"]],
    ids=" ".join,
)
def test_what_needs_a_checkout_says_so(command: Path, arguments: list[str]) -> None:
    done = run(command, *arguments)
    assert done.returncode == 4
    assert "in a checkout of the repository" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_this_environment_is_the_checkout() -> None:
    """Otherwise the tests above would prove nothing."""
    assert Path(sys.prefix) == ROOT / ".venv"
