"""`trainyard data exported`: whether a checkpoint arrived in S3; `trainyard data sweep`: old temporary files in S3."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from ops.data.links import Link
from ops.data.store import Store
from ops.problem import Problem

CHECKPOINT_MANIFEST = "manifest.json"
"""Of cluster_assets/training/checkpoint.py: format, step, final, and files with bytes and SHA-256."""
_CHUNK = 32 * 1024 * 1024
_TEMPORARY = re.compile(r"(^|/)\.((partial|removed|replaced)-step-\d{8}(-[\w.-]+)?|tmp-job-\d+)/|\.trainyard-part$")
"""Folders of training/checkpoint.py and train-model.sbatch, which an automatic export copies too."""


def located(where: str, links: Sequence[Link]) -> tuple[str, str]:
    """Bucket and prefix of a checkpoint, given as s3:// or as a folder on the nodes.

    Raises:
        Problem: no association exports the folder.
    """
    if where.startswith("s3://"):
        given = urlsplit(where)
        if not given.netloc or not given.path.strip("/"):
            raise Problem(f"{where!r} names no folder. Give s3://BUCKET/PREFIX/step-00000100")
        return given.netloc, given.path.strip("/") + "/"
    path = where.rstrip("/")
    exporting = [link for link in links if link.exports]
    for link in sorted(exporting, key=lambda link: len(link.folder), reverse=True):
        if path.startswith(link.folder + "/"):
            return link.bucket, link.prefix + path.removeprefix(link.folder + "/") + "/"
    known = ", ".join(sorted(link.folder for link in exporting)) or "none"
    raise Problem(
        f"{where} is in no folder that is exported to S3. Exported are: {known}. train-model.sbatch copies the final "
        "checkpoint itself, and prints where to: give that s3:// address."
    )


def missing(store: Store, prefix: str, *, read: bool) -> tuple[str, list[str]]:
    """What a checkpoint is, and what of it has not arrived: by its manifest, S3's listing and, with `read`, content."""
    where = f"s3://{store.bucket}/{prefix}"
    listed = store.items("list_objects_v2", "Contents", Prefix=prefix)
    there = {one["Key"].removeprefix(prefix): one["Size"] for one in listed}
    if CHECKPOINT_MANIFEST not in there:
        return where, [f"{CHECKPOINT_MANIFEST}: missing, and it is written last; {len(there)} objects are there"]
    try:
        found = json.loads(store.read(prefix + CHECKPOINT_MANIFEST))
        files = {str(name): (int(one["bytes"]), str(one["sha256"])) for name, one in found["files"].items()}
        what = (
            f"{where}: step {int(found['step'])}, {'final' if found['final'] else 'intermediate'}, {len(files)} files"
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Problem(f"{where}{CHECKPOINT_MANIFEST} is not the manifest of a checkpoint: {error!r}") from error
    wrong = []
    for name, (size, sha256) in sorted(files.items()):
        if name not in there:
            wrong.append(f"{name}: missing")
        elif there[name] != size:
            wrong.append(f"{name}: {there[name]} bytes instead of {size}")
        elif read and (given := _sha256(store, prefix + name, size)) != sha256:
            wrong.append(f"{name}: SHA-256 {given} instead of {sha256}")
    return what, wrong


def _sha256(store: Store, key: str, size: int) -> str:
    digest = hashlib.sha256()
    for start in range(0, size, _CHUNK):
        digest.update(store.read(key, start, min(_CHUNK, size - start)))
    return digest.hexdigest()


def sweep(stores: Sequence[Store], links: Sequence[Link], days: int, *, delete: bool) -> Iterator[str]:
    """Name, and with `delete` remove, unfinished uploads and temporary objects that are older than `days`.

    Objects under an association that imports stay: the deletion could be imported, and a running job lose the files.
    """
    importing = tuple(link.uri for link in links if link.imports)
    before = datetime.now(UTC) - timedelta(days=days)
    for store in stores:
        for one in list(store.items("list_multipart_uploads", "Uploads")):
            if one["Initiated"] < before:
                if delete:
                    store.call("abort_multipart_upload", Key=one["Key"], UploadId=one["UploadId"])
                yield f"unfinished upload of s3://{store.bucket}/{one['Key']}, begun {one['Initiated']:%Y-%m-%d}"
        folders: dict[str, list[dict[str, Any]]] = {}
        for one in store.items("list_objects_v2", "Contents"):
            found = _TEMPORARY.search(one["Key"])
            if found and not f"s3://{store.bucket}/{one['Key']}".startswith(importing):
                folders.setdefault(one["Key"][: found.end()], []).append(one)
        for objects in folders.values():
            if max(one["LastModified"] for one in objects) >= before:
                continue
            for one in objects:
                if delete:
                    store.call("delete_object", Key=one["Key"])
                yield f"s3://{store.bucket}/{one['Key']}, {one['Size']} bytes, of {one['LastModified']:%Y-%m-%d}"
