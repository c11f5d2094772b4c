"""list-containers.sh on images in every state."""

from __future__ import annotations

import json

import pytest

from local.slurm import Laboratory
from tests.images.conftest import ASSETS, IMAGES, Importer
from tests.slurm import registry
from tests.slurm.registry import Image

FOLDER = "/shared/listed"
LIST = ["bash", f"{ASSETS}/images/list-containers.sh"]


@pytest.fixture(scope="module")
def image(lab: Laboratory) -> Image:
    lab.run(["install", "-d", "-o", "ubuntu", "-m", "775", FOLDER], user="root")
    return registry.push(lab, "pytorch-training-custom", "listed")


def test_states(lab: Laboratory, image: Image) -> None:
    for name in ("a-whole", "b-changed", "c-gone", "d.unknown"):
        assert Importer(lab, name).run(image.uri, "--directory", FOLDER).returncode == 0
    lab.run(f"cd {FOLDER} && touch b-changed.sqsh .a-whole.import.aaaaaaaa && rm c-gone.sqsh d.unknown.json")
    found = json.loads(lab.output([*LIST, "--json", "--directory", FOLDER]))
    assert {one["name"]: one["state"] for one in found} == {
        "a-whole": "ok",
        "b-changed": "changed",
        "c-gone": "missing",
        "d.unknown": "no-record",
    }
    whole = found[0]
    assert (whole["digest"], whole["image"], whole["user"]) == (image.digest, image.uri, "ubuntu")
    table = lab.output([*LIST, "--directory", FOLDER]).splitlines()
    assert table[0].split() == ["NAME", "SIZE", "STATE", "DIGEST", "IMPORTED", "BY", "IMAGE"]
    digest = image.digest.removeprefix("sha256:")[:12]
    assert table[1].split()[3:] == ["ok", digest, whole["imported"], "ubuntu", image.uri]
    assert len(table) == 5


def test_nothing_there_and_the_clusters_own_folder_is_the_default(lab: Laboratory) -> None:
    result = lab.run(["bash", "-c", 'mkdir -p /tmp/empty; bash "$@"', *LIST, "--directory", "/tmp/empty"])
    assert result.stdout == ""
    assert "import one with import-container.sh" in result.stderr
    assert json.loads(lab.output([*LIST, "--directory", "/tmp/empty", "--json"])) == []
    file = f"{IMAGES}/by-default.sqsh"
    listed = lab.output(f"touch {file}; {' '.join(LIST)} --json; rm {file}")
    assert "by-default" in [one["name"] for one in json.loads(listed)]
