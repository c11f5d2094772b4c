"""Reading files: faults of YAML and of types, each at its line, all of one layer at once, and never a traceback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as budget
from hypothesis import strategies as st

import settings
from settings import files
from settings.model.base import MEANINGS
from settings.model.people import PeopleFile
from settings.pipeline import Pipeline

GOOD = """\
name: demo
account: "111122223333"
region: us-east-1
network:
  zone: use1-az4
cluster:
  queues:
    - name: gpu
      compute:
        - name: p5
          instance_types: [p5.48xlarge]
          max: 2
          efa: true
"""


def faults_in(tmp_path: Path, text: str | bytes) -> list[tuple[int, str, str]]:
    """Line, key and text of each fault."""
    file = tmp_path / "demo.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        settings.load(file)
    except settings.Faults as found:
        assert all(fault.file == file for fault in found.faults)
        return [(fault.line, fault.key, str(fault)) for fault in found.faults]
    return []


def swap(line: int, text: str) -> str:
    """The good file with one line replaced."""
    lines = GOOD.splitlines()
    lines[line - 1] = text
    return "\n".join(lines) + "\n"


def test_a_good_file_gives_a_frozen_environment(tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(GOOD)
    environment = settings.load(file)
    assert environment.cluster_name == "demo"
    assert environment.cluster.queues[0].compute[0].instance_types == ("p5.48xlarge",)
    with pytest.raises(ValueError, match="frozen"):
        environment.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "line", "key", "part"),
    [
        (swap(2, "account: 111122223333"), 2, "account", 'put it in quotes: "111122223333"'),
        (swap(2, "account: '12345'"), 2, "account", "12 digits"),
        (swap(1, "nmae: demo"), 1, "nmae", "did you mean name?"),
        (swap(1, "# no name"), 1, "name", "add the key name"),
        (swap(5, "  zone: us-east-1a"), 5, "network.zone", "use1-az4"),
        (swap(5, "  zone: use1-az4\n  egres: nat"), 6, "network.egres", "did you mean egress?"),
        (swap(5, "  zone: use1-az4\n  egress: nta"), 6, "network.egress", "did you mean nat?"),
        (swap(5, "  zone: use1-az4\n  egress:"), 6, "network.egress", "nothing (null)"),
        (swap(5, "  zone: use1-az4\n  grafana: true"), 6, "network.grafana", "remove the key"),
        (swap(5, "  zone: use1-az4\n  flow_log_days: 31"), 6, "network.flow_log_days", "one of 1, 3, 5, 7"),
        (swap(5, "  zone: use1-az4\n  clients: 10.0.0.0/8"), 6, "network.clients", "a list"),
        (swap(12, '          max: "2"'), 12, "cluster.queues[0].compute[0].max", "without quotes"),
        (swap(12, f"          max: {'9' * 23}"), 12, "cluster.queues[0].compute[0].max", "write a smaller number"),
        (swap(12, "          max: 0"), 12, "cluster.queues[0].compute[0].max", "more than 0"),
        (swap(12, "          max: 2.5"), 12, "cluster.queues[0].compute[0].max", "a whole number"),
        (swap(11, "          instance_types: []"), 11, "cluster.queues[0].compute[0].instance_types", "at least 1"),
        (swap(10, "        - nme: p5"), 10, "cluster.queues[0].compute[0].nme", "did you mean name?"),
        (swap(4, "network: 5\nx:"), 4, "network", "a mapping"),
        (GOOD + "name: again\n", 14, "name", "first in line 1"),
        (GOOD + "tags: {a: 1}\n", 14, "tags.a", 'put it in quotes: "1"'),
        (GOOD + "tags:\n  <<: {a: b}\n", 15, "tags.<<", "a text"),
        (GOOD + "<<: {a: b}\n", 14, "<<", "merge keys"),
        (GOOD + "tags: !!python/name:os.system x\n", 14, "tags", "without tags"),
        ("--- !anything\n" + GOOD, 1, "(file)", "without tags"),
        (GOOD + 'tags: {a: "{{resolve:ssm:x}}"}\n', 14, "tags.a", "dynamic reference"),
        (GOOD + "? [a, b]\n: c\n", 14, "(file)", "as a key"),
        (GOOD + 'tags: {a: "\\ud800"}\n', 14, "tags.a", "UTF-8"),
        (GOOD + "storage:\n  openzfs:\n    capacity_gib: 64\n", 15, "storage.openzfs.volumes", "add the key volumes"),
        (swap(3, "region: [us-east-1"), 4, "(file)", "expected"),
        (swap(5, "\tzone: use1-az4"), 5, "(file)", "tabs"),
        ("- a\n- b\n", 1, "(file)", "a list"),
        ("hello\n", 1, "(file)", "'hello'"),
        ("", 1, "(file)", "an empty file"),
        ("# nothing\n", 1, "(file)", "an empty file"),
        (GOOD + "---\n" + GOOD, 14, "(file)", "single document"),
        (b"name: \xff\n", 1, "(file)", "UTF-8"),
        (b"name: a\nregion: \x01\n", 2, "(file)", "U+0001"),
        ("[" * 3000, 1, "(file)", "nested"),
        ("a: " + "{a: " * 40 + "1" + "}" * 40, 1, "a.a.a.a", "20 levels"),
        ("a: &a [*a]\n", 1, "a[0][0][0]", "20 levels"),
    ],
)
def test_a_fault_names_its_line_and_key(tmp_path: Path, text: str | bytes, line: int, key: str, part: str) -> None:
    faults = faults_in(tmp_path, text)
    assert [(at, name) for at, name, said in faults if part in said] == [(line, key)], faults


def test_aliases_that_grow_are_refused(tmp_path: Path) -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9))
    [(_, _, said)] = faults_in(tmp_path, f"l0: &l0 [x]\n{levels}\n")
    assert "too many values" in said


def test_times_and_numbers_with_zeros_stay_texts(tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(
        GOOD.replace('"111122223333"', "000000000000")
        + "storage:\n  lustre:\n    - {name: a1, mount: /a, capacity_gib: 1200, maintenance_window: 7:18:00}\n"
    )
    environment = settings.load(file)
    assert environment.account == "000000000000"
    assert environment.storage.lustre[0].maintenance_window == "7:18:00"


@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_a_name_finds_files_of_both_suffixes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr(files, "ENVIRONMENTS", tmp_path / "environments")
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / f"demo.{suffix}").write_text(GOOD)
    assert settings.load(files.environment_file("demo")).name == "demo"
    assert files.environment_file(f"demo.{suffix}") == tmp_path / "environments" / f"demo.{suffix}"
    assert files.environment_file("elsewhere/demo.yml") == Path("elsewhere/demo.yml")
    with pytest.raises(ValueError, match=r"no environment 'other'. Under environments/ there are: demo\."):
        files.environment_file("other")


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(settings.Faults, match="cannot be read") as caught:
        settings.load(tmp_path / name)
    assert caught.value.faults[0].line == 0


def test_all_faults_come_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = (
        swap(2, "account: 1").replace("efa: true", "efa: maybe")
        + """\
