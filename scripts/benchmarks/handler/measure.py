"""Compares start time and memory of our custom resource's handler and ParallelCluster's.

    python scripts/benchmarks/handler/measure.py CLUSTER_YAML [--runs 7]

CLUSTER_YAML is cloudformation/custom_resource/cluster.yaml of aws/aws-parallelcluster, whose inline handler is
extracted into a temporary folder and imported with the package of parallelcluster/.venv, as with its Lambda layer. Each
run is a new process that imports a handler and prints time and peak memory. Only the ratio is meaningful: both are
measured on the same host, not in Lambda.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
OURS = ROOT / "lambda" / "cluster_resource"
THEIRS = ROOT / "parallelcluster" / ".venv"
PROBE = """
import json, os, resource, sys, time
os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
os.environ.setdefault("AWS_REGION", "us-east-1")
sys.path.insert(0, {folder!r})
begun = time.perf_counter()
{imports}
taken = time.perf_counter() - begun
print(json.dumps({{"seconds": taken, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}}))
"""
LAYER_PATH = "/opt/python/pcluster/resources/custom_resources/custom_resources_code"


@dataclass(frozen=True)
class Figures:
    """Medians of the runs: seconds to import, MiB of memory at most; bytes of the code on disk."""

    seconds: float
    mib: float
    bytes: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("template", type=Path, metavar="CLUSTER_YAML")
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    if not given.template.is_file():
        parser.error(f"{given.template} is not a file: give cloudformation/custom_resource/cluster.yaml")
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "official_handler.py"
        index.write_text(handler_of(given.template), encoding="utf-8")
        theirs = measure(THEIRS / "bin" / "python", folder, "import official_handler", given.runs, _site_packages())
    imports = "import cluster_resource.on_event, cluster_resource.work"
    ours = measure(ROOT / ".venv" / "bin" / "python", str(OURS), imports, given.runs, OURS)
    print(table(ours, theirs))
    return 0


def handler_of(template: Path) -> str:
    """The inline handler of the official provider, with the layer's path where the package lies here."""
    document = yaml.load(template.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader
    code = str(document["Resources"]["PclusterCfnFunction"]["Properties"]["Code"]["ZipFile"])
    here = _site_packages() / "pcluster" / "resources" / "custom_resources" / "custom_resources_code"
    code = textwrap.dedent(code).replace(LAYER_PATH, str(here))
    # Of the Lambda runtime, and not on PyPI; it is called in a failure only.
    return code.replace("import cfnresponse\n", "")


def measure(python: Path, folder: str, imports: str, runs: int, code: Path) -> Figures:
    probe = PROBE.format(folder=folder, imports=imports)
    results: list[dict[str, float]] = []
    for _ in range(runs + 1):
        done = subprocess.run([str(python), "-c", probe], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{python} -c '{imports}' failed:\n{done.stderr}")
        results.append(json.loads(done.stdout.splitlines()[-1]))
    # The first run compiles byte code and fills the page cache.
    counted = results[1:]
    return Figures(
        seconds=statistics.median(item["seconds"] for item in counted),
        mib=statistics.median(item["mib"] for item in counted),
        bytes=sum(file.stat().st_size for file in code.rglob("*") if file.is_file() and file.suffix != ".pyc"),
    )


def table(ours: Figures, theirs: Figures) -> str:
    rows = [
        ("import, s", f"{ours.seconds:.2f}", f"{theirs.seconds:.2f}", f"{theirs.seconds / ours.seconds:.1f}"),
        ("memory, MiB", f"{ours.mib:.0f}", f"{theirs.mib:.0f}", f"{theirs.mib / ours.mib:.1f}"),
        ("code, MB", f"{ours.bytes / 1e6:.2f}", f"{theirs.bytes / 1e6:.0f}", f"{theirs.bytes / ours.bytes:.0f}"),
    ]
    lines = [f"Python {platform.python_version()}, {platform.machine()}", "", "| | ours | official | ratio |"]
    return "\n".join([*lines, "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


def _site_packages() -> Path:
    found = sorted((THEIRS / "lib").glob("python3.*/site-packages"))
    if not found:
        sys.exit(f"{THEIRS.relative_to(ROOT)} has no packages: run `make setup` first.")
    return found[0]


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms, whose content alone is of interest."""


def _content(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> Any:  # noqa: ANN401 - YAML
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)  # noqa: S101 - there are no other nodes
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("!", _content)

if __name__ == "__main__":
    sys.exit(main())
