"""What apply_users.py does on a node: read people.json, run commands, make files, homes and rules.

The standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

HOMES = Path("/home")
SKELETON = Path("/etc/skel")
SUDOERS = Path("/etc/sudoers.d/90-trainyard-people")
SLURM = "/opt/slurm/bin"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
FIRST_ID, LAST_ID = 10000, 59999
TIMEOUT_S = 60


class Fault(Exception):
    """What cannot be done on this node; the message says why."""


def refuse(why: str) -> NoReturn:
    """End with a reason."""
    sys.stderr.write(f"people: {why}\n")
    sys.exit(2)


def run(*line: str, stdin: str | None = None, check: bool = True) -> str:
    """The output of a command, which must succeed if `check`."""
    try:
        done = subprocess.run(line, input=stdin, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Fault(f"{line[0]}: {error}") from error
    if check and done.returncode:
        raise Fault(f"{' '.join(line[:3])}: {done.stderr.strip()[-300:] or f'exit status {done.returncode}'}")
    return done.stdout


def load(path: Path) -> dict[str, Any]:
    """The people, from a file that only root can have written: users could make themselves administrators otherwise."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            for what, found in ((path, os.fstat(file.fileno())), (path.parent, path.parent.stat())):
                if found.st_uid != 0 or (found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX):
                    mode = f"{found.st_mode & 0o7777:o}"
                    refuse(f"{what} belongs to uid {found.st_uid}, mode {mode}: only root may be able to write it")
            people: dict[str, Any] = json.load(file)
    except (OSError, ValueError) as error:
        refuse(f"{path} cannot be read: {error}")
    if people.get("schema") != 1:
        refuse(f"{path} has schema {people.get('schema')!r}, this node knows 1: run the bootstrap again")
    for name, number in (*ids(people, "users", "uid").items(), *ids(people, "groups", "gid").items()):
        if not NAME.fullmatch(str(name)) or type(number) is not int or not FIRST_ID <= number <= LAST_ID:
            refuse(f"{path}: {name!r} with id {number!r} is not a name with an id from {FIRST_ID} to {LAST_ID}")
    for user in people["users"]:
        if any(not key.isprintable() for key in user["keys"]):
            refuse(f"{path}: a key of {user['name']} is not one line")
    return people


def ids(people: dict[str, Any], kind: str, number: str) -> dict[str, int]:
    return {item["name"]: item[number] for item in people[kind]}


def local(path: str) -> dict[str, list[str]]:
    """The lines of /etc/passwd or /etc/group by name: without the users of a directory."""
    lines = (line.split(":") for line in Path(path).read_text(encoding="utf-8").splitlines() if ":" in line)
    return {fields[0]: fields for fields in lines}


def owner(find: Callable[[int], Any], number: int) -> str:
    """Who has an id on this node; empty for nobody."""
    try:
        return str(find(number)[0])
    except KeyError:
        return ""


def write(path: Path, text: str, mode: int) -> None:
    """Replace a file of root's, whole or not at all."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
    temporary.chmod(mode)
    temporary.replace(path)


def open_folder(path: str) -> int:
    """Open a folder without following links: members of teams can write on the way."""
    folder = os.open("/", os.O_DIRECTORY)
    for part in filter(None, path.split("/")):
        parent, folder = folder, -1
        try:
            folder = os.open(part, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        finally:
            os.close(parent)
    return folder


def directory_problems(directory: dict[str, Any]) -> list[str]:
    """What is wrong with the directory of users, as this node sees it."""
    problems = []
    try:
        context = ssl.create_default_context(cafile=directory["ca_certificate"])
    except OSError as error:
        return [f"the certificates of {directory['ca_certificate']} cannot be read: {error}"]
    if directory["verify"] not in ("hard", "demand"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for uri in directory["address"].split(","):
        scheme, _, place = uri.partition("://")
        host, _, port = place.partition(":")
        try:
            with socket.create_connection((host, int(port or (636 if scheme == "ldaps" else 389))), 5) as connection:
                if scheme == "ldaps":
                    context.wrap_socket(connection, server_hostname=host).close()
        except OSError as error:
            problems.append(f"the directory {uri} does not answer: {error}")
    if run("systemctl", "is-active", "sssd", check=False).strip() != "active":
        problems.append("sssd does not run: users of the directory cannot log in, and their jobs fail")
    return problems


def slurm(*line: str) -> str:
    return run(f"{SLURM}/{line[0]}", *line[1:])


def processes(uid: int) -> str:
    """Ids of the processes of a user, a line each."""
    return run("pgrep", "--uid", str(uid), check=False).strip()


def make_home(name: str, uid: int) -> None:
    """Create a home with a key pair for SSH between nodes, under a hidden name: its user cannot interfere."""
    temporary = HOMES / f".{name}.new"
    if temporary.exists():
        shutil.rmtree(temporary)  # of an interrupted run: nobody has used it
    temporary.mkdir(mode=0o700)
    if SKELETON.is_dir():
        shutil.copytree(SKELETON, temporary, symlinks=True, dirs_exist_ok=True)
        temporary.chmod(0o700)
    ssh = temporary / ".ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    if shutil.which("ssh-keygen"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@cluster", "-f", str(ssh / "id_ed25519"))
        write(ssh / "authorized_keys", (ssh / "id_ed25519.pub").read_text(encoding="utf-8"), 0o600)
    for folder, folders, files in os.walk(temporary):
        for item in (*folders, *files):
            os.chown(Path(folder) / item, uid, uid, follow_symlinks=False)
    os.chown(temporary, uid, uid)
    temporary.rename(HOMES / name)


def allow_sudo(text: str) -> None:
    """Install the rules if sudo accepts them: a wrong file would take sudo from everybody."""
    checked = Path("/var/lib/trainyard/sudoers.check")
    write(checked, text, 0o440)
    try:
        run("visudo", "-cqf", str(checked))
    finally:
        checked.unlink()
    write(SUDOERS, text, 0o440)


if __name__ == "__main__":
    load(Path(sys.argv[1]))  # ends with the reason if the file is refused
