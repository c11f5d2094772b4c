"""Who works on the cluster: a file of users and groups, or a directory service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr

from settings.model.base import Name, Part, path, text
from settings.model.cluster import SecretArn

_LOGIN = "a Linux name: 1 to 31 lower-case letters, digits, _ and -, starting with a letter"
Login = Annotated[str, text("[a-z][a-z0-9_-]{0,30}", _LOGIN)]
# Above the ids of an operating system's packages and of its first users, below the ids that SSSD maps from a directory
# (sssd-ldap(5), ldap_idmap_range_min: 200000) and systemd's own ranges (systemd's UIDS-GIDS.md: from 60001).
FIRST_ID, LAST_ID = 10000, 59999
_Id = Annotated[int, Field(ge=FIRST_ID, le=LAST_ID)]
_PEOPLE_FILE = "a .yaml file below the environment file's folder"
PeoplePath = Annotated[str, path(r"[A-Za-z0-9_-][A-Za-z0-9._/-]*\.yaml", _PEOPLE_FILE, "people/research.yaml")]


class User(Part):
    """A person with a login on the nodes."""

    name: Login = Field(description="Login name.")
    uid: _Id = Field(description=f"Unix user id, {FIRST_ID} to {LAST_ID}; never reused. Files belong to this number.")
    keys: tuple[str, ...] = Field((), description="SSH public keys, one line each, as in authorized_keys.")
    teams: tuple[Name, ...] = Field(
        (), description="Teams of the environment file; the first one is the default account of jobs."
    )
    administrator: bool = Field(False, description="May use sudo on the head and login nodes.")
    home_quota_gib: int | None = Field(
        None, gt=0, description="Most GiB in the home. Default: people.home_quota_gib of the environment."
    )


class Group(Part):
    """A Unix group, for folders that several users write."""

    name: Login = Field(description="Name of the group.")
    gid: _Id = Field(description=f"Unix group id, {FIRST_ID} to {LAST_ID}; never reused.")
    members: tuple[Login, ...] = Field((), description="Login names.")


class Removed(Part):
    """A former user. The home and all files stay; the id is never given to anybody else."""

    name: Login = Field(description="Former login name.")
    uid: _Id = Field(description="Unix user id, which stays taken.")


class PeopleFile(Part):
    """The content of a people file."""

    users: tuple[User, ...] = Field((), description="The users.")
    groups: tuple[Group, ...] = Field((), description="Unix groups, in addition to one for each user.")
    removed: tuple[Removed, ...] = Field((), description="Former users, written by `trainyard user remove`.")


class Directory(Part):
    """Users of an LDAP directory or Active Directory, through ParallelCluster's DirectoryService (SSSD)."""

    domain: str = Field(description="Domain, for example corp.example.com, or an LDAP base, dc=corp,dc=example,dc=com.")
    address: str = Field(description="URIs of the servers, ldaps://HOST, joined by commas.")
    read_user: str = Field(description="Distinguished name of the user that SSSD reads the directory with.")
    password_secret_arn: SecretArn = Field(description="ARN of the secret whose value is that user's password.")
    ca_certificate: str | None = Field(
        None, description="Path on the nodes of the certificates that the servers' are checked with."
    )
    verify: Literal["hard", "demand", "try", "allow", "never"] = Field(
        "hard", description="Check of the servers' certificates (SSSD's ldap_tls_reqcert)."
    )
    access_filter: str | None = Field(None, description="LDAP filter of the users who may log in. Default: all.")
    ssh_keys: bool = Field(True, description="Create an SSH key for each user at the first login.")
    sssd: dict[str, str | int | bool] = Field(default_factory=dict, description="Further keys of SSSD's domain.")


class People(Part):
    """Who works on the cluster (docs/people.md): a file, or a directory."""

    file: PeoplePath | None = Field(
        None, description="File of users and groups, relative to the environment file's folder."
    )
    directory: Directory | None = Field(None, description="A directory service, instead of a file.")
    home_quota_gib: int | None = Field(
        None, gt=0, description="Most GiB in each user's home on OpenZFS. Default: no quota. With a file only."
    )
    _content: PeopleFile | None = PrivateAttr(None)
    _path: Path | None = PrivateAttr(None)

    @property
    def content(self) -> PeopleFile:
        """The people of the file, empty without one."""
        return self._content or PeopleFile()
