"""Who works on the cluster: the keys `people`, and the content of the people file."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.people import User
from settings.rules.items import Finding, Items, clashes, listed, volumes

PRIVATE_KEY = re.compile("PRIVATE KEY-----|PuTTY-User-Key-File")
"""What every file with a private key contains (RFC 7468, OpenSSH's PROTOCOL.key, PuTTY's PPK format)."""

MOST_QUOTAS = 500
"""Quotas of a volume (FSx API reference, OpenZFSUserAndGroupQuotas)."""

# Debian's base-passwd 3.6.1, Red Hat's package setup (/usr/share/doc/setup/uidgid), services of the images; users of
# ParallelCluster's images and programs (aws-parallelcluster-cookbook f75d84c, aws-parallelcluster-shared/attributes/
# users.rb, aws-parallelcluster-platform/attributes/platform.rb); programs of Trainyard.
_RESERVED = """
root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody adm shutdown halt
operator ftp nfsnobody tty disk kmem dialout fax voice cdrom floppy tape sudo audio dip src shadow utmp video sasl
plugdev staff users nogroup wheel mem lock kvm input render tcpdump sshd ssh dbus polkitd tss rpc rpcuser chrony sssd
messagebus syslog lxd admin docker
ubuntu ec2-user rocky centos ssm-user pcluster-admin pcluster-slurm-share slurm munge dcv dcvextauth dcvsmagent
nagios lustre mysql prometheus node-exporter
"""
RESERVED = frozenset(_RESERVED.split())
"""Names that a node's operating system, ParallelCluster or Trainyard use."""

KEY_TYPES = {
    **dict.fromkeys(("ssh-ed25519", "ssh-rsa"), "OpenSSH"),
    **{f"ecdsa-sha2-nistp{bits}": "OpenSSH" for bits in (256, 384, 521)},
    **{f"sk-{kind}@openssh.com": "FIDO" for kind in ("ssh-ed25519", "ecdsa-sha2-nistp256")},
}
"""Types of public keys (sshd(8), AUTHORIZED_KEYS FILE FORMAT), without DSA, which OpenSSH removed."""

LEAST_RSA_BITS = 2048
PEOPLE: KeyPath = ("people",)


def one_source(environment: Environment) -> Iterator[Finding]:
    """A file or a directory; a quota of homes needs a file, because FSx limits numbers, which the file has."""
    people = environment.people
    if people.file and people.directory:
        yield Finding((*PEOPLE, "directory"), "a directory and a file", "one of them", "remove file or directory")
    elif people.home_quota_gib and not people.file:
        given = "a quota without a people file" if people.directory is None else "a quota with a directory"
        yield Finding((*PEOPLE, "home_quota_gib"), given, "a quota with people.file", "remove this key, or use a file")


def quota_on_openzfs(environment: Environment) -> Iterator[Finding]:
    """Quotas are those of the environment's own OpenZFS volume of the homes."""
    people = environment.people
    if people.file and people.home_quota_gib and not _homes_on_openzfs(environment):
        yield Finding((*PEOPLE, "home_quota_gib"), f"{people.home_quota_gib}, but {_NO_HOMES}", _HOMES, _ADD_HOMES)


def directory(environment: Environment) -> Iterator[Finding]:
    """What ParallelCluster refuses, and what would send or show a password in clear text.

    Source: ParallelCluster 3.16.1, validators/directory_service_validators.py.
    """
    found, key = environment.people.directory, (*PEOPLE, "directory")
    if found is None:
        return
    region = found.password_secret_arn.split(":")[3]
    if region != environment.region:
        allowed = f"a secret in the cluster's region, {environment.region}"
        yield Finding((*key, "password_secret_arn"), f"a secret in {region}", allowed)
    clear = str(found.sssd.get("ldap_auth_disable_tls_never_use_in_production", "")).lower() == "true"
    if "ldap://" in found.address and not clear:
        advice = "for a test without TLS set sssd.ldap_auth_disable_tls_never_use_in_production to true"
        yield Finding((*key, "address"), found.address, "ldaps://: ldap:// sends passwords in clear text", advice)
    for name, value in found.sssd.items():
        if "authtok" in name:
            allowed = "no password: ParallelCluster reads it from password_secret_arn"
            yield Finding((*key, "sssd", name), "a value that may be secret", allowed, "remove the key")
        if name == "id_provider" and value != "ldap":
            yield Finding((*key, "sssd", name), str(value), "ldap, the only value that ParallelCluster allows")
        if name == "access_provider" and value != "ldap" and found.access_filter:
            allowed = "ldap, because access_filter is set"
            yield Finding((*key, "sssd", name), str(value), allowed, "remove access_filter, or this key")


RULES = (one_source, quota_on_openzfs, directory)


def file_findings(environment: Environment) -> Iterator[Finding]:
    """The findings in the people file."""
    for rule in (_names, _ids, _teams, _members, _keys, _quotas):
        yield from rule(environment)


def _all(environment: Environment) -> Items[tuple[str, int]]:
    """Everything with a name and an id. A user's own group has the user's."""
    content = environment.people.content
    for key, user in listed(("users",), content.users):
        yield key, (user.name, user.uid)
    for key, group in listed(("groups",), content.groups):
        yield key, (group.name, group.gid)
    for key, gone in listed(("removed",), content.removed):
        yield key, (gone.name, gone.uid)


def _users(environment: Environment) -> Items[User]:
    return listed(("users",), environment.people.content.users)


