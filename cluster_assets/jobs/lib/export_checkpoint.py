"""export_checkpoint.py FOLDER s3://BUCKET/PREFIX: copies a folder to S3 and verifies the copy.

The AWS CLI uploads every file with a CRC-32, which S3 checks on receipt and stores. The stored CRC-32 (of the object
or of each part) is then compared with that of the file. The manifest is copied last, so a copy with a
manifest is complete.

CRC-32 instead of S3's default CRC-64/NVME because Python's standard library has it. ETags cannot be compared for
uploads in parts.

The standard library only, Python 3.9 or later. Exit codes: 0 everything is there; 1 something is not; 2 wrong
arguments.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
_CHUNK = 16 * 1024 * 1024
_AT_ONCE = 8
_PLACE = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.+)")


class Failed(Exception):
    """The copy failed or is not verified; the text says why."""


def aws(*arguments: str) -> str:
    """Run the AWS CLI, which retries automatically.

    Raises:
        Failed: it is missing, or ended with an error.
    """
    try:
        done = subprocess.run(["aws", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Failed("the AWS CLI is missing on this node") from None
    if done.returncode:
        raise Failed(f"aws {' '.join(arguments[:2])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def crc32(path: Path, first: int = 0, count: int | None = None) -> str:
    """CRC-32 of a file, or of `count` bytes from `first`, in S3's form: base64 of four bytes."""
    value, left = 0, count
    with path.open("rb") as file:
        file.seek(first)
        while left is None or left > 0:
            chunk = file.read(_CHUNK if left is None else min(_CHUNK, left))
            if not chunk:
                break
            value = zlib.crc32(chunk, value)
            left = None if left is None else left - len(chunk)
    return base64.b64encode(value.to_bytes(4, "big")).decode()


def parts_of(bucket: str, key: str) -> list[dict[str, Any]]:
    """The parts of an object, with size and checksum; all pages."""
    call = ["s3api", "get-object-attributes", "--bucket", bucket, "--key", key]
    call += ["--object-attributes", "ObjectParts", "--output", "json"]
    page: dict[str, Any] = json.loads(aws(*call)).get("ObjectParts", {})
    parts = list(page.get("Parts", []))
    while page.get("IsTruncated"):
        marker = str(page["NextPartNumberMarker"])
        page = json.loads(aws(*call, "--part-number-marker", marker)).get("ObjectParts", {})
        parts += page.get("Parts", [])
    return parts


def difference(path: Path, bucket: str, key: str) -> str | None:
    """How the object differs from the file; None if it does not."""
    head = ["s3api", "head-object", "--bucket", bucket, "--key", key, "--checksum-mode", "ENABLED", "--output", "json"]
    found: dict[str, Any] = json.loads(aws(*head))
    size = path.stat().st_size
    if found.get("ContentLength") != size:
        return f"{found.get('ContentLength')} bytes in S3, {size} here"
    kept = found.get("ChecksumCRC32")
    if not kept:
        return "S3 has no CRC-32 of it"
    if found.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT" and "-" not in kept:
        here = crc32(path)
        return None if here == kept else f"CRC-32 {kept} in S3, {here} here"
    return _parts_differ(path, size, parts_of(bucket, key))


def _parts_differ(path: Path, size: int, parts: list[dict[str, Any]]) -> str | None:
    at = 0
    for part in sorted(parts, key=lambda one: int(one["PartNumber"])):
        here = crc32(path, at, int(part["Size"]))
        if here != part.get("ChecksumCRC32"):
            return f"part {part['PartNumber']}: CRC-32 {part.get('ChecksumCRC32')} in S3, {here} here"
        at += int(part["Size"])
    return None if at == size else f"S3 lists parts of {at} bytes, the file has {size}"


def export(folder: Path, bucket: str, prefix: str) -> tuple[int, int]:
    """Copy and verify. Returns the number of files and of bytes.

    Raises:
        Failed: a file cannot be copied, or its copy differs.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if not names:
        raise Failed(f"{folder} has no files to export")
    last = [name for name in names if name == MANIFEST]

    def copy(name: str) -> None:
        target = f"s3://{bucket}/{prefix}/{name}"
        aws("s3", "cp", "--only-show-errors", "--checksum-algorithm", "CRC32", str(folder / name), target)
        why = difference(folder / name, bucket, f"{prefix}/{name}")
        if why:
            raise Failed(f"{target} is not {folder / name}: {why}")

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for copied in [pool.submit(copy, name) for name in names if name != MANIFEST]:
            copied.result()
    for name in last:
        copy(name)
    return len(names), sum((folder / name).stat().st_size for name in names)


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="export_checkpoint.py", description="Copy a folder to S3 and verify it.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("place", help="s3://BUCKET/PREFIX")
    options = parser.parse_args(arguments)
    place = _PLACE.fullmatch(options.place.rstrip("/"))
    if not place:
        parser.error(f"'{options.place}' is not s3://BUCKET/PREFIX")
    if not options.folder.is_dir():
        parser.error(f"'{options.folder}' is not a folder")
    try:
        files, size = export(options.folder, place.group(1), place.group(2))
    except Failed as problem:
        print(f"export_checkpoint.py: {problem}", file=sys.stderr)
        return 1
    print(f"{files} files, {size} bytes in {options.place}, checksums compared")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
