"""The pinned cdk-assets and the manifests that the pinned aws-cdk-lib writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import aws_cdk as cdk

from trainyard.pipeline import steps

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "local" / "node_modules" / ".bin" / "cdk-assets"


def listed(manifest: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), "--path", str(manifest), "ls"], capture_output=True, text=True, check=False, timeout=300
    )


def synthesized(tmp_path: Path) -> Path:
    app = cdk.App(outdir=str(tmp_path))
    cdk.Stack(app, "stack")
    app.synth()
    return tmp_path / "stack.assets.json"


def test_one_version() -> None:
    """Local runs and the pipeline use the same version."""
    pinned = json.loads((ROOT / "local" / "package.json").read_text())["dependencies"]["cdk-assets"]
    assert pinned == steps.CDK_ASSETS


def test_manifests_need_the_older_schema(tmp_path: Path) -> None:
    """If this fails, the pinned versions are compatible: remove steps.asset_publishing."""
    manifest = synthesized(tmp_path)
    assert "schema version mismatch" in listed(manifest).stderr


def test_the_pipelines_own_command_corrects_them(tmp_path: Path) -> None:
    manifest = synthesized(tmp_path)
    before = json.loads(manifest.read_text())
    subprocess.run(["bash", "-c", steps.OLDER_MANIFESTS], cwd=tmp_path, check=True)
    done = listed(manifest)
    assert done.returncode == 0, done.stderr
    after = json.loads(manifest.read_text())
    assert {**after, "version": before["version"]} == before, "only the version is another"
