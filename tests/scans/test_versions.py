"""Versions are compared number by number, whatever a tool prints around them."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.scans.conftest import SCANS


def ask(function: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = f'set -euo pipefail; . "{SCANS}/lib/scan.sh"; "$@"'
    return subprocess.run(
        ["bash", "-c", script, "versions", function, *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("535.54.03", "535.54.03"),
        ("slurm-wlm 22.05.8", "22.05.8"),
        ("NET/OFI Initializing aws-ofi-nccl 1.8.1-aws", "1.8.1"),
        ("libfabric: 2.3.1amzn1.0", "2.3.1"),
        ("2.11.0+cu130", "2.11.0"),
        ("no such tool", ""),
        ("4", ""),
    ],
)
def test_version_in_a_text(text: str, version: str) -> None:
    result = ask("versions::of", text)
    assert (result.returncode, result.stdout) == (0, version)


@pytest.mark.parametrize(
    ("found", "wanted", "enough"),
    [
        ("535.54.03", "535.54.03", True),
        ("535.104.05", "535.54.03", True),
        ("535.54.02", "535.54.03", False),
        ("1.22.0", "1.8.1", True),
        ("1.9", "1.8.1", True),
        ("1.8", "1.8.1", False),
        ("2.18.5.1", "2.18.5", True),
        ("9.10", "12.2", False),
        ("22.05", "22.05", True),
        ("1.22", "1.22.0", True),
        ("535.104.05", "535.104.5", True),
    ],
)
def test_order(found: str, wanted: str, enough: bool) -> None:
    assert ask("versions::at_least", found, wanted).returncode == (0 if enough else 1)


def test_each_minimum_has_its_source_and_says_what_to_do() -> None:
    data = json.loads((SCANS / "minimums.json").read_text())
    assert data["schema"] == 1
    for name, component in data["components"].items():
        assert component["minimum"] and component["minimum_source"] and component["action"], name
        assert bool(component["recommended"]) == bool(component["recommended_source"]), name
        if component["recommended"]:
            assert ask("versions::at_least", component["recommended"], component["minimum"]).returncode == 0, name
    assert {name: component["minimum"] for name, component in data["components"].items()}.items() >= {
        ("nvidia-driver", "580.65.06"),
        ("efa-installer", "1.26.1"),
        ("cuda", "12.2"),
        ("nccl", "2.18.5"),
        ("aws-ofi-nccl", "1.13.0"),
    }
    assert all(figure["minimum"] and figure["source"] for figure in data["figures"].values())