tags: !!set {a}
storage:
  lustre:
    - {name: a1, mount: fsx, capacity_gib: 1200, efaa: true}
    - {name: b1, mount: /b, capacity_gib: no, name: b2}
"""
    )
    assert [(line, key) for line, key, _ in faults_in(tmp_path, text)] == [
        (2, "account"),
        (13, "cluster.queues[0].compute[0].efa"),
        (14, "tags"),
        (14, "tags"),
        (17, "storage.lustre[0].efaa"),
        (17, "storage.lustre[0].mount"),
        (18, "storage.lustre[1].capacity_gib"),
        (18, "storage.lustre[1].name"),
    ]


def test_rules_run_on_a_file_of_valid_types_and_their_faults_come_at_once(tmp_path: Path) -> None:
    text = (
        GOOD.replace("use1-az4", "usw2-az1")
        + """\
storage:
  lustre:
    - {name: a1, mount: /etc, capacity_gib: 1000}
    - {name: b1, mount: /b, capacity_gib: 1200}
    - {name: c1, mount: /b, capacity_gib: 1300}
"""
    )
    assert [(line, key) for line, key, _ in faults_in(tmp_path, text)] == [
        (5, "network.zone"),
        (16, "storage.lustre[0].capacity_gib"),
        (16, "storage.lustre[0].mount"),
        (18, "storage.lustre[2].capacity_gib"),
        (18, "storage.lustre[2].mount"),
    ]
    assert [key for _, key, _ in faults_in(tmp_path, text + "tags: {a: 1}\n")] == ["tags.a"]


def test_every_pattern_of_the_model_is_explained_in_words() -> None:
    found: set[str] = set()
    models = (settings.Environment, Pipeline, PeopleFile)
    waiting: list[object] = [model.model_json_schema() for model in models]
    for node in waiting:
        if isinstance(node, dict):
            found |= {node["pattern"]} if isinstance(node.get("pattern"), str) else set()
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    assert found == MEANINGS.keys()


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10) | st.integers(), inner, max_size=4)
    ),
    max_leaves=15,
)
KEYS = st.sampled_from(
    sorted({name for part in settings.Environment.model_json_schema()["$defs"].values() for name in part["properties"]})
)
SHAPED = st.recursive(
    JUNK,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)


@budget(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(junk=st.dictionaries(st.sampled_from(sorted(settings.Environment.model_fields)), SHAPED) | SHAPED)
def test_no_data_makes_anything_but_faults(tmp_path: Path, junk: object) -> None:
    data = {**yaml.safe_load(GOOD), **junk} if isinstance(junk, dict) else junk
    file = tmp_path / "junk.yaml"
    file.write_text(yaml.dump(data), encoding="utf-8", errors="surrogatepass")
    _only_faults(file)


@budget(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=200) | st.text(alphabet="ab:-[]{}&*!|>'\"#%@\n\t ,?~0", max_size=60).map(str.encode))
def test_no_bytes_make_anything_but_faults(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "junk.yaml"
    file.write_bytes(raw)
    _only_faults(file)


def _only_faults(file: Path) -> None:
    try:
        settings.load(file)
    except settings.Faults as found:
        assert str(found)


def _paths(data: object, path: tuple[str, ...] = ()) -> list[str]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [".".join(path)] * bool(path) + [one for key, value in inner for one in _paths(value, (*path, str(key)))]


@budget(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_spoilt_part_of_a_good_file_makes_anything_but_faults(
    edit: Callable[[Mapping[str, object]], Path], good: dict[str, Any], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(_paths(good)), min_size=1, max_size=4, unique=True))
    leaves = [path for path in chosen if not any(other.startswith(f"{path}.") for other in chosen)]
    _only_faults(edit({path: data.draw(JUNK) for path in leaves}))


def test_an_environment_is_found_by_the_name_that_messages_have() -> None:
    """The cluster's messages name the environment; the command line takes its file's name."""
    assert settings.environment_file("jakarta") == settings.environment_file("jakarta-80xp5e")
