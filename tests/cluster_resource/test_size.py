"""The handler's package stays small: it is fetched at each cold start."""

from pathlib import Path

import cluster_resource

MOST_BYTES = 1_000_000


def test_the_package_is_under_a_megabyte_and_brings_no_library() -> None:
    folder = Path(cluster_resource.__file__).parent
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert {file.suffix for file in files} <= {".py", ".typed"}
    assert not (folder.parent / "requirements.txt").exists()
