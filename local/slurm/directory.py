"""A directory of users for a laboratory: OpenLDAP's slapd on the node `aws`, SSSD on all others.

On AWS the directory is outside the cluster, and ParallelCluster's recipe writes sssd.conf from DirectoryService. Here
`sssd_conf` does that, from the recipe's recorded facts (parallelcluster/facts/directory.json).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from local.slurm.laboratory import Laboratory
from ops.problem import Problem
from trainyard.parallelcluster import facts

SUFFIX = "dc=corp,dc=example,dc=com"
READER = f"cn=reader,{SUFFIX}"
_FQDN = re.compile(r"[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*")
_SLAPD = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile /run/slapd/slapd.pid
TLSCACertificateFile /etc/lab-ca/ca.crt
TLSCertificateFile /etc/ldap/lab.crt
TLSCertificateKeyFile /etc/ldap/lab.key
database mdb
suffix "{suffix}"
rootdn "cn=admin,{suffix}"
directory /var/lib/lab-ldap
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by * none
"""
_CERTIFICATE = """
set -e
cd /etc/ldap
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ldap -keyout lab.key -out lab.csr 2>/dev/null
openssl x509 -req -in lab.csr -days 30 -CA /etc/lab-ca/ca.crt -CAkey /etc/lab-ca/ca.key \
  -set_serial "0x$(openssl rand -hex 8)" -extfile <(printf 'subjectAltName=%s\n' "$1") -out lab.crt 2>/dev/null
chown openldap: lab.key
install -d -o openldap -g openldap /var/lib/lab-ldap
slapadd -f lab.conf -l lab.ldif
chown -R openldap: /var/lib/lab-ldap
rm lab.ldif
"""


@dataclass(frozen=True)
class Person:
    """A user of the directory."""

    name: str
    uid: int
    groups: Mapping[str, int] = field(default_factory=dict)
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12), repr=False)


def sssd_conf(properties: Mapping[str, object], password: str) -> str:
    """sssd.conf for the DirectoryService section of a ParallelCluster configuration."""
    recorded = facts("directory")
    domain = str(properties["DomainName"])
    base = ",".join(f"DC={part}" for part in domain.split(".")) if _FQDN.fullmatch(domain) else domain
    lines: dict[str, object] = {
        **recorded["domain"],
        "ldap_uri": ",".join(
            uri if "://" in uri else f"ldaps://{uri}" for uri in str(properties["DomainAddr"]).split(",")
        ),
        "ldap_search_base": base,
        "ldap_default_bind_dn": properties["DomainReadOnlyUser"],
        "ldap_default_authtok": password,
        "ldap_tls_reqcert": properties.get("LdapTlsReqCert", "hard"),
    }
    if "LdapTlsCaCert" in properties:
        lines["ldap_tls_cacert"] = properties["LdapTlsCaCert"]
    if "LdapAccessFilter" in properties:
        lines |= {"access_provider": "ldap", "ldap_access_filter": properties["LdapAccessFilter"]}
    additional = properties.get("AdditionalSssdConfigs", {})
    lines |= additional if isinstance(additional, Mapping) else {}
    # Ruby writes true and false; SSSD reads both without regard to case.
    shown = (f"{key} = {value}" for key, value in sorted(lines.items()))
    return "\n".join(["[domain/default]", *shown, "", *recorded["rest"], ""])


def start(laboratory: Laboratory, properties: Mapping[str, object], people: tuple[Person, ...]) -> None:
    """Start the directory with `people`, and SSSD on all other nodes.

    Args:
        properties: the DirectoryService section. Its servers become names of the node `aws`.

    Raises:
        Problem: a program does not start.
    """
    plan = laboratory.plan
    hosts = re.findall(r"//([^:/,]+)", str(properties["DomainAddr"]))
    if not hosts:
        raise Problem(f"{properties['DomainAddr']} names no server")
    password = secrets.token_urlsafe(12)
    laboratory.write("/etc/ldap/lab.conf", _SLAPD.format(suffix=SUFFIX, reader=READER), node="aws", user="root")
    laboratory.write("/etc/ldap/lab.ldif", _ldif(people, password), node="aws", user="root", mode=0o600)
    names = ",".join(f"DNS:{host}" for host in hosts)
    laboratory.run(["bash", "-c", _CERTIFICATE, "certificate", names], node="aws", user="root")
    laboratory.run(["systemctl", "start", "slapd"], node="aws", user="root")
    text = sssd_conf(properties, password)
    for node in (plan.head, *plan.logins, *plan.compute):
        line = f"{plan.aws.address} {' '.join(hosts)}"
        laboratory.run(["bash", "-c", 'echo "$1" >>/etc/hosts', "hosts", line], node=node.name, user="root")
        laboratory.write("/etc/sssd/sssd.conf", text, node=node.name, user="root", mode=0o600)
        # aws-parallelcluster-environment/resources/system_authentication/partial/_system_authentication_debian.rb
        laboratory.run(["pam-auth-update", "--enable", "mkhomedir"], node=node.name, user="root")
        laboratory.run(["systemctl", "start", "sssd"], node=node.name, user="root")


def _ldif(people: tuple[Person, ...], password: str) -> str:
    entries = [
        f"dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: corp",
        f"dn: {READER}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: reader\n"
        f"userPassword: {password}",
    ]
    groups: dict[str, tuple[int, list[str]]] = {person.name: (person.uid, []) for person in people}
    for person in people:
        entries.append(
            f"dn: uid={person.name},{SUFFIX}\nobjectClass: inetOrgPerson\nobjectClass: posixAccount\n"
            f"cn: {person.name}\nsn: {person.name}\nuid: {person.name}\nuidNumber: {person.uid}\n"
            f"gidNumber: {person.uid}\nhomeDirectory: /home/{person.name}\nloginShell: /bin/bash\n"
            f"userPassword: {person.password}"
        )
        for group, gid in person.groups.items():
            groups.setdefault(group, (gid, []))[1].append(person.name)
    for group, (gid, members) in groups.items():
        lines = "".join(f"\nmemberUid: {member}" for member in members)
        entries.append(f"dn: cn={group},{SUFFIX}\nobjectClass: posixGroup\ncn: {group}\ngidNumber: {gid}{lines}")
    return "\n\n".join([*entries, ""])
