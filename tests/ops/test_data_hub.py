"""`trainyard data fetch` from a simulated Hugging Face hub, which answers in the form of the hub's API.

Facts: `GET /api/datasets/REPOSITORY/tree/REVISION?recursive=true` lists files with `oid` (git's SHA-1 of the blob) and,
for large files, `lfs.oid` (SHA-256); more pages are in the header Link (huggingface_hub 1.0, hf_api.py,
list_repo_tree, and utils/_pagination.py).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3

from ops.data import hub
from ops.data.manifest import PART_SUFFIX
from ops.problem import Problem

COMMIT = "b08601e04326c79dfdd32d625aee71d232d685c3"
LARGE, SMALL = bytes(range(256)) * 100, b'{"model": 1}\n'


class Simulated(BaseHTTPRequestHandler):
    """Two files on two pages. `content` is what is sent for the large one, `seen` the requests."""

    content, seen = LARGE, list[str]()

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """Answer."""
        self.seen.append(f"{self.path} {self.headers.get('Range', '')}{self.headers.get('Authorization', '')}")
        host, page = self.headers["Host"], {}
        large = {"oid": hashlib.sha256(LARGE).hexdigest(), "size": len(LARGE), "pointerSize": 130}
        blob = hashlib.sha1(b"blob %d\0" % len(SMALL) + SMALL, usedforsecurity=False).hexdigest()
        if self.path.startswith(f"/api/models/o/model/tree/{COMMIT}?recursive=true"):
            listed: list[dict[str, object]] = [
                {"type": "directory", "oid": "0", "size": 0, "path": "deep"},
                {"type": "file", "oid": "0", "size": len(LARGE), "path": "deep/w 1.bin", "lfs": large},
            ]
            page = {"Link": f'<http://{host}{self.path}&cursor=2>; rel="next"'}
            if "cursor" in self.path:
                listed, page = [{"type": "file", "oid": blob, "size": len(SMALL), "path": "config.json"}], {}
            self._send(200, b"<html>Log in</html>" if self.content == b"html" else json.dumps(listed).encode(), page)
        elif self.path == f"/o/model/resolve/{COMMIT}/deep/w%201.bin":
            start = int(self.headers.get("Range", "bytes=0-")[6:-1])
            self._send(206 if start else 200, self.content[start:], {})
        elif self.path == f"/o/model/resolve/{COMMIT}/config.json":
            self._send(200, SMALL, {})
        else:
            self._send(401, b"", {})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(LARGE if body == b"cut" else body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Simulated]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Simulated)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    Simulated.content = LARGE
    Simulated.seen.clear()
    yield Simulated
    server.shutdown()
    server.server_close()


def fetch(folder: Path, name: str = f"o/model@{COMMIT}") -> int:
    source, wanted, done = hub.Hub(), hub.pinned(name), list[int]()
    source.fetch(wanted, list(source.files(wanted)), folder, done.append)
    return sum(done)


def test_a_commit_is_fetched_compared_and_continued(simulated: type[Simulated], tmp_path: Path) -> None:
    assert fetch(tmp_path) == len(LARGE) + len(SMALL)
    large = tmp_path / "deep/w 1.bin"
    assert (large.read_bytes(), (tmp_path / "config.json").read_bytes()) == (LARGE, SMALL)
    simulated.seen.clear()
    fetch(tmp_path)
    assert not [line for line in simulated.seen if "resolve" in line], "what is there was fetched again"
    partial = large.with_name(large.name + PART_SUFFIX)
    partial.write_bytes(LARGE[:1000])
    large.unlink()
    fetch(tmp_path)
    assert [line.split()[1] for line in simulated.seen if "resolve" in line] == ["bytes=1000-"]
    assert large.read_bytes() == LARGE


def test_what_is_not_the_pinned_file_is_refused(
    simulated: type[Simulated], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated.content = LARGE[:-1] + b"x"
    with pytest.raises(Problem, match=r"deep/w 1.bin of o/model@b08.* has the hash \w{64} instead of \w{64}"):
        fetch(tmp_path)
    assert not list(tmp_path.rglob("*.bin*"))
    simulated.content = b"cut"
    with pytest.raises(Problem, match=r"the connection was lost .*it goes on"):
        fetch(tmp_path)
    simulated.content = b"html"
    with pytest.raises(Problem, match=r"instead of a list of files. Does a proxy ask for a login"):
        fetch(tmp_path)
    simulated.content = LARGE
    (tmp_path / "deep/w 1.bin").write_bytes(b"mine")
    with pytest.raises(Problem, match=r"exists with other content. Nothing was overwritten"):
        fetch(tmp_path)
    for name in ("unknown", "o/model@main", "../x@" + COMMIT):
        with pytest.raises(Problem, match=r"is not known. Give one of wikitext-2, qwen2.5-0.5b; or OWNER/NAME@COMMIT"):
            hub.pinned(name)
    with pytest.raises(Problem, match=r"HTTP 401. It asks for a login: set HF_TOKEN"):
        fetch(tmp_path, f"o/gated@{COMMIT}")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(urllib3, "Retry", lambda *_, **__: False)
    with pytest.raises(Problem, match=r"does not answer.*Fetch where a network exists, or set HF_ENDPOINT"):
        fetch(tmp_path)


def test_the_catalogue_is_pinned() -> None:
    for name in json.loads(hub.CATALOGUE.read_text()):
        entry = hub.pinned(name)
        assert len(entry.revision) == 40
        assert entry.sha256
        assert all(len(digest) == 64 for digest in entry.sha256.values())


def test_a_proxy_is_used_unless_no_proxy_names_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert isinstance(hub.Hub()._pool, urllib3.ProxyManager)
    monkeypatch.setenv("no_proxy", "huggingface.co")
    assert not isinstance(hub.Hub()._pool, urllib3.ProxyManager)
