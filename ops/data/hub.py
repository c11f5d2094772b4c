"""`trainyard data fetch`: model weights and example data sets of the Hugging Face hub, pinned by commit.

A commit names its files by hash: SHA-256 of large files, git's SHA-1 of small ones. Every file is compared with it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3
from botocore.utils import get_environ_proxies

from ops.data.manifest import PART_SUFFIX
from ops.data.transfer import MIB, Advance
from ops.problem import Problem

CATALOGUE = Path(__file__).with_name("hub.json")
ENDPOINT = "https://huggingface.co"
_GIVEN = re.compile(r"((?:datasets/)?\w[\w.-]*/\w[\w.-]*)@([0-9a-f]{40})")


@dataclass(frozen=True)
class Pinned:
    """A repository of the hub at a commit; `sha256` are hashes that this project recorded itself."""

    repository: str
    revision: str
    below: str
    sha256: dict[str, str]


def pinned(name: str) -> Pinned:
    """An entry of the catalogue, or what OWNER/NAME@COMMIT names.

    Raises:
        Problem: it is neither.
    """
    known: dict[str, Any] = json.loads(CATALOGUE.read_text("utf-8"))
    if name in known:
        return Pinned(**known[name])
    if given := _GIVEN.fullmatch(name):
        return Pinned(given[1], given[2], "", {})
    raise Problem(
        f"{name!r} is not known. Give one of {', '.join(known)}; or OWNER/NAME@COMMIT of a model, "
        "datasets/OWNER/NAME@COMMIT of a data set, with the 40 digits of the commit: a branch may change."
    )


class Hub:
    """The Hugging Face hub, or a mirror in HF_ENDPOINT; HF_TOKEN for repositories that ask for a login."""

    def __init__(self) -> None:
        self._endpoint = os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if (token := os.environ.get("HF_TOKEN")) else {}
        proxy = get_environ_proxies(self._endpoint).get("https") if self._endpoint.startswith("https") else None
        timeout = urllib3.Timeout(connect=10, read=60)
        options: dict[str, Any] = {"timeout": timeout, "retries": urllib3.Retry(5, backoff_factor=0.5)}
        self._pool = urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)

    def fetch(self, wanted: Pinned, files: list[tuple[str, int, str]], folder: Path, advance: Advance) -> None:
        """Download those of the commit's files that are missing in the folder.

        Raises:
            Problem: the hub does not answer, or a file is not the pinned one; a file with other content exists.
        """
        for path, size, expected in files:
            target = folder / path
            partial = target.with_name(target.name + PART_SUFFIX)
            if target.exists():
                if _hash(target, expected) != expected:
                    raise Problem(f"{target} exists with other content. Nothing was overwritten. Give another folder.")
                advance(size)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            self._download(wanted, path, size, partial, advance)
            if (found := _hash(partial, expected)) != expected:
                partial.unlink()
                raise Problem(
                    f"{path} of {wanted.repository}@{wanted.revision} has the hash {found} instead of {expected}. It "
                    "was damaged on the way, or is another file. Run the command again."
                )
            partial.replace(target)

    def files(self, wanted: Pinned) -> Iterator[tuple[str, int, str]]:
        """Path, bytes and hash of the commit's files. Source: hub API, /api/models/REPOSITORY/tree/REVISION."""
        kind = wanted.repository if wanted.repository.startswith("datasets/") else f"models/{wanted.repository}"
        url: str | None = f"{self._endpoint}/api/{kind}/tree/{wanted.revision}?recursive=true"
        found = 0
        while url:
            answer = self._get(url)
            try:
                listed = json.loads(answer.data)
            except ValueError as error:
                raise Problem(
                    f"{url} answers with {answer.headers.get('Content-Type', 'no type')} instead of a list of files. "
                    "Does a proxy ask for a login? Set HTTPS_PROXY, or HF_ENDPOINT to a mirror."
                ) from error
            for one in listed:
                path = one["path"]
                if one["type"] != "file" or not path.startswith(wanted.below):
                    continue
                if ".." in Path(path).parts or Path(path).is_absolute():
                    raise Problem(f"{wanted.repository} names a file outside of its folder: {path}")
                expected = one["lfs"]["oid"] if "lfs" in one else one["oid"]
                if wanted.sha256.get(path, expected) != expected:
                    raise Problem(f"{path} has the hash {expected}; this project recorded {wanted.sha256[path]}.")
                found += 1
                yield path, one["size"], expected
            following = re.search(r'<([^>]+)>; rel="next"', answer.headers.get("Link", ""))
            url = following[1] if following else None
        if not found:
            raise Problem(f"{wanted.repository}@{wanted.revision} has no files below {wanted.below!r}.")

    def _download(self, wanted: Pinned, path: str, size: int, partial: Path, advance: Advance) -> None:
        there = partial.stat().st_size if partial.exists() else 0
        if there >= size and there:
            return
        advance(there)
        url = f"{self._endpoint}/{wanted.repository}/resolve/{wanted.revision}/{quote(path)}"
        answer = self._get(url, {"Range": f"bytes={there}-"} if there else {}, preload_content=False)
        try:
            with partial.open("ab" if answer.status == 206 else "wb") as out:
                for data in answer.stream(MIB):
                    out.write(data)
                    advance(len(data))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise Problem(f"{partial}: no space left on this disk. Make room, and run the command again.") from error
        except urllib3.exceptions.HTTPError as error:
            raise Problem(f"{url}: the connection was lost ({error}). Run the command again: it goes on.") from error

    def _get(self, url: str, headers: dict[str, str] | None = None, **options: Any) -> urllib3.BaseHTTPResponse:  # noqa: ANN401
        try:
            answer = self._pool.request("GET", url, headers={**self._headers, **(headers or {})}, **options)
        except urllib3.exceptions.HTTPError as error:
            raise Problem(
                f"{self._endpoint} does not answer: {error}. Fetch where a network exists, or set HF_ENDPOINT to a "
                "mirror."
            ) from error
        if answer.status >= 300:
            hint = " It asks for a login: set HF_TOKEN." if answer.status in (401, 403) else ""
            raise Problem(f"{url}: HTTP {answer.status}.{hint}")
        return answer


def _hash(path: Path, expected: str) -> str:
    """The hash of a file in the form of `expected`: SHA-256, or git's SHA-1 of a blob."""
    digest = hashlib.sha256()
    if len(expected) == 40:
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: digest).hexdigest()
