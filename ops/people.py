"""`trainyard user`: change the people file, and apply people to a running cluster without an update of it."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ops import people_edit
from ops.problem import Problem
from ops.validation.head_node import HeadNode, document, find
from settings import load
from settings.model.people import FIRST_ID, LAST_ID
from settings.rules.people import PRIVATE_KEY, key_fault
from trainyard.cluster_people import PEOPLE, cluster_people

if TYPE_CHECKING:
    import boto3

    from settings import Environment

EMPTY = "users: []\n"
PARTS = ("users", "groups", "removed")
LATE = "has not applied these people yet"
"""The status that cluster_assets/people/apply.sh reports for a node that has not applied the file."""
Content = dict[str, Any]


def people_file(file: Path) -> Path:
    """The people file of an environment file, which need not exist yet.

    Raises:
        Problem: the environment has none.
        Faults: the environment file has faults.
    """
    environment = load(file, people_text=EMPTY)
    if environment.people.file is None:
        raise Problem(
            f"{file} has no people file.\nAdd the key people with file: people/{environment.name}.yaml, and run the "
            "command again; users of a directory are changed there."
        )
    return file.parent / environment.people.file


def add(
    file: Path, name: str, *, keys: Iterable[str], teams: Iterable[str], administrator: bool, quota: int | None
) -> int:
    """Add a user to the people file; returns the uid. A former user gets the former uid back.

    Args:
        keys: public keys, or paths of files with one.

    Raises:
        Problem: the user exists, or a key is none.
        Faults: the result is not a valid environment. The file is then as it was.
    """
    lines, wanted = [public_key(key) for key in keys], list(dict.fromkeys(teams))

    def change(text: str, content: Content) -> tuple[str, int]:
        if any(user.get("name") == name for user in content["users"]):
            raise Problem(f"The user {name} exists already in {people_file(file)}. Edit the file to change it.")
        former = next((gone for gone in content["removed"] if gone.get("name") == name), None)
        uid: int = former["uid"] if former else _next_id(content)
        if former:
            content["removed"].remove(former)
            text = people_edit.delete(text, "removed", name)
        user: Content = {"name": name, "uid": uid, "keys": lines}
        user |= {"teams": wanted} if wanted else {}
        user |= {"administrator": True} if administrator else {}
        user |= {"home_quota_gib": quota} if quota else {}
        content["users"].append(user)
        text = people_edit.insert(text, "users", user)
        for team in wanted:
            if all(group.get("name") != team for group in content["groups"]):
                group = {"name": team, "gid": _next_id(content)}
                content["groups"].append(group)
                text = people_edit.insert(text, "groups", group)
        return text, uid

    return _edit(file, change)


def remove(file: Path, name: str) -> int:
    """Move a user to `removed`; returns the uid. Raises as `add`."""

    def change(text: str, content: Content) -> tuple[str, int]:
        user = next((user for user in content["users"] if user.get("name") == name), None)
        if user is None:
            known = ", ".join(str(user.get("name")) for user in content["users"]) or "none"
            raise Problem(f"There is no user {name} in {people_file(file)}. Users: {known}.")
        text = people_edit.leave_groups(people_edit.delete(text, "users", name), name)
        former: Content = {"name": name, "uid": user["uid"]}
        content["users"].remove(user)
        for group in content["groups"]:
            if name in (group.get("members") or ()):
                group["members"].remove(name)
        content["removed"].append(former)
        return people_edit.insert(text, "removed", former), int(user["uid"])

    return _edit(file, change)


def public_key(given: str) -> str:
    """The public key in a file, or the text itself.

    Raises:
        Problem: it is not one. The message never shows the text, which may be a private key.
    """
    text, what = given, "the text after --key"
    if not re.match(r"(ssh|ecdsa|sk)-", given):
        what = given
        try:
            text = Path(given).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise Problem(f"{given} cannot be read ({reason}). Give the path of a .pub file, or its line.") from error
    if PRIVATE_KEY.search(text):
        raise Problem(f"{what} is a private key. Give the file whose name ends with .pub; keep this one to yourself.")
    if fault := key_fault(text):
        raise Problem(f"{what} is not an SSH public key: {fault}. Give the path of a .pub file, or its line.")
    return text


def _next_id(content: Content) -> int:
    """An id above all that were ever given, to users, groups and former users."""
    used = [item.get(key, 0) for part in content.values() for item in part for key in ("uid", "gid")]
    number = max([FIRST_ID - 1, *(one for one in used if isinstance(one, int))]) + 1
    if number > LAST_ID:
        raise Problem(f"All ids from {FIRST_ID} to {LAST_ID} were given. Put a free one into the people file by hand.")
    return number


def _edit(file: Path, change: Callable[[str, Content], tuple[str, int]]) -> int:
    """Change the people file, keeping its comments; if the result has faults, it stays as it was."""
    with file.open(encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two commands at once would give two users one id
        target = people_file(file)
        before = target.read_text(encoding="utf-8") if target.is_file() else EMPTY
        load(file, people_text=before)
        wanted = _content(before)
        other_form = Problem(f"{target} has a form that this command cannot edit: change it by hand.")
        try:
            after, result = change(before, wanted)
            edited = _content(after)
        except yaml.YAMLError as error:
            raise other_form from error
        if edited != wanted:
            raise other_form
        load(file, people_text=after)
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.new")
        new.write_text(after, encoding="utf-8")
        if target.is_file():
            shutil.copymode(target, new)
        new.replace(target)
        return result


def _content(text: str) -> Content:
    content = yaml.safe_load(text)
    return {part: list(content.get(part) or []) for part in PARTS}


def rows(environment: Environment) -> Iterator[tuple[str, ...]]:
    """The users, then the former users: name, uid, teams and groups, keys, quota, remarks."""
    content, quotas = environment.people.content, environment.people.home_quotas()
    for user in content.users:
        groups = [group.name for group in content.groups if user.name in group.members]
        quota = f"{quotas[user.uid]} GiB" if user.uid in quotas else "none"
        remark = "administrator" if user.administrator else ""
        yield user.name, str(user.uid), ", ".join((*user.teams, *groups)), str(len(user.keys)), quota, remark
    for gone in content.removed:
        yield gone.name, str(gone.uid), "", "0", "none", "removed"


class NotDeployed(Exception):
    """There is no cluster of this environment that takes people; the message says why."""


def publish(account: boto3.Session, environment: Environment) -> None:
    """Upload the environment's people to the assets bucket.

    Raises:
        NotDeployed: the cluster stack is not deployed, or without people.
        Problem: the environment file has none of this, or S3 or Systems Manager refuses.
    """
    from botocore.exceptions import ClientError

    if (content := cluster_people(environment)) is None:
        raise Problem(f"{environment.name} has no people, teams, QOS or reservations to apply.")
    ssm: Any = account.client("ssm")
    try:
        ssm.get_parameter(Name=f"/trainyard/{environment.name}/people/document")
        bucket = ssm.get_parameter(Name=f"/trainyard/{environment.name}/buckets/assets")["Parameter"]["Value"]
    except ssm.exceptions.ParameterNotFound as error:
        raise NotDeployed(f"the cluster of {environment.name} is not deployed with people") from error
    except ClientError as error:
        raise Problem(f"Systems Manager refused: {error}\nAllow ssm:GetParameter on /trainyard/*.") from error
    body = json.dumps(content).encode()
    try:
        account.client("s3").put_object(Bucket=bucket, Key=PEOPLE, Body=body, ContentType="application/json")
    except ClientError as error:
        raise Problem(f"S3 refused to store s3://{bucket}/{PEOPLE}: {error}\nAllow s3:PutObject on it.") from error


def ask(account: boto3.Session, environment: Environment, request: str) -> Content:
    """The head node's answer to `plan` or `apply`; raises Problem without one."""
    ssm = account.client("ssm")
    instance = find(account.client("ec2"), environment.cluster_name)
    return HeadNode(ssm, instance, document(ssm, environment.name, "people"), "people").ask(request)


def report(answer: Content) -> tuple[list[str], bool]:
    """The lines of an answer, and whether all is well on all nodes that have answered."""
    if not answer.get("published"):
        return ["No people are published for this cluster. Deploy it: cdk deploy --all"], False
    lines, problems = [], []
    for part in ("users", "shares"):
        found = answer.get(part) or {"changes": [], "problems": []}
        lines += [f"{answer['node']}: {change}" for change in found["changes"]]
        problems += [f"PROBLEM on {answer['node']}: {problem}" for problem in found["problems"]]
    for node in answer["nodes"]:
        if not isinstance(node, dict):  # apply.sh cuts a long list
            lines.append(f"nodes: {node}")
        elif node["problems"] == [LATE]:
            lines.append(f"{node['node']}: {LATE}; it looks every 2 minutes")
        else:
            problems += [f"PROBLEM on {node['node']}: {problem}" for problem in node["problems"]]
    return [*lines, *problems] or ["All nodes are as the people file says."], not problems
