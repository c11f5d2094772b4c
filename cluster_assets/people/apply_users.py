"""apply_users.py PEOPLE_JSON --plan|--apply [--role head|login|compute]: users and groups of this node.

Prints one JSON object: changes (what differs, or was changed) and problems (what was left as it is, with the reason).
Changes nothing that it has not made: the names and ids that it has made are in STATE. No file below a home is ever
changed, given away or deleted. The standard library only, Python 3.9 or later; runs as root.

Exit codes: 0 nothing to do, or done; 1 differences (with --plan); 2 an error, or problems; the reason on stderr.
"""

from __future__ import annotations

import argparse
import grp
import json
import os
import pwd
import stat
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import people_node as node
from people_node import HOMES, SUDOERS, Fault, ids, local, owner, run, slurm, write

SETTINGS = Path("/opt/trainyard/settings.json")
STATE = Path("/var/lib/trainyard/people-state.json")
KEYS = Path("/etc/ssh/trainyard_keys")
SHELL, NO_SHELL = "/bin/bash", "/usr/sbin/nologin"
HEADER = "# Written by Trainyard from cluster/people.json; do not edit.\n"


class Accounts:
    """The differences of this node from people.json. With `apply`, each is removed as it is found."""

    def __init__(self, people: dict[str, Any], role: str, apply: bool, of_head: Path) -> None:
        self.people, self.role, self.apply = people, role, apply
        self.changes: list[str] = []
        self.problems: list[str] = []
        self.members: dict[str, set[str]] = {}
        self.good: list[dict[str, Any]] = []
        """Users whose name and id are ours on this node: a foreign one must get no key and no sudo from the file."""
        self.state: dict[str, dict[str, Any]] = {"users": {}, "groups": {}, "former": {}}
        if STATE.exists():
            self.state = json.loads(STATE.read_text(encoding="utf-8"))
        # A node that has just started does not know who had an id before.
        states = [json.loads(of_head.read_text(encoding="utf-8")), self.state] if of_head.exists() else [self.state]
        self.given: dict[int, str] = {}
        for state in states:
            self.given.update({number: name for kind in ("users", "groups") for name, number in state[kind].items()})
            self.given.update({int(number): name for number, name in state["former"].items()})

    def change(self, what: str, *actions: Callable[[], object]) -> bool:
        """Note a difference, and remove it; a failure is a problem of this difference only. Whether it succeeded."""
        if self.apply:
            try:
                for action in actions:
                    action()
            except (Fault, OSError) as error:
                self.problems.append(f"{what}: {error}")
                return False
        self.changes.append(what)
        return True

    def own(self, kind: str, name: str, number: int) -> None:
        """Note that a name is ours, before it is made: an interrupted run must know it again."""
        self.state[kind][name] = number
        self.state["former"].pop(str(number), None)
        self.save()

    def save(self) -> None:
        write(STATE, json.dumps(self.state, indent=1, sort_keys=True) + "\n", 0o600)

    def ours(self, kind: str, name: str, number: int, entry: list[str] | None, taken: str) -> bool:
        """Whether a name may be made or changed; otherwise the problem is noted."""
        former = self.given.get(number, name)
        reason = ""
        if entry is not None and name not in self.state[kind]:
            reason = "exists on this node and was not made from the people file"
        elif entry is not None and int(entry[2]) != number:
            reason = f"has the id {entry[2]} on this node, not {number}: files would change their owner"
        elif entry is None and taken:
            reason = f"cannot get the id {number}, which {taken} has on this node"
        elif former != name:
            reason = f"cannot get the id {number}, which was {former}'s: files of {former} would become theirs"
        if reason:
            self.problems.append(f"{kind[:-1]} {name} {reason}")
        return not reason

    def run(self) -> None:
        """All parts, in the order in which they need each other; one that fails ends no other."""
        parts = [self.groups, self.users, self.leavers, self.homes, self.keys, self.sudoers, self.folders]
        if not self.people.get("has_users", True):
            parts = [self.folders] if self.people.get("directory") else []
        for part in parts:
            try:
                part()
            except (Fault, OSError) as error:
                self.problems.append(f"{part.__name__}: {error}")

    def groups(self) -> None:
        """A group of each user's own, and those of the file with their members."""
        found = local("/etc/group")
        members = {group["name"]: set(group["members"]) for group in self.people["groups"]}
        for user in self.people["users"]:
            for team in user["teams"]:
                members.get(team, set()).add(user["name"])
        wanted = {**ids(self.people, "users", "uid"), **ids(self.people, "groups", "gid")}
        for name, number in wanted.items():
            entry = found.get(name)
            if not self.ours("groups", name, number, entry, owner(grp.getgrgid, number)):
                members.pop(name, None)
            elif entry is None:
                self.change(
                    f"create group {name} ({number})",
                    partial(self.own, "groups", name, number),
                    partial(run, "groupadd", "--gid", str(number), name),
                )
        self.members = members
        users = {**self.state["users"], **ids(self.people, "users", "uid")}
        for name in sorted(set(self.state["groups"]) - set(wanted) - set(users)):
            is_ours = name in found and int(found[name][2]) == self.state["groups"][name]
            remove: list[Callable[[], object]] = [partial(run, "groupdel", name)] if is_ours else []
            remove.append(partial(self.forget, "groups", name))
            self.change(f"remove group {name}; its files keep the number", *remove)

    def forget(self, kind: str, name: str) -> None:
        number = self.state[kind].pop(name)
        self.state["former"][str(number)] = name
        self.save()

    def users(self) -> None:
        found = local("/etc/passwd")
        for user in self.people["users"]:
            name, uid = user["name"], user["uid"]
            entry = found.get(name)
            if not self.ours("users", name, uid, entry, owner(pwd.getpwuid, uid)):
                continue
            exists = True
            if entry is None:
                # No password: with * sshd also accepts keys where PAM is off (sshd(8), locked accounts).
                line = ["useradd", "--uid", str(uid), "--gid", str(uid), "--no-create-home", "--no-log-init"]
                line += ["--home-dir", str(HOMES / name), "--shell", SHELL, "--password", "*", name]
                exists = self.change(
                    f"create user {name} ({uid})",
                    partial(self.own, "users", name, uid),
                    partial(run, *line),
                )
            elif entry[6] == NO_SHELL:
                self.change(
                    f"unlock user {name}",
                    partial(run, "usermod", "--expiredate", "", "--shell", SHELL, name),
                )
            if exists:
                self.good.append(user)
        good = {user["name"] for user in self.good}
        groups = local("/etc/group")
        for name, members in self.members.items():
            names = ",".join(sorted(members & good))
            if ",".join(sorted(groups[name][3].strip().split(",") if name in groups else [])) != names:
                self.change(
                    f"group {name} has the members: {names or 'none'}",
                    partial(run, "gpasswd", "--members", names, name),
                )

    def leavers(self) -> None:
        """Close the accounts of users that left the file, and remove those without processes and jobs."""
        found = local("/etc/passwd")
        for name in sorted(set(self.state["users"]) - {user["name"] for user in self.people["users"]}):
            uid = self.state["users"][name]
            if name in found and int(found[name][2]) != uid:
                self.problems.append(f"user {name} has the id {found[name][2]} on this node, not {uid}: left as it is")
                continue
            if name in found and found[name][6] != NO_SHELL:
                close = partial(run, "usermod", "--expiredate", "1", "--shell", NO_SHELL, name)
                self.change(f"close the account of {name}", close)
            if name in found and (busy := self.work_of(name, uid)):
                self.changes.append(f"keep the closed account of {name} until {busy}")
                continue
            remove: list[Callable[[], object]] = [partial(run, "userdel", name)] if name in found else []
            self.change(f"remove user {name}; home and files stay", *remove, partial(self.retire, name))

    def work_of(self, name: str, uid: int) -> str:
        """What still needs a former user's account; empty for nothing. Slurm starts no step of an unknown user.

        Each run ends what is not a running job: in the last one it may have failed, or a job may have started more.
        """
        busy = ""
        try:
            if self.apply and self.role == "head":
                slurm("scancel", "--user", name, "--state=PENDING")
            if slurm("squeue", "--noheader", f"--user={uid}", "--format=%i").strip():
                busy = "its jobs end"
        except Fault as error:
            busy = f"Slurm answers ({error})"
        if self.apply and not (busy and self.role == "compute"):
            run("pkill", "-KILL", "--uid", str(uid), check=False)
            for _ in range(20):  # a killed process takes a moment to end
                if not node.processes(uid):
                    break
                time.sleep(0.1)
        return busy or ("its processes end" if node.processes(uid) else "")

    def retire(self, name: str) -> None:
        if name in local("/etc/group"):  # userdel removes it only with USERGROUPS_ENAB
            run("groupdel", name)
        self.state["groups"].pop(name, None)
        self.forget("users", name)

    def homes(self) -> None:
        """Create homes, which all nodes share, on the head node. What exists is only looked at."""
        if self.role != "head":
            return
        for user in self.good:
            name, uid, home = user["name"], user["uid"], HOMES / user["name"]
            try:
                found = home.lstat()
            except FileNotFoundError:
                self.change(f"create {home}", partial(node.make_home, name, uid))
                continue
            if found.st_uid != uid or not stat.S_ISDIR(found.st_mode):
                what = f"belongs to uid {found.st_uid}, not {uid}" if stat.S_ISDIR(found.st_mode) else "is not a folder"
                self.problems.append(f"{home} {what}: left as it is. Move it away, or give the user its uid")

    def keys(self) -> None:
        """Public keys in a folder of root's, which sshd reads in addition to ~/.ssh/authorized_keys."""
        users = {user["name"]: user["keys"] for user in self.good if user["keys"]}
        texts = {name: HEADER + "".join(f"{key}\n" for key in keys) for name, keys in users.items()}
        found = {path.name: path for path in KEYS.glob("*")} if KEYS.is_dir() else {}
        for name, text in texts.items():
            if name not in found or found[name].read_text(encoding="utf-8") != text:
                self.change(f"keys of {name}", partial(write, KEYS / name, text, 0o644))
        for name in sorted(set(found) - set(texts)):
            self.change(f"remove keys of {name}", found[name].unlink)

    def sudoers(self) -> None:
        """Administrators may use sudo on head and login nodes."""
        names = [user["name"] for user in self.good if user["administrator"] and self.role != "compute"]
        text = HEADER + "".join(f"{name} ALL=(ALL) NOPASSWD:ALL\n" for name in names)
        before = SUDOERS.read_text(encoding="utf-8") if SUDOERS.exists() else ""
        if not names and before:
            self.change("no administrators", SUDOERS.unlink)
        elif names and text != before:
            self.change(f"administrators: {', '.join(names)}", partial(node.allow_sudo, text))

    def folders(self) -> None:
        """Open the cluster's user's folders: common ones to all users, those of a model to its team."""
        if self.role != "head":
            return
        settings = json.loads(SETTINGS.read_text(encoding="utf-8"))
        user = pwd.getpwnam(settings["cluster"]["user"])
        # Images and scripts run as whoever uses them.
        common = [path for name, path in settings["folders"].items() if name not in ("images", "scripts")]
        for path in [*common, *(f"{mount['path']}/.tests" for mount in settings["mounts"])]:
            self.share(path, user, "all users, who can remove only what is theirs", -1, 0o1777)
        teams = {model["name"]: model["team"] for model in self.people["models"] if model.get("team")}
        for model in settings["models"]:
            team = teams.get(model["name"])
            entry = local("/etc/group").get(team or "")
            if not entry or team not in self.members:  # a group of this name that is not ours
                continue
            for name, path in model["folders"].items():
                if name != "data":  # projects share data sets
                    self.share(path, user, f"the group {team}", int(entry[2]), 0o2775)

    def share(self, path: str, user: pwd.struct_passwd, whom: str, gid: int, mode: int) -> None:
        """Open a folder that still has the cluster's user and group to others."""
        try:
            folder = node.open_folder(path)
        except OSError:
            return  # not made yet, or a link
        found = os.fstat(folder)
        as_made = gid >= 0 or stat.S_IMODE(found.st_mode) == 0o775  # steps/folders.sh; another mode was set by somebody
        if as_made and found.st_uid == user.pw_uid and found.st_gid in (user.pw_gid, 0):
            change = partial(os.fchown, folder, -1, gid), partial(os.fchmod, folder, mode)
            self.change(f"{path} for {whom}", *change)
        os.close(folder)


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="apply_users.py", description=__doc__)
    parser.add_argument("people", type=Path)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--plan", action="store_true")
    how.add_argument("--apply", action="store_true")
    parser.add_argument("--role", choices=("head", "login", "compute"), default="head")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0 or os.environ.get("TRAINYARD_ROOT"):
        node.refuse("only root can manage users, and only those of the machine that it runs on")
    os.umask(0o022)
    people = node.load(options.people)
    accounts = Accounts(people, options.role, options.apply, options.people.with_name("ids.json"))
    accounts.run()
    if people.get("directory"):
        accounts.problems += node.directory_problems(people["directory"])
    sys.stdout.write(json.dumps({"changes": accounts.changes, "problems": accounts.problems}) + "\n")
    for problem in accounts.problems:
        sys.stderr.write(f"people: {problem}\n")
    if accounts.problems:
        return 2
    return 1 if options.plan and accounts.changes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
