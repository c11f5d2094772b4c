"""Who works on the cluster: a file of users and groups, or a directory service."""

from __future__ import annotations

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
_DN = "[A-Za-z0-9_-]+"
_SERVER = r"ldaps?://[A-Za-z0-9.-]+(:\d{1,5})?"
# As ParallelCluster 3.16.1 checks it (validators/directory_service_validators.py).
Domain = Annotated[
    str,
    text(
        rf"({_DN}(\.{_DN})*|(DC|dc)={_DN}(,(DC|dc)={_DN})*)",
        "a domain, corp.example.com, or an LDAP base, dc=corp,dc=example,dc=com",
    ),
]
Servers = Annotated[str, text(rf"{_SERVER}(,{_SERVER})*", "URIs joined by commas, ldaps://HOST or ldaps://HOST:PORT")]
PeoplePath = Annotated[str, path(r"[A-Za-z0-9_-][A-Za-z0-9._/-]*\.yaml", _PEOPLE_FILE, "people/research.yaml")]


class User(Part):
    """A person with a login on the nodes."""

    name: Login = Field(description="Login name.")
    uid: _Id = Field(description=f"Unix user id, {FIRST_ID} to {LAST_ID}; never reused. Files belong to this number.")
    # No repr: a fault must not show what may be a private key.
    keys: tuple[str, ...] = Field((), repr=False, description="SSH public keys, one line each: type, key, comment.")
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
    gid: _Id = Field(description=f"Unix group id, {FIRST_ID} to {LAST_ID}; never reused, and not a user's id.")
    members: tuple[Login, ...] = Field(
        (), description="Login names. The users of a team are members of the group with its name anyway."
    )


class Removed(Part):
    """A former user or group. All files stay; the id is never given to anybody else."""

    name: Login = Field(description="Former name.")
    uid: _Id = Field(description="Unix id, which stays taken.")


class PeopleFile(Part):
    """The content of a people file."""

    users: tuple[User, ...] = Field((), description="The users.")
    groups: tuple[Group, ...] = Field((), description="Unix groups, in addition to one for each user.")
    removed: tuple[Removed, ...] = Field((), description="Former users, written by `trainyard user remove`.")


class Directory(Part):
    """Users of an LDAP directory or Active Directory, through ParallelCluster's DirectoryService (SSSD)."""

    domain: Domain = Field(
        description="Domain, for example corp.example.com, or an LDAP base, dc=corp,dc=example,dc=com."
    )
    address: Servers = Field(description="URIs of the servers, ldaps://HOST, joined by commas.")
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

    @property
    def content(self) -> PeopleFile:
        """The people of the file, empty without one. The loader has read it."""
        return self._content or PeopleFile()

    def fill(self, content: PeopleFile) -> None:
        """Keep what the loader read."""
        self._content = content

    def home_quotas(self) -> dict[int, int]:
        """GiB by Unix user id, of the users that have a quota."""
        quotas = {user.uid: user.home_quota_gib or self.home_quota_gib for user in self.content.users}
        return {uid: quota for uid, quota in sorted(quotas.items()) if quota}
