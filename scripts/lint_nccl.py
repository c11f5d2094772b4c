"""lint_nccl.py [FILE...]: rejects harmful and obsolete settings of NCCL, EFA and ranks in scripts.

Without files it checks everything in git outside tests/ that can set variables: shell, sbatch, Python, YAML, JSON,
Dockerfiles and files with a shebang. A line may keep a setting with a reason: `nccl-lint: allow NAME -- reason`.

Exit codes: 0 clean; 1 found settings to change; 2 wrong arguments.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SUFFIXES = {".sh", ".sbatch", ".bash", ".py", ".yaml", ".yml", ".json", ".env", ".conf", ".cfg", ".toml"}
_OWN = Path(__file__).resolve()


@dataclass(frozen=True)
class Rule:
    """A setting, and a pattern of the rejected values unless all are."""

    name: str
    reason: str
    remedy: str = "remove it"
    value: str = ""


_TUNED = "remove it: the tuner chooses by size"
_EXCLUDE = "exclude instead: NCCL_SOCKET_IFNAME=^docker,lo,veth"
_ANY_TASK = "has the same value for every task if the batch script sets it"
RULES = (
    Rule("FI_EFA_FORK_SAFE", "obsolete: the plugin aws-ofi-nccl and the kernel handle it"),
    Rule("FI_EFA_USE_DEVICE_RDMA", "obsolete: the plugin sets it if the device supports it"),
    Rule("RDMAV_FORK_SAFE", "obsolete: the plugin aws-ofi-nccl and the kernel handle it"),
    Rule("NCCL_TREE_THRESHOLD", "has no effect since NCCL 2.5"),
    Rule("NCCL_ALGO", "bypasses the tuner, and Tree was seen to hang on EFA", _TUNED),
    Rule("NCCL_PROTO", "turns off LL and LL128, which small messages on P5 need", _TUNED),
    Rule("NCCL_IB_DISABLE", "a debugging variable; EFA is not InfiniBand", "remove it; set NCCL_NET=OFI instead"),
    Rule("NCCL_NET_GDR_LEVEL", "a debugging variable that overrides the topology"),
    Rule("NCCL_P2P_LEVEL", "a debugging variable that overrides the topology"),
    Rule("NCCL_P2P_DISABLE", "turns NVLink off"),
    Rule("NCCL_SHM_DISABLE", "turns shared memory off"),
    Rule("NCCL_MIN_NCHANNELS", "deprecated since 2.17, and more channels starve EFA"),
    Rule("NCCL_IFNAME", "not a variable of NCCL", "set NCCL_SOCKET_IFNAME=^docker,lo,veth"),
    Rule("NCCL_SOCKET_IFNAME", "names an interface, which differs between instance types", _EXCLUDE, value=r"[^^]"),
    Rule("NCCL_NET", "lets NCCL silently use TCP", "set NCCL_NET=OFI on nodes with EFA only", r"(?i:socket|ib)\b"),
    Rule("FI_PROVIDER", "another provider than EFA", "set FI_PROVIDER=efa on nodes with EFA only", r"(?!efa\b)\w"),
    Rule("CUDA_VISIBLE_DEVICES", "overrides the GPUs that Slurm assigned", "remove it: Slurm and torchrun set it"),
    Rule("RANK", _ANY_TASK, "let torchrun set it"),
    Rule("LOCAL_RANK", _ANY_TASK, "let torchrun set it"),
)

_BY_NAME = {rule.name: rule for rule in RULES}
_NAMES = "|".join(sorted(_BY_NAME, key=len, reverse=True))
# An assignment in a shell, an env file, `env`, srun --export or a Dockerfile; a key in YAML, JSON or Python; a call.
_FORMS = (
    re.compile(rf"(?<![\w.$\-{{])(?P<name>{_NAMES})\s*=(?!=)\s*(?P<value>.*)"),
    re.compile(rf"^\s*ENV\s+(?P<name>{_NAMES})\s+(?P<value>.*)"),
    re.compile(rf"(?P<quote>[\"']?)\b(?<![\w.$\-{{])(?P<name>{_NAMES})(?P=quote)\s*:(?![=\-+?])\s*(?P<value>.*)"),
    re.compile(rf"\[\s*[\"'](?P<name>{_NAMES})[\"']\s*\]\s*=(?!=)\s*(?P<value>.*)"),
    re.compile(rf"(?:setdefault|putenv|setenv)\w*\(\s*[\"'](?P<name>{_NAMES})[\"']\s*,\s*(?P<value>.*)"),
    re.compile(rf"name:\s*[\"']?(?P<name>{_NAMES})[\"']?\s*(?P<value>$)"),
)
_ALLOWED = re.compile(r"nccl-lint: allow (?P<names>[A-Z_,0-9]+) -- \S")


def faults(text: str) -> Iterator[tuple[int, Rule, str]]:
    """Line number, rule and value of every rejected setting."""
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        allowed = _ALLOWED.search(line) or (_ALLOWED.search(lines[number - 2]) if number > 1 else None)
        allowed_names = set(allowed["names"].split(",")) if allowed else set()
        if line.lstrip().startswith("#") and not line.lstrip().startswith("#SBATCH"):
            continue
        for form in _FORMS:
            for match in form.finditer(line):
                value = match["value"].lstrip("\"' ")
                # A Kubernetes list names the variable on one line and gives its value on the next.
                if form is _FORMS[-1] and number < len(lines):
                    value = re.sub(r"^\s*value:\s*[\"']?", "", lines[number])
                rule = _BY_NAME[match["name"]]
                if rule.name not in allowed_names and (not rule.value or re.match(rule.value, value)):
                    allowed_names.add(rule.name)  # once for each line
                    yield number, rule, value


def scripts() -> list[Path]:
    """Every script that git tracks or could track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.split("\0") if name and (path := Path(name)).is_file() and is_script(path)]


def is_script(path: Path) -> bool:
    """Whether a file can set variables, by its name or shebang."""
    if path.resolve() == _OWN or path.parts[0] == "tests":  # tests contain rejected settings
        return False
    if path.suffix in _SUFFIXES or "Dockerfile" in path.name:
        return True
    with path.open("rb") as file:
        return path.suffix == "" and file.read(2) == b"#!"


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    if any(word.startswith("-") for word in arguments):
        print(__doc__, file=sys.stderr)
        return 0 if arguments in (["--help"], ["-h"]) else 2
    found = 0
    for path in [Path(word) for word in arguments] or scripts():
        try:
            text = path.read_text(errors="replace")
        except OSError as problem:
            print(f"lint_nccl: {path} cannot be read: {problem.strerror}", file=sys.stderr)
            return 2
        for number, rule, _ in faults(text):
            found += 1
            print(f"{path}:{number}: {rule.name}: {rule.reason}. Do: {rule.remedy}.")
    if found:
        print(f"lint_nccl: {found} settings of NCCL, EFA or ranks to change; see docs/jobs.md", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
