"""Golden files: what the shipped environments synthesize to, kept in git so that a diff shows what a change does.

`<environment>/cluster.yaml` is the configuration that ParallelCluster gets, and `settings.yaml` the `settings.json` of
its nodes, both with readable ids. The environments of FULL also have `<stack>.template.json` for each stack, without
the hashes of assets, which any change of a file behind them would change. `pipelines/` has the template of each shipped
pipeline.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ops.review.structure import differences
from settings import Environment
from settings.files import PIPELINES
from tests.cluster_config.references import environments, references
from tests.ops.review.synthesis import pipeline_template, stacks_of
from trainyard.cluster_config import render
from trainyard.cluster_settings import cluster_settings

FOLDER = Path(__file__).parent
FULL = ("local", "jakarta-80xp5e")
"""Environments with golden templates: the default, and the largest. The templates of the others are much the same."""
SHOWN = 40
"""Differences that a failing test lists."""

_SHA256 = re.compile(r"\b[0-9a-f]{64}\b")
_OF_TOOLS = ("aws:cdk:", "aws:asset:")


def made(name: str, environment: Environment, folder: Path) -> dict[str, str]:
    """The golden files of the environment in `name`.yaml, by file name; synthesizes into `folder`."""
    buckets = {f"{kind}_bucket": f"example-{kind}" for kind in ("data", "checkpoints", "assets")}
    uris = {repository.name: f"uri-of-{repository.name}" for repository in environment.images.repositories}
    settings = cluster_settings(environment, repository_uris=uris, **buckets)
    files = {
        "cluster.yaml": _yaml(render(environment, references(environment))),
        "settings.yaml": yaml.safe_dump(settings, default_flow_style=None, sort_keys=False, width=120),
    }
    if name in FULL:
        for stack in stacks_of(environment, folder).values():
            short = stack.id == "observability" or (stack.id == "network" and name != FULL[0])
            files[f"{stack.id}.template.json"] = _text(_normal(stack.template), short=short)
    return files


def _text(template: Mapping[str, Any], *, short: bool) -> str:
    """JSON; in the short form with one line for each resource: many are much the same."""
    if not short:
        return f"{json.dumps(template, indent=1)}\n"
    resources = ",\n".join(f" {json.dumps(name)}: {json.dumps(made)}" for name, made in template["Resources"].items())
    rest = {key: value for key, value in template.items() if key != "Resources"}
    return f'{json.dumps(rest)[:-1]},\n"Resources": {{\n{resources}\n}}}}\n'


def made_pipelines(folder: Path) -> dict[str, str]:
    """The templates of the shipped pipelines' own stacks, by file name; synthesizes into `folder`."""
    texts = {}
    for file in sorted(PIPELINES.glob("*.yaml")):
        template = pipeline_template(file, folder / file.stem)
        texts[f"{file.stem}.template.json"] = f"{json.dumps(_normal(template), indent=1)}\n"
    return texts


def kept(name: str) -> dict[str, str]:
    """The files of one environment, or of `pipelines`, in git."""
    return {file.name: file.read_text("utf-8") for file in sorted((FOLDER / name).glob("*"))}


def refresh() -> None:
    """Write all files and remove those of environments and stacks that are gone."""
    wanted: dict[Path, str] = {}
    for name, environment in environments().items():
        with tempfile.TemporaryDirectory() as folder:
            files = made(name, environment, Path(folder))
        wanted |= {FOLDER / name / file: text for file, text in files.items()}
    with tempfile.TemporaryDirectory() as folder:
        wanted |= {FOLDER / "pipelines" / file: text for file, text in made_pipelines(Path(folder)).items()}
    for stale in {file for file in FOLDER.glob("*/*") if file.suffix in (".json", ".yaml")} - set(wanted):
        stale.unlink()
        if not any(stale.parent.iterdir()):
            stale.parent.rmdir()
    for file, text in wanted.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")


def complaint(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """What differs, by key, and what to do; empty where nothing does."""
    lines = [line for file in sorted({*old, *new}) for line in _differing(file, old.get(file), new.get(file))]
    if not lines:
        return ""
    more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join(
        [
            f"{name} differs from tests/golden/{name}/ (old -> new):",
            *lines[:SHOWN],
            *more,
            "If you want this change: run make golden, and commit what it writes.",
        ]
    )


def _differing(file: str, old: str | None, new: str | None) -> Iterator[str]:
    if old is None or new is None:
        yield f"{file}: {'none -> a file' if old is None else 'a file -> none'}"
    elif old != new:
        found = [f"{file}: {difference}" for difference in differences(yaml.safe_load(old), yaml.safe_load(new))]
        yield from found or [f"{file}: the order of its keys"]


def _normal(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {
            _SHA256.sub("<sha256>", key): _normal(item)
            for key, item in value.items()
            if not (key == "Metadata" and isinstance(item, dict) and all(k.startswith(_OF_TOOLS) for k in item))
        }
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return _SHA256.sub("<sha256>", value) if isinstance(value, str) else value


def _yaml(configuration: Mapping[str, object]) -> str:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
            return True

    return yaml.dump(configuration, Dumper=Plain, sort_keys=False, width=1000)
