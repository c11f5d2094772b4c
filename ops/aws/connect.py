"""`trainyard connect`: an SSH configuration for a cluster's head and login nodes.

SSH runs through Systems Manager, so no port is open. Before each connection the public key is sent to the node, for 60
seconds (EC2 Instance Connect API reference, SendSSHPublicKey). The private key stays on this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ops.lock import open_private
from ops.problem import Problem
from ops.validation.head_node import find, instances
from trainyard.cluster_settings import CLUSTER_USERS

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

    from settings import Environment

TOOLS = {
    "aws": "AWS CLI: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
    "session-manager-plugin": "Session Manager plugin: "
    "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html",
    "ssh": "OpenSSH client: the package openssh-client or openssh-clients of your system",
}
NO_INSTANCE_CONNECT = ("rhel8", "rhel9", "rocky8", "rocky9")
"""Operating systems without the package ec2-instance-connect. Source: EC2 user guide, "Install EC2 Instance Connect on
your EC2 instances": Amazon Linux 2023, Ubuntu 20.04 and later have it."""

_PATH = re.compile(r"[^\0\n\r\"'%$`\\]+")
"""Paths that mean the same to ssh's configuration and to a shell between quotes."""


def missing_tools() -> list[str]:
    """What a connection needs and this machine does not have, with where to get it."""
    return [page for tool, page in TOOLS.items() if shutil.which(tool) is None]


def hosts(ec2: EC2Client, environment: Environment) -> dict[str, str]:
    """Instance ids by the names that users type: the environment's for the head node, then login nodes.

    Raises:
        Problem: no head node runs.
    """
    name = environment.name
    found = {name: find(ec2, environment.cluster_name)}
    logins = instances(ec2, environment.cluster_name, "LoginNode")
    running = sorted(instance for instance, state in logins.items() if state == "running")
    return found | {f"{name}-login-{number}": instance for number, instance in enumerate(running, 1)}


def login_name(environment: Environment, user: str | None) -> str:
    """The user to log in as: one of the people, or the cluster's user.

    Raises:
        Problem: the environment has no such user.
    """
    people = environment.people
    if user is None:
        return CLUSTER_USERS[environment.cluster.os]
    if people.file is None and people.directory is None:
        raise Problem(f"{environment.name} has only the cluster's user. Add people to it (docs/people.md).")
    known = [one.name for one in people.content.users]
    if user not in known and people.directory is None:
        raise Problem(f"{environment.name} has no user {user!r}. Users: {', '.join(known) or 'none'}.")
    if not re.fullmatch(r"[a-z][a-z0-9_.@-]{0,63}", user):
        raise Problem(f"{user!r} is not a login name that SSH's configuration can hold.")
    return user


def write(
    folder: Path, environment: Environment, nodes: dict[str, str], key: Path | None, user: str | None = None
) -> Path:
    """Write the configuration below `folder`, and a key pair if `key` is None; returns the configuration's path.

    Args:
        user: who logs in. Default: the cluster's user.
        key: a private key of the user's, with its public key in the same folder under the same name and `.pub`.

    Raises:
        Problem: a file cannot be written, the key has no public key, or the operating system does not take keys.
    """
    login = login_name(environment, user)
    if environment.cluster.os in NO_INSTANCE_CONNECT and key is None:
        raise Problem(
            f"{environment.cluster.os} does not take short-lived keys: its AMI has no EC2 Instance Connect. Give the "
            "private key of cluster.head_node.key_name, or yours of the people file, with --key, or open a shell with "
            f"the output Connect of the stack {environment.name}-cluster."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = (key or _own_key(folder)).expanduser().resolve()
    public = key.with_name(f"{key.name}.pub")
    if not key.is_file() or not public.is_file():
        raise Problem(f"{key} or {public} does not exist. Give the path of a private key that has its .pub next to it.")
    if wrong := [str(path) for path in (key, folder) if not _PATH.fullmatch(str(path))]:
        raise Problem(f"{wrong[0]!r} has a character that SSH's configuration cannot hold. Use another folder.")
    file = folder / f"{environment.name}.conf"
    text = "\n".join(_lines(environment, nodes, login, key, folder / "known_hosts"))
    with open_private(file, "w") as stream:
        stream.write(f"{text}\n")
    return file


def advice(file: Path, nodes: Sequence[str]) -> list[str]:
    """Lines to copy: shell, copy, port forwarding, VS Code."""
    head, config = nodes[0], shlex.quote(str(file))
    return [
        *(f"shell:            ssh -F {config} {name}" for name in nodes),
        f"copy a file:      scp -F {config} FILE {head}:",
        f"forward a port:   ssh -F {config} -N -L 8888:localhost:8888 {head}",
        f'VS Code:          put this line first in ~/.ssh/config: Include "{file}"',
        f"                  then Remote-SSH: Connect to Host, {head}",
    ]


def _own_key(folder: Path) -> Path:
    key = folder / "id_ed25519"
    if not key.exists():
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "trainyard", "-f", str(key)]
        try:
            subprocess.run(made, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Problem(f"ssh-keygen made no key in {folder}: {error}. Give a key of yours with --key.") from error
    return key


def _on_nodes(environment: Environment, login: str, public: Path) -> bool:
    """Whether the nodes know the key, so that it need not be sent."""
    keys = [key.split()[1] for user in environment.people.content.users if user.name == login for key in user.keys]
    return public.read_text(encoding="utf-8").split()[1:2] in [[key] for key in keys]


def _lines(environment: Environment, nodes: dict[str, str], login: str, key: Path, known: Path) -> Iterator[str]:
    public = key.with_name(f"{key.name}.pub")
    profile = os.environ.get("AWS_PROFILE", "")
    if profile and not re.fullmatch(r"[\w.@+=/-]+", profile):
        raise Problem(f"AWS_PROFILE {profile!r} has a character that SSH's configuration cannot hold. Rename it.")
    options = f"--region {environment.region}" + (f" --profile {profile}" if profile else "")
    send = (
        f"aws ec2-instance-connect send-ssh-public-key {options} --instance-id %h --instance-os-user %r "
        f"--ssh-public-key 'file://{public}' > /dev/null"
    )
    # OpenSSH puts `exec` before the command (ssh_config(5), ProxyCommand), so two commands need a shell of their own.
    session = "--document-name AWS-StartSSHSession --parameters portNumber=%p"
    start = f"aws ssm start-session {options} --target %h {session}"
    known_key = environment.cluster.os in NO_INSTANCE_CONNECT or _on_nodes(environment, login, public)
    command = start if known_key else f"{send} && exec {start}"
    yield f"# Written by `trainyard connect` for {environment.name}, {environment.account}, {environment.region}."
    for name, instance in nodes.items():
        yield f"Host {name}"
        yield f"  HostName {instance}"
        yield f"  User {login}"
        yield f'  IdentityFile "{key}"'
        yield "  IdentitiesOnly yes"
        # The instance id names one machine, and AWS delivers the connection to it; a new head node has a new id.
        yield "  StrictHostKeyChecking accept-new"
        yield f'  UserKnownHostsFile "{known}"'
        yield f'  ProxyCommand sh -c "{command}"'
