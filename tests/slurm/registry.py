"""Container images without a container engine: pushes a root file system as an image to the laboratory's registry.

The registry is Debian's docker-registry under ECR's host name, with TLS and ECR's user; manifests have Docker's format
v2s2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from local.slurm.laboratory import Laboratory

# The root file system is busybox: a shell and the usual commands in 2 MB.
_PUSH = """
set -eu
work="$(mktemp -d)"
cd "$work"
mkdir -p root/bin root/usr/bin root/etc root/tmp root/dev root/proc root/sys root/workspace root/run
cp /bin/busybox root/bin/busybox
chroot root /bin/busybox --install -s /bin
printf 'NAME="Trainyard laboratory"\\nID=trainyard\\nVERSION_ID=%s\\n' "$TAG" >root/etc/os-release
printf 'root:x:0:0::/root:/bin/sh\\n' >root/etc/passwd
printf 'root:x:0:\\n' >root/etc/group
head -c "$((PADDING_MIB * 1024 * 1024))" /dev/urandom >root/workspace/padding
tar --create --file=layer.tar --directory=root --sort=name --numeric-owner .
umoci init --layout image
umoci new --image image:latest
umoci raw add-layer --image image:latest layer.tar
umoci config --image image:latest "$@"
skopeo --insecure-policy copy --quiet --format v2s2 --dest-creds "AWS:$(cat /run/lab/ecr-password)" \\
  --digestfile digest oci:image:latest "docker://$URI:$TAG" >&2
cat digest
rm -rf "$work"
"""


@dataclass(frozen=True)
class Image:
    """An image in the registry: its URI with the tag, and the digest of its manifest."""

    uri: str
    digest: str


def push(
    laboratory: Laboratory,
    repository: str,
    tag: str,
    *,
    env: Mapping[str, str] | None = None,
    padding_mib: int = 0,
) -> Image:
    """Push an image with busybox, variables `env` and `padding_mib` MiB of random content."""
    uri = laboratory.plan.repository_uri(repository)
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})}
    arguments = [f"--config.env={name}={value}" for name, value in variables.items()]
    arguments.append("--config.workingdir=/workspace")
    result = laboratory.run(
        ["bash", "-c", _PUSH, "push", *arguments],
        node="aws",
        user="root",
        env={"URI": uri, "TAG": tag, "PADDING_MIB": str(padding_mib)},
    )
    return Image(f"{uri}:{tag}", result.stdout.strip())
