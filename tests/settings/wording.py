"""The faults of all bad examples in full, as tests/settings/faults.txt records them.

After an intended change of a rule or its wording: `.venv/bin/python -m tests.settings.wording`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import settings
from tests.settings.conftest import write_edited
from tests.settings.examples import BAD

RECORD = Path(__file__).parent / "faults.txt"


def fault_texts() -> Iterator[str]:
    """Each example's faults, without file and line."""
    with tempfile.TemporaryDirectory() as folder:
        for edits, _, _ in BAD:
            try:
                settings.load(write_edited(edits, Path(folder)))
            except settings.Faults as found:
                yield "\n".join(str(fault).partition(": ")[2] for fault in found.faults)


if __name__ == "__main__":
    RECORD.write_text("\n\n".join(fault_texts()) + "\n", encoding="utf-8", newline="\n")
