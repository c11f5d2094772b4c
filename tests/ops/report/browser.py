"""A page of a report in a headless browser."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from html import escape
from pathlib import Path
from typing import NamedTuple

import pytest

BROWSERS = ("chromium-headless-shell", "google-chrome", "chromium")
"""Debian's package chromium-headless-shell is the smallest (96 MB); GitHub's runners have google-chrome."""
_PROBE = """<script>
  const drawn = [...document.querySelectorAll("canvas")].filter((one) =>
    one.getContext("2d").getImageData(0, 0, one.width, one.height).data.some(Boolean)).length;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  parent.document.title = JSON.stringify([drawn, document.documentElement.scrollWidth <= innerWidth, innerWidth, dark]);
</script>"""


class Shown(NamedTuple):
    """What a browser shows: charts with pixels, whether nothing is wider than the page, its width, and its scheme."""

    charts: int
    fits: bool
    width: int
    dark: bool


def show(page: str, folder: Path, width: int, *, dark: bool) -> Shown:
    """Open a page. In a frame, because a headless window is at least 500 pixels wide."""
    page = page.replace("</body>", f"{_PROBE}</body>")
    frame = f'<iframe style="border:0" width="{width}" height="900" srcdoc="{escape(page)}"></iframe>'
    file = folder / "frame.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{frame}")
    said = _run(folder, file, "--dump-dom", *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    [title] = re.findall(r"<title>(.*?)</title>", said)
    return Shown(*json.loads(title))


def picture(file: Path, width: int, height: int) -> tuple[int, int]:
    """Width and height of the PNG that the command of docs/validation.md makes of an HTML report."""
    image = file.with_suffix(".png")
    _run(file.parent, file, f"--screenshot={image}", f"--window-size={width},{height}", "--hide-scrollbars")
    content = image.read_bytes()
    assert content.startswith(b"\x89PNG") and len(content) > 20_000, len(content)
    found: tuple[int, int] = struct.unpack(">II", content[16:24])
    return found


def _run(folder: Path, file: Path, *options: str) -> str:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        pytest.fail(f"no browser ({', '.join(BROWSERS)}): scripts/install-lab-packages.sh --tests installs one")
    line = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    line += ["--enable-logging=stderr", *options, file.as_uri()]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and "CONSOLE" not in done.stderr, done.stderr
    return done.stdout
