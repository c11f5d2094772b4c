"""Files to objects and back: in parallel, in parts, resumable; every file compared after its transfer.

What was uploaded is known from S3: objects with their CRC64NVME, and the parts of unfinished uploads (ListParts). What
was downloaded is the length of the file that is not finished.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from ops.data.manifest import PART_SUFFIX, Digest, File, crc64nvme, read_file
from ops.data.store import Stopped, Store
from ops.preflight.aws import code_of
from ops.problem import Problem

Item = TypeVar("Item")
Result = TypeVar("Result")
Advance = Callable[[int], None]

MIB = 1024 * 1024
MOST_PARTS, LEAST_PART = 10_000, 5 * MIB
"""Of an upload; its last part may be smaller. Source: Amazon S3 user guide, "Amazon S3 multipart upload limits"."""
_FULL = "FULL_OBJECT"


class Transfer:
    """Transfers between a bucket and this machine. At most `workers` parts are in memory."""

    def __init__(self, store: Store, *, workers: int, part_bytes: int, advance: Advance) -> None:
        self._store, self._workers, self._part_bytes, self.advance = store, workers, part_bytes, advance
        self._slots = threading.Semaphore(workers)
        self._parts = ThreadPoolExecutor(workers)

    def each(self, items: Iterable[Item], work: Callable[[Item], Result]) -> list[Result]:
        """Do `work` on all items, several at a time; the first failure ends it."""
        with ThreadPoolExecutor(self._workers) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self._store.stop.set()
                for future in futures:
                    future.cancel()
                raise
        return [future.result() for future in futures]

    def upload(self, path: Path, key: str, *, exists: bool, unfinished: list[str], replace: bool) -> File:
        """Make an object of a file, unless the object is equal already.

        Args:
            path: the file.
            key: the object.
            exists: whether the object exists.
            unfinished: ids of unfinished uploads of the object, the newest first.
            replace: whether an object with other content is overwritten.

        Raises:
            Problem: the object exists with other content, or the file changed meanwhile.
        """
        before = path.stat()
        if exists:
            found, there = read_file(path, self._store.stop), self._store.head(key)
            if there == (found.bytes, found.crc64nvme, _FULL):
                self.advance(found.bytes)
                return found
            if there is not None and not replace:
                raise Problem(
                    f"s3://{self._store.bucket}/{key} exists with other content than {path}. Nothing was overwritten. "
                    "Give another name, or overwrite it: --replace"
                )
        if before.st_size <= self._part_bytes:
            sent = self._put(path, key, replace)
        else:
            sent = self._multipart(path, key, before, unfinished, replace)
        there = self._store.head(key)
        if there != (sent.bytes, sent.crc64nvme, _FULL):
            raise Problem(
                f"s3://{self._store.bucket}/{key} is not what was sent: {there} instead of {sent.bytes} bytes with "
                f"CRC64NVME {sent.crc64nvme}. Another program writes it: end that, and run the command again."
            )
        return sent

    def _put(self, path: Path, key: str, replace: bool) -> File:
        self._slot()
        try:
            before, data = path.stat(), path.read_bytes()
            _require_unchanged(path, before, len(data))
            digest = Digest()
            digest.update(data)
            sent = digest.result()
            self._finish("put_object", replace, Key=key, Body=data, ChecksumCRC64NVME=sent.crc64nvme)
        finally:
            self._slots.release()
        self.advance(len(data))
        return sent

    def _finish(self, operation: str, replace: bool, **arguments: Any) -> None:  # noqa: ANN401 - boto3's
        """The call that makes the object; if it exists meanwhile, the comparison that follows decides."""
        try:
            self._store.call(operation, **arguments, **({} if replace else {"IfNoneMatch": "*"}))
        except ClientError as error:
            # Another program made the object, or the answer of an earlier attempt was lost.
            if code_of(error) not in ("PreconditionFailed", "NoSuchUpload"):
                raise

    def _multipart(self, path: Path, key: str, before: os.stat_result, unfinished: list[str], replace: bool) -> File:
        size = before.st_size
        upload, there = self._resumable(key, unfinished)
        part = there[1]["Size"] if 1 in there else self._part_bytes
        if not LEAST_PART <= part <= 4 * self._part_bytes:  # of another program, or of a file that was shorter
            part = self._part_bytes
        part = max(part, -(-size // MOST_PARTS))
        digest, done, sent = Digest(), list[dict[str, Any]](), deque[Future[dict[str, Any]]]()
        with path.open("rb") as file:
            for number in range(1, -(-size // part) + 1):
                while sent and sent[0].done():  # a part that failed ends the reading
                    done.append(sent.popleft().result())
                self._slot()
                data = file.read(part)
                digest.update(data)
                crc, known = crc64nvme(data), there.get(number, {})
                if (known.get("Size"), known.get("ChecksumCRC64NVME")) == (len(data), crc):
                    self._slots.release()
                    self.advance(len(data))
                    done.append({"PartNumber": number, "ETag": known["ETag"], "ChecksumCRC64NVME": crc})
                else:
                    sent.append(self._parts.submit(self._part, key, upload, number, data, crc))
        done += [future.result() for future in sent]
        # The parts stay: the next push compares them with the file as it is then.
        _require_unchanged(path, before, digest.bytes)
        result = digest.result()
        self._finish(
            "complete_multipart_upload",
            replace,
            Key=key,
            UploadId=upload,
            MultipartUpload={"Parts": sorted(done, key=lambda one: one["PartNumber"])},
            ChecksumCRC64NVME=result.crc64nvme,
            ChecksumType=_FULL,
            MpuObjectSize=size,
        )
        return result

    def _resumable(self, key: str, unfinished: list[str]) -> tuple[str, dict[int, dict[str, Any]]]:
        """The id of an unfinished upload, or of a new one, and its parts by number."""
        for upload in unfinished:
            try:
                parts = list(self._store.items("list_parts", "Parts", Key=key, UploadId=upload))
            except ClientError as error:
                if code_of(error) != "NoSuchUpload":
                    raise
                continue
            if all("ChecksumCRC64NVME" in one for one in parts):
                return upload, {one["PartNumber"]: one for one in parts}
        made = self._store.call("create_multipart_upload", Key=key, ChecksumAlgorithm="CRC64NVME", ChecksumType=_FULL)
        return str(made["UploadId"]), {}

    def _part(self, key: str, upload: str, number: int, data: bytes, crc: str) -> dict[str, Any]:
        try:
            sent = self._store.call(
                "upload_part", Key=key, UploadId=upload, PartNumber=number, Body=data, ChecksumCRC64NVME=crc
            )
        finally:
            self._slots.release()
        self.advance(len(data))
        return {"PartNumber": number, "ETag": sent["ETag"], "ChecksumCRC64NVME": crc}

    def download(self, key: str, target: Path, wanted: File) -> None:
        """Make a file of an object, over an existing one; goes on with what an interrupted download left.

        Raises:
            Problem: the object is not what the manifest says, or the disk is full.
        """
        partial = target.with_name(target.name + PART_SUFFIX)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            for _ in range(2):  # once more from the start: bytes may be damaged on the way or on this disk
                if self._fetch(key, partial, wanted) == wanted:
                    partial.replace(target)
                    return
                partial.unlink()
        except ClientError as error:
            if code_of(error) not in ("NoSuchKey", "InvalidRange"):
                raise
            raise self._damaged(key, target) from error
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise Problem(
                f"{partial}: no space left on this disk. What arrived is kept. Make room, or move the folder to a "
                "larger disk, and run the command again: it goes on."
            ) from error
        raise self._damaged(key, target)

    def _damaged(self, key: str, target: Path) -> Problem:
        return Problem(
            f"s3://{self._store.bucket}/{key} is missing or damaged: it is not what the manifest says. {target} was "
            "not written. See what else differs: trainyard data verify. Then push the data set again."
        )

    def _fetch(self, key: str, partial: Path, wanted: File) -> File:
        digest = Digest()
        if partial.exists():
            if partial.stat().st_size > wanted.bytes:
                partial.unlink()
            else:
                with partial.open("rb") as file:
                    while data := file.read(self._part_bytes):
                        digest.update(data)
                self.advance(digest.bytes)
        starts = deque(range(digest.bytes, wanted.bytes, self._part_bytes))
        coming: deque[Future[bytes]] = deque()
        with partial.open("ab") as out:
            while starts or coming:
                # In order, so that the file's length says how far it is; waits for a slot only if nothing is coming.
                if starts and (self._slots.acquire(blocking=False) or (not coming and self._slot())):
                    start = starts.popleft()
                    length = min(self._part_bytes, wanted.bytes - start)
                    coming.append(self._parts.submit(self._store.read, key, start, length))
                    continue
                try:
                    data = coming.popleft().result()
                    out.write(data)
                finally:
                    self._slots.release()
                digest.update(data)
                self.advance(len(data))
        return digest.result()

    def _slot(self) -> bool:
        while not self._store.stop.is_set():
            if self._slots.acquire(timeout=1):
                return True
        raise Stopped


def _require_unchanged(path: Path, before: os.stat_result, read: int) -> None:
    after = path.stat()
    if (read, after.st_size, after.st_mtime_ns) != (before.st_size, before.st_size, before.st_mtime_ns):
        raise Problem(
            f"{path} changed while it was read: {before.st_size} bytes before, {after.st_size} now. The data set is "
            "not complete in S3. Push it again when nothing writes to it."
        )
