"""`trainyard data push`, `list`, `verify`, `sample` and `pull`."""

from __future__ import annotations

import itertools
import json
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import unpack
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ops.data import manifest
from ops.data.manifest import MANIFEST, PART_SUFFIX, Manifest
from ops.data.store import Store
from ops.data.transfer import MIB, Advance, Transfer
from ops.preflight.aws import code_of
from ops.problem import Problem

if TYPE_CHECKING:
    from rich.console import Console

    from ops.data.links import Link

_SAMPLE_BYTES = 256 * 1024
_LINE = 2000
"""Most characters of a record that `sample` prints."""


@contextmanager
def bar(console: Console, what: str, total: int) -> Iterator[Advance]:
    """A progress bar with rate and time left; only on a terminal."""
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    shown = console.is_terminal and total > 0
    with Progress(TextColumn("{task.description}"), *columns, console=console, disable=not shown) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


@dataclass(frozen=True)
class DataSets:
    """The data sets under one prefix of a bucket.

    Args:
        link: bucket, prefix, and the folder on the nodes.
        workers: files and parts that are transferred at the same time.
        part_mib: size of the parts of large files.
    """

    store: Store
    link: Link
    console: Console
    workers: int = 16
    part_mib: int = 32

    def push(self, name: str, folder: Path, *, replace: bool = False) -> Manifest:
        """Upload a folder, compare each object with its file, and upload the manifest last.

        Raises:
            Problem: objects with other content exist and `replace` is False; a file changed; see `Store` too.
        """
        prefix = self._prefix(manifest.check_name(name))
        paths = manifest.scan(folder)
        sizes = {path: file.stat().st_size for path, file in paths.items()}
        there = self._objects(prefix)
        if not replace:
            self._require_same(name, paths, sizes, there)
        elif MANIFEST in there:
            self._put_manifest(prefix, manifest.REPLACING)
        unfinished = self._unfinished(prefix)
        total = sum(sizes.values())
        with self._transfer(f"push {name}", total) as transfer:

            def one(path: str) -> manifest.File:
                key = prefix + path
                return transfer.upload(
                    paths[path], key, exists=path in there, unfinished=unfinished.get(key, []), replace=replace
                )

            files = dict(zip(paths, transfer.each(paths, one), strict=True))
        made = manifest.new(name, files)
        if MANIFEST in there and not replace and (old := self._manifest(name)).files == made.files:
            made = old
        else:
            self._put_manifest(prefix, made.text().encode())
        self._say(
            f"{name}: {_files(len(files))}, {_size(total)} in {self.link.uri}{name}/, each compared with S3's "
            f"CRC64NVME. On the cluster: {self.link.folder}/{name}"
        )
        if extra := sorted(set(there) - set(files) - {MANIFEST}):
            self._say(
                f"{_files(len(extra))} in S3 are not in the folder and not in the manifest, for example {extra[0]}."
            )
        return made

    def _put_manifest(self, prefix: str, text: bytes) -> None:
        self.store.call("put_object", Key=prefix + MANIFEST, Body=text, ChecksumCRC64NVME=manifest.crc64nvme(text))

    def _require_same(self, name: str, paths: dict[str, Path], sizes: dict[str, int], there: dict[str, int]) -> None:
        wrong = [path for path in paths if there.get(path, sizes[path]) != sizes[path]]
        if not wrong and MANIFEST in there:
            old = set(self._manifest(name).files)
            wrong = sorted(old ^ set(paths))
        if wrong:
            raise Problem(
                f"{self.link.uri}{name}/ holds another data set: {_files(len(wrong))} "
                f"{'differs' if len(wrong) == 1 else 'differ'}, for example {wrong[0]}. Nothing was uploaded. "
                "Give another name, or overwrite it: --replace"
            )

    def known(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Name, state, number of files, size and date of each data set."""
        sets: dict[str, dict[str, int]] = {}
        for key, size in self._objects(self.link.prefix).items():
            name, slash, path = key.partition("/")
            if slash and path:
                sets.setdefault(name, {})[path] = size
        for key in self._unfinished(self.link.prefix):
            sets.setdefault(key.removeprefix(self.link.prefix).partition("/")[0], {})
        for name, there in sorted(sets.items()):
            if MANIFEST not in there:
                yield name, "no manifest: not a data set, or its push is not finished", *_count(there.values()), ""
                continue
            try:
                found = self._manifest(name)
            except Problem as problem:
                yield name, str(problem), *_count(there.values()), ""
                continue
            wrong = [path for path, file in found.files.items() if there.get(path) != file.bytes]
            state = f"{_files(len(wrong))} missing or of another size" if wrong else "complete"
            yield name, state, *_count([file.bytes for file in found.files.values()]), found.created

    def verify(self, name: str, folder: Path | None = None) -> list[str]:
        """What differs from the manifest: in the bucket, or in a local folder."""
        wanted, prefix = self._manifest(name), self._prefix(name)
        if folder is not None:
            if not folder.is_dir():
                raise Problem(f"{folder} is not a folder. Give the folder that holds a copy of {name}.")
            there = {path: folder / path for path in wanted.files if (folder / path).is_file()}
            with self._transfer(f"verify {name}", sum(wanted.files[path].bytes for path in there)) as transfer:

                def read(path: str) -> str:
                    found = manifest.read_file(there[path], self.store.stop) if path in there else None
                    transfer.advance(found.bytes if found else 0)
                    return _differs(
                        wanted.files[path], (found.bytes, found.crc64nvme, "FULL_OBJECT") if found else None, path
                    )

                return list(filter(None, transfer.each(wanted.files, read)))
        with self._transfer("", 0) as transfer:

            def ask(path: str) -> str:
                return _differs(wanted.files[path], self.store.head(prefix + path), path)

            return list(filter(None, transfer.each(wanted.files, ask)))

    def pull(self, name: str, folder: Path, *, force: bool = False) -> Manifest:
        """Download a data set; files that are equal already stay.

        Raises:
            Problem: a file with other content exists and `force` is False; the disk is too small; an object is damaged.
        """
        wanted, prefix = self._manifest(name), self._prefix(name)
        needed, partly = 0, 0
        for path, file in wanted.files.items():
            target, partial = folder / path, folder / (path + PART_SUFFIX)
            if target.exists() and not target.is_file():
                raise Problem(f"{target} is not a file, and {name} has a file there. Give another folder.")
            if target.exists() and not force and target.stat().st_size != file.bytes:
                raise self._other(target)
            if not target.exists():
                needed += file.bytes
                partly += partial.stat().st_size if partial.is_file() else 0
        existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
        if (free := shutil.disk_usage(existing).free) < needed - partly:
            raise Problem(
                f"{existing} has {_size(free)} free, and {_size(needed - partly)} of {name} are missing. Nothing was "
                "downloaded. Give a folder on a larger disk."
            )
        with self._transfer(f"pull {name}", wanted.bytes) as transfer:

            def one(path: str) -> None:
                target, file = folder / path, wanted.files[path]
                if target.exists():
                    if manifest.read_file(target, self.store.stop) == file:
                        transfer.advance(file.bytes)
                        return
                    if not force:
                        raise self._other(target)
                transfer.download(prefix + path, target, file)

            transfer.each(wanted.files, one)
        (folder / MANIFEST).write_text(wanted.text())
        self._say(f"{name}: {_files(len(wanted.files))}, {_size(wanted.bytes)} in {folder}, equal to the manifest.")
        return wanted

    def sample(self, name: str, path: str | None, records: int) -> Iterator[str]:
        """The first records of one file: lines of text, or token ids."""
        wanted = self._manifest(name)
        path = path or next(
            (one for one in wanted.files if not one.endswith((".json", ".md")) and wanted.files[one].bytes), ""
        )
        path = path or next(iter(wanted.files))
        if path not in wanted.files:
            raise Problem(f"{name} has no file {path}. Its files: {', '.join(itertools.islice(wanted.files, 20))}")
        yield f"{path} ({_size(wanted.files[path].bytes)} of {_files(len(wanted.files))}, {_size(wanted.bytes)})"
        data = self.store.read(self._prefix(name) + path, 0, min(_SAMPLE_BYTES, wanted.files[path].bytes))
        if path.endswith(".gz"):
            try:
                data = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(data, _SAMPLE_BYTES)
            except zlib.error as error:
                raise Problem(
                    f"{path} is not compressed with gzip ({error}). Look at it with: trainyard data pull"
                ) from error
        if (tokens := self._tokens(name, wanted, path)) is not None:
            width, kind = (2, "H") if tokens == "uint16" else (4, "I")
            data = data[: min(len(data) // width, records * 16) * width]
            ids = unpack(f"<{len(data) // width}{kind}", data)
            for start in range(0, len(ids), 16):
                yield f"tokens {start}: {' '.join(map(str, ids[start : start + 16]))}"
            return
        if b"\0" in data:
            raise Problem(f"{path} is binary, and its format is not known here. Look at it with: trainyard data pull")
        lines = data.decode(errors="replace").splitlines()[:records]
        yield from (
            "".join(one if one.isprintable() or one == "\t" else "\ufffd" for one in line[:_LINE]) for line in lines
        )

    def _tokens(self, name: str, wanted: Manifest, path: str) -> str | None:
        """The type of token ids, if the file is a shard that the folder's manifest.json lists."""
        index = "/".join([*path.split("/")[:-1], "manifest.json"])
        if index not in wanted.files or not path.endswith(".bin"):
            return None
        try:
            found = json.loads(self.store.read(self._prefix(name) + index))
        except ValueError:  # a file of another program
            return None
        return (
            str(found.get("dtype")) if isinstance(found, dict) and found.get("dtype") in ("uint16", "uint32") else None
        )

    def _other(self, target: Path) -> Problem:
        return Problem(f"{target} exists with other content. Nothing was overwritten. Give another folder, or --force.")

    def _prefix(self, name: str) -> str:
        return f"{self.link.prefix}{name}/"

    def _objects(self, prefix: str) -> dict[str, int]:
        """Sizes of the objects by path below the prefix."""
        found = self.store.items("list_objects_v2", "Contents", Prefix=prefix)
        return {one["Key"].removeprefix(prefix): one["Size"] for one in found if not one["Key"].endswith("/")}

    def _unfinished(self, prefix: str) -> dict[str, list[str]]:
        """Ids of unfinished uploads by key, the newest first."""
        listed = self.store.items("list_multipart_uploads", "Uploads", Prefix=prefix)
        # Those of other programs may have another checksum, with which S3 refuses our parts.
        ours = ("CRC64NVME", "FULL_OBJECT")
        found = [one for one in listed if (one.get("ChecksumAlgorithm"), one.get("ChecksumType")) == ours]
        uploads: dict[str, list[str]] = {}
        for one in sorted(found, key=lambda one: one["Initiated"], reverse=True):
            uploads.setdefault(one["Key"], []).append(one["UploadId"])
        return uploads

    def _manifest(self, name: str) -> Manifest:
        key = self._prefix(manifest.check_name(name)) + MANIFEST
        try:
            body = self.store.read(key)
        except ClientError as error:
            if code_of(error) != "NoSuchKey":
                raise
            known = ", ".join(sorted({path.partition("/")[0] for path in self._objects(self.link.prefix)})) or "none"
            raise Problem(
                f"{self.link.uri}{name}/ has no manifest: no data set of this name, or its push is not finished. There "
                f"are: {known}. Push it, again if need be: trainyard data push"
            ) from error
        return manifest.parse(body, f"s3://{self.store.bucket}/{key}")

    @contextmanager
    def _transfer(self, what: str, total: int) -> Iterator[Transfer]:
        with bar(self.console, what, total) as advance:
            yield Transfer(self.store, workers=self.workers, part_bytes=self.part_mib * MIB, advance=advance)

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)


def _differs(wanted: manifest.File, found: tuple[int, str, str] | None, path: str) -> str:
    """How a file differs from the manifest; empty if it does not."""
    if found is None:
        return f"{path}: missing"
    if found[0] != wanted.bytes:
        return f"{path}: {found[0]} bytes instead of {wanted.bytes}"
    if not found[1] or found[2] != "FULL_OBJECT":
        return f"{path}: S3 has no CRC64NVME of the whole object; another program wrote it"
    return "" if found[1] == wanted.crc64nvme else f"{path}: CRC64NVME {found[1]} instead of {wanted.crc64nvme}"


def _count(sizes: Iterable[int]) -> tuple[str, str]:
    known = list(sizes)
    return str(len(known)), _size(sum(known))


def _files(count: int) -> str:
    return f"{count} {'file' if count == 1 else 'files'}"


def _size(count: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} TB"
