"""Mutation testing with mutmut: does a quick test fail when one expression of a module changes?

`make mutants [ONLY=decide,settings]` runs it; docs/mutants.md lists the survivors with reasons. Each target is mutated
in a copy of the working tree under .trainyard/mutants/, with its package at the top of the copy, where mutmut expects
it.
"""

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRATCH = ROOT / ".trainyard" / "mutants"
LEAST_KILLED = 85
MUTMUT = (sys.executable, "-m", "mutmut")


@dataclass(frozen=True)
class Target:
    """Modules (globs inside `package`) and the pytest arguments that select their quick tests."""

    package: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


HANDLER = "lambda/cluster_resource/cluster_resource"
DECIDE_TESTS = ("tests/cluster_resource/test_decide.py", "tests/cluster_resource/test_cancelled.py")
RESPONSE_TESTS = ("tests/cluster_resource/test_response.py", "tests/cluster_resource/test_handlers.py")
# Of the tests of the verdict those that synthesize nothing.
VERDICT_TESTS = tuple(f"tests/ops/review/test_{name}.py" for name in ("verdict", "data_loss", "shares"))
# Not items.py: it builds rules at import, when mutmut has not yet selected a mutant.
RULES = ("compute", "file_systems", "models", "names", "network", "slurm")
TARGETS = {
    "decide": Target(HANDLER, ("decide.py",), DECIDE_TESTS),
    "response": Target(HANDLER, ("response.py",), RESPONSE_TESTS),
    "settings": Target(
        "settings",
        tuple(f"rules/{name}.py" for name in RULES),
        ("tests/settings/test_rules.py", "tests/settings/test_figures.py"),
    ),
    "verdict": Target("ops", ("review/verdict.py", "review/data_loss.py"), VERDICT_TESTS),
}


def prepare(target: Target, folder: Path) -> None:
    """Copy the working tree to `folder` and write mutmut's configuration there."""
    shutil.rmtree(folder, ignore_errors=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    package = Path(target.package).name
    for name in listed.stdout.splitlines():
        source, copy = ROOT / name, folder / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    if package != target.package:
        (folder / target.package).rename(folder / package)
    others = sorted(item.name for item in folder.iterdir() if item.name not in (package, "pyproject.toml", "tests"))
    for installed in (".venv", "node_modules", "parallelcluster/.venv", "local/.venv", "local/node_modules"):
        link = folder / "mutants" / installed
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(ROOT / installed)
    configuration = {
        "source_paths": [package],
        "only_mutate": [f"{package}/{module}" for module in target.modules],
        "also_copy": others,
        "timeout_multiplier": 3.0,
        "timeout_constant": 3.0,
        "pytest_add_cli_args": ["-p", "no:xdist", "-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": list(target.tests),
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in configuration.items()]
    with (folder / "pyproject.toml").open("a") as file:
        file.write("\n".join(("", "[tool.mutmut]", *lines, "")))


def run(name: str, target: Target) -> bool:
    """Test every mutant of a target and print the survivors. True if enough were killed."""
    folder = SCRATCH / name
    print(f"{name}: copying and mutating; the log is {folder.relative_to(ROOT)}/run.log", flush=True)
    prepare(target, folder)
    log = folder / "run.log"
    with log.open("w") as output:
        command = [*MUTMUT, "run", "--max-children", "1"]
        ended = subprocess.run(command, cwd=folder, stdout=output, stderr=output, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"{name}: mutmut failed; see {log.relative_to(ROOT)}")
    _mutmut(folder, "export-cicd-stats")
    stats = json.loads((folder / "mutants" / "mutmut-cicd-stats.json").read_text())
    results = _mutmut(folder, "results").splitlines()  # a mutant that timed out counts as killed
    left = [line.strip().partition(":")[0] for line in results if line.rstrip().endswith((": survived", ": no tests"))]
    for mutant in left:
        print(_mutmut(folder, "show", mutant))
    killed = stats["total"] - len(left)
    percent = 100 * killed / stats["total"]
    print(f"{name}: {killed} of {stats['total']} mutants killed ({percent:.1f} %; at least {LEAST_KILLED} % wanted)")
    return bool(percent >= LEAST_KILLED)


def _mutmut(folder: Path, *arguments: str) -> str:
    return subprocess.run([*MUTMUT, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="?", default="", help=f"comma-separated, of {', '.join(TARGETS)}; default: all")
    chosen = [name for name in parser.parse_args().only.split(",") if name] or list(TARGETS)
    unknown = sorted(set(chosen) - set(TARGETS))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; allowed are {', '.join(TARGETS)}")
    enough = [run(name, TARGETS[name]) for name in chosen]
    return 0 if all(enough) else 1


if __name__ == "__main__":
    sys.exit(main())
