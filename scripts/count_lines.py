"""Count hand-written lines (blank lines and comments included) and compare them with the project's limits.

    python scripts/count_lines.py

Counts what git tracks: Python and shell by their ending, and scripts without an ending by their first line. Exit status
1 where a limit is exceeded.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = {".py", ".sh", ".sbatch"}
INTERPRETERS = re.compile(rb"#!.*\b(bash|sh|python3?)\b")

LIMITS: tuple[tuple[str, int, Callable[[str], bool]], ...] = (
    ("Python and shell without tests", 58_100, lambda name: not name.startswith("tests/")),
    ("tests", 41_300, lambda name: name.startswith("tests/")),
    ("local/", 9_360, lambda name: name.startswith("local/")),
)
MOST_GOLDEN_LINES = 20_000
MOST_HANDLER_MODULES = 15
MOST_FOLDERS = 12


def is_code(path: Path) -> bool:
    """Python or shell, by ending or by first line."""
    if path.suffix:
        return path.suffix in CODE
    with path.open("rb") as file:
        return bool(INTERPRETERS.match(file.readline()))


def main() -> int:
    """Print a table of folders, then one line for each limit."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    lines = {name: (ROOT / name).read_bytes().count(b"\n") for name in names if is_code(ROOT / name)}
    golden = sum(
        (ROOT / name).read_bytes().count(b"\n")
        for name in names
        if name.startswith("tests/golden/") and name not in lines
    )
    folders = Counter[str]()
    for name, count in lines.items():
        folders[name.split("/")[0] if "/" in name else "(root)"] += count
    for folder, count in folders.most_common():
        print(f"{count:7,}  {folder}")
    handler = [
        name for name in lines if re.fullmatch(r"lambda/cluster_resource/cluster_resource/(?!__init__)\w+\.py", name)
    ]
    results = [(label, sum(n for name, n in lines.items() if wanted(name)), limit) for label, limit, wanted in LIMITS]
    results += [
        ("golden files", golden, MOST_GOLDEN_LINES),
        ("modules of lambda/cluster_resource", len(handler), MOST_HANDLER_MODULES),
        ("top-level folders with code", sum(not name.startswith((".", "(")) for name in folders), MOST_FOLDERS),
    ]
    print()
    for label, count, limit in results:
        print(f"{'ok  ' if count <= limit else 'OVER'} {label}: {count:,} of at most {limit:,}")
    return int(any(count > limit for _, count, limit in results))


if __name__ == "__main__":
    sys.exit(main())
