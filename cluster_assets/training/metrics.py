"""Metrics of a run: one JSON object a line in a file, and TensorBoard if TENSORBOARD_DIR is set and it is installed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

CURVES = ("loss", "evaluation_loss", "learning_rate", "gradient_norm", "tokens_per_second", "mfu")


class MetricsLog:
    """Appends the metrics of steps."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._board: Any = None
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
        if folder := os.environ.get("TENSORBOARD_DIR"):
            try:
                from torch.utils.tensorboard import SummaryWriter

                self._board = SummaryWriter(folder)
            except ImportError:
                print("train.py: this Python has no TensorBoard: metrics go to --metrics only", flush=True)

    def write(self, lines: list[dict[str, Any]]) -> None:
        """Add one line per step."""
        if self._path:
            with self._path.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
        if self._board:
            for line in lines:
                for name in CURVES:
                    if line.get(name) is not None:
                        self._board.add_scalar(name, line[name], line["step"])
            self._board.flush()
