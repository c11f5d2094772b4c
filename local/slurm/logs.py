"""The log files of a running laboratory, for `trainyard logs`: its nodes have no CloudWatch agent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from local.slurm import namespaces
from local.slurm.laboratory import Laboratory
from local.slurm.plan import AWS_NAME, HEAD_NAME
from local.slurm.remote import LABORATORIES
from ops.logs import HEAD, Line, Source, Stream
from settings import Environment

FOLDERS = ("/var/log", "/var/log/trainyard")
_TIME = re.compile(r"\[?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?)\]?")


def sources(state: Path, environment: Environment) -> list[Source]:
    """The logs of the laboratory that an emulator with this state folder started for the cluster, if it runs."""
    laboratory = Laboratory(state / LABORATORIES / f"{environment.account}-{environment.cluster_name}")
    return [Files(laboratory)] if laboratory.running else []


class Files:
    """A source of logs (`ops.logs.Source`): /var/log of every node, and jobs' output in the folders for logs."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory

    def streams(self, since: int, *, job: bool) -> Iterator[Stream]:  # noqa: ARG002 - files are few
        """See ops.logs.Source."""
        for node in sorted(namespaces.nodes(self._laboratory.state).keys() - {AWS_NAME}):
            name = HEAD if node == HEAD_NAME else node
            for folder in FOLDERS:
                for file in sorted(self._laboratory.path(folder, node=node).glob("*.log")):
                    yield Stream("", str(file), file.stem, _written(file), node=name, host=node)
        for folder in self._job_folders() if job else ():
            for file in sorted(self._laboratory.path(folder).glob("*-*.out")):
                yield Stream("", str(file), "job", _written(file), job=file.stem.rpartition("-")[2])

    def lines(self, streams: Sequence[Stream], since: int, words: str = "") -> Iterator[Line]:
        """See ops.logs.Source. A line without a time has that of the line before, the first lines have the file's."""
        for stream in streams:
            at = stream.last
            for number, text in enumerate(Path(stream.name).read_text("utf-8", errors="replace").splitlines()):
                if found := _TIME.match(text):
                    at = int(datetime.fromisoformat(found[1]).timestamp() * 1000)
                if at >= since and words in text:
                    yield Line(at, stream.label, text, f"{stream.name}:{number}")

    def _job_folders(self) -> list[str]:
        settings = self._laboratory.plan.settings()
        models: list[dict[str, dict[str, str]]] = settings["models"]  # type: ignore[assignment]
        common: dict[str, str] = settings["folders"]  # type: ignore[assignment]
        return [*filter(None, [common.get("logs")]), *(model["folders"]["logs"] for model in models)]


def _written(file: Path) -> int:
    return int(file.stat().st_mtime * 1000)
