"""Container images without a container engine: pushes a root file system as an image to the laboratory's registry.

The registry is Debian's docker-registry under ECR's host name, with TLS and ECR's user; manifests have Docker's format
v2s2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from local.slurm.laboratory import Laboratory

# Busybox as a root file system: a shell and the usual commands in 2 MB.
_SMALL = """
mkdir -p root/bin root/usr/bin root/etc root/tmp root/dev root/proc root/sys root/workspace root/run
cp /bin/busybox root/bin/busybox
chroot root /bin/busybox --install -s /bin
printf 'NAME="Trainyard laboratory"\\nID=trainyard\\nVERSION_ID=%s\\n' "$TAG" >root/etc/os-release
printf 'root:x:0:0::/root:/bin/sh\\n' >root/etc/passwd
printf 'root:x:0:\\n' >root/etc/group
head -c "$((PADDING_MIB * 1024 * 1024))" /dev/urandom >root/workspace/padding
"""
_PUSH = """
tar --create --file=layer.tar --directory="${ROOTFS:-root}" --sort=name --numeric-owner .
umoci init --layout image
umoci new --image image:latest
umoci raw add-layer --image image:latest layer.tar
umoci config --image image:latest "$@"
skopeo --insecure-policy copy --quiet --format v2s2 --dest-creds "AWS:$(cat /run/lab/ecr-password)" \\
  --digestfile digest oci:image:latest "docker://$URI:$TAG" >&2
cat digest
"""


@dataclass(frozen=True)
class Image:
    """An image in the registry: its URI with the tag, and the digest of its manifest."""

    uri: str
    digest: str


def push(
    laboratory: Laboratory,
    repository: str,
    tag: str = "latest",
    *,
    rootfs: str | None = None,
    env: Mapping[str, str] | None = None,
    workdir: str = "/workspace",
    padding_mib: int = 0,
) -> Image:
    """Build an image and push it to the laboratory's registry.

    Args:
        laboratory: a running one.
        repository: the repository's name; created if missing.
        tag: the image's tag.
        rootfs: folder on the node `aws` with the root file system; by default a busybox of 2 MB.
        env: the image's environment, in addition to PATH.
        workdir: the image's working directory; it must exist.
        padding_mib: MiB of random content in the busybox image.

    Raises:
        Problem: building or pushing failed.
    """
    uri = laboratory.plan.repository_uri(repository)
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})}
    arguments = [f"--config.env={name}={value}" for name, value in variables.items()]
    arguments.append(f"--config.workingdir={workdir}")
    script = (
        'set -eu; work="$(mktemp -d)"; cd "$work"\n' + (_SMALL if rootfs is None else "") + _PUSH + 'rm -rf "$work"\n'
    )
    result = laboratory.run(
        ["bash", "-c", script, "push", *arguments],
        node="aws",
        user="root",
        env={"URI": uri, "TAG": tag, "PADDING_MIB": str(padding_mib), "ROOTFS": rootfs or ""},
    )
    return Image(f"{uri}:{tag}", result.stdout.strip())