def _names(environment: Environment) -> Iterator[Finding]:
    """Each name once, and none of the system's."""
    for key, (name, _), before, _ in clashes(_all(environment), lambda one, other: one[1][0] == other[1][0]):
        allowed = "a name that no other user, group or former user has"
        advice = ""
        if key[0] == "removed" and before[0] == "users":
            advice = "the user came back: remove this entry, and give users the same uid"
        yield Finding((*key, "name"), f"{name}, as {key_text(before)}", allowed, advice)
    for key, (name, _) in _all(environment):
        if name in RESERVED:
            allowed = "a name that neither the operating system nor ParallelCluster uses"
            yield Finding((*key, "name"), name, allowed, "choose another name")


def _ids(environment: Environment) -> Iterator[Finding]:
    """Each id once: files belong to ids, so that two names of one id would be one user."""
    used = [number for _, (_, number) in _all(environment)]
    # Former users first: their id stays as it is.
    items = sorted(_all(environment), key=lambda item: item[0][0] != "removed")
    for key, (_, number), before, (other, _) in clashes(
        items, lambda one, other: one[1][1] == other[1][1] and one[1][0] != other[1][0]
    ):
        name = "gid" if key[0] == "groups" else "uid"
        allowed = "an id that no other user, group or former user has"
        yield Finding((*key, name), f"{number}, as {key_text(before)} ({other})", allowed, f"use {max(used) + 1}")


def _teams(environment: Environment) -> Iterator[Finding]:
    """A user's teams exist, and each has a group, whose number stays the same."""
    teams = [team.name for team in environment.teams]
    groups = {group.name for group in environment.people.content.groups}
    for key, user in _users(environment):
        for at, team in listed((*key, "teams"), user.teams):
            if team not in teams:
                allowed = f"one of the environment's teams: {', '.join(teams) or 'it has none'}"
                yield Finding(at, team, allowed, "add it to teams of the environment file, or remove it here")
            elif team not in groups:
                allowed = "a team with a group of its name in groups"
                advice = f"add {{name: {team}, gid: <number>}} to groups"
                yield Finding(at, f"{team}, which has no group", allowed, advice)


def _members(environment: Environment) -> Iterator[Finding]:
    """Members of groups are users."""
    names = [user.name for _, user in _users(environment)]
    for key, group in listed(("groups",), environment.people.content.groups):
        for at, name in listed((*key, "members"), group.members):
            if name not in names:
                yield Finding(at, name, f"names of users: {', '.join(names) or 'there are none'}", "remove it here")


def _keys(environment: Environment) -> Iterator[Finding]:
    """Keys are SSH public keys, and each has one owner."""
    owners: dict[str, str] = {}
    for key, user in _users(environment):
        for at, text in listed((*key, "keys"), user.keys):
            if wrong := key_fault(text):
                allowed = f"a public key in one line, TYPE BASE64 COMMENT; types: {', '.join(KEY_TYPES)}"
                yield Finding(at, wrong, allowed, "copy the line of the user's .pub file")
            elif (owner := owners.setdefault(text.split()[1], user.name)) != user.name:
                yield Finding(at, f"a key of {owner}", "a key of one user", "ask each user for a key of their own")


def key_fault(text: str) -> str:
    """Why a text is not an SSH public key, without showing it; empty if it is one."""
    kind, _, rest = text.partition(" ")
    encoded = rest.split(" ", 1)[0]
    if not text.isprintable() or kind not in KEY_TYPES:
        return "a text that does not begin with a type of key" if "\n" not in text else "a text of several lines"
    try:
        blob = base64.b64decode(encoded, validate=True)
    except ValueError:
        return "a key that is not base64"
    parts = _parts(blob)
    if len(parts) < 2 or parts[0] != kind.encode():
        return f"a damaged key: its content is not of the type {kind}"
    bits = int.from_bytes(parts[2], "big").bit_length() if kind == "ssh-rsa" and len(parts) > 2 else LEAST_RSA_BITS
    return f"an RSA key of {bits} bits; the least is {LEAST_RSA_BITS}" if bits < LEAST_RSA_BITS else ""


def _parts(blob: bytes) -> list[bytes]:
    """The strings of a key's content (RFC 4253, section 6.6); none if it is cut."""
    parts = []
    while blob:
        length = int.from_bytes(blob[:4], "big")
        if len(blob) < 4 + length:
            return []
        parts.append(blob[4 : 4 + length])
        blob = blob[4 + length :]
    return parts


def _homes_on_openzfs(environment: Environment) -> bool:
    return any(volume.mount == "/home" for _, volume in volumes(environment))


_NO_HOMES = "/home is not on an OpenZFS volume of this environment"
_HOMES = "quotas only with a volume whose mount is /home"
_ADD_HOMES = "add the volume to storage.openzfs, or remove the quota"


def _quotas(environment: Environment) -> Iterator[Finding]:
    """Quotas are those of the OpenZFS volume of the homes, which takes up to 500."""
    for key, user in _users(environment):
        if user.home_quota_gib and not _homes_on_openzfs(environment):
            yield Finding((*key, "home_quota_gib"), f"{user.home_quota_gib}, but {_NO_HOMES}", _HOMES, _ADD_HOMES)
    if (count := len(environment.people.home_quotas())) > MOST_QUOTAS:
        advice = "give quotas to some users only, and leave people.home_quota_gib out"
        yield Finding(("users",), f"{count} users with a quota", f"{MOST_QUOTAS} quotas of a volume", advice)
