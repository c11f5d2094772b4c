"""Links, paths and commands in README and docs exist; AWS commands are checked against botocore's service models."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from cli.parser import parser

ROOT = Path(__file__).parents[1]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
PAGES = [name for name in TRACKED if name.endswith(".md")]
TOP = {name.split("/")[0] for name in TRACKED if "/" in name}
FOLDERS = {str(parent) for name in TRACKED for parent in Path(name).parents}


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and Python-Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def commands(text: str) -> Iterator[list[str]]:
    """The commands of fenced shell blocks, without comments; continued lines are joined."""
    for block in re.findall(r"^[ ]*```(?:console|bash)\n(.*?)^[ ]*```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words:
                yield words


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text("utf-8"))):
            missing.append(target)
    assert not missing


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_paths_of_the_project_exist(page: str) -> None:
    missing = []
    for word in re.findall(r"`([\w.\-/]+/[\w.\-/]*)`", (ROOT / page).read_text("utf-8")):
        path = word.rstrip("/")
        if word.split("/")[0] in TOP and path not in FOLDERS and path not in TRACKED:
            missing.append(word)
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_named_tests_exist(page: str) -> None:
    named = re.findall(r"([\w/]*test_\w+\.py)::(test_\w+)", (ROOT / page).read_text("utf-8"))

    def exists(file: str, test: str) -> bool:
        files = (ROOT / name for name in TRACKED if f"/{name}".endswith(f"/{file}"))
        return any(f"def {test}(" in found.read_text("utf-8") for found in files)

    assert [f"{file}::{test}" for file, test in named if not exists(file, test)] == []


@functools.cache
def targets() -> set[str]:
    """make's targets."""
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


@functools.cache
def help_of(*command: str) -> str:
    """What a pinned program says of itself."""
    done = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


def check_cdk(words: list[str]) -> None:
    subcommand = words[1]
    text = help_of("node_modules/.bin/cdk", subcommand)
    for option in words[2:]:
        if option.startswith("--"):
            assert f"{option.split('=')[0]} " in text.replace(",", " "), f"cdk {subcommand} knows no {option}"
        elif option.startswith("-"):
            assert re.search(rf"(^|[ ,]){option}[ ,]", text), f"cdk {subcommand} knows no {option}"


def check_aws(words: list[str]) -> None:
    service, operation = words[1], words[2]
    if service == "s3":  # the AWS CLI's own commands, which no service model has
        assert operation in {"cp", "ls", "sync"}
        return
    session = botocore.session.get_session()
    if operation == "wait":
        waiters = session.get_waiter_model(service).waiter_names
        assert words[3] in {xform_name(name, "-") for name in waiters}, f"aws {service} wait has no {words[3]}"
        return
    model = session.get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in names, f"aws {service} has no {operation}"
    shape = model.operation_model(names[operation]).input_shape
    known = {xform_name(name, "-") for name in (shape.members if shape else ())}
    for option in words[3:]:
        name = option.removeprefix("--no-").removeprefix("--")
        if option.startswith("--"):
            assert name in known | {"query", "region", "output"}, f"aws {service} {operation} knows no {option}"


def check(words: list[str]) -> None:
    """Fail where a command, a target, an option or a file that it names does not exist."""
    program = words[0].removeprefix("./")
    match program.split("/")[-1]:
        case "make":
            assert {word for word in words[1:] if "=" not in word} <= targets()
        case "trainyard":
            parser().parse_args(words[1:])
        case "cdk":
            check_cdk(words)
        case "aws":
            check_aws(words)
        case name if name.endswith((".sh", ".sbatch", ".py")):
            assert any(Path(tracked).name == name for tracked in TRACKED), f"there is no {name}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for words in commands(text):
        check(words)
    for command in re.findall(r"`((?:node_modules/\.bin/)?cdk [a-z][^`]*)`", text):
        check(shlex.split(command))
