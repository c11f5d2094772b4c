"""Each rule with good and with bad input, as edits of one good environment (examples.py)."""

from __future__ import annotations

from contextlib import suppress
from itertools import zip_longest

import pytest

import settings
from settings.loader import typed
from settings.rules import RULES
from settings.source import read
from tests.settings.conftest import Edit, FaultsOf
from tests.settings.examples import BAD, GOOD
from tests.settings.wording import RECORD, fault_texts


def test_faults_are_worded_as_recorded() -> None:
    recorded = RECORD.read_text(encoding="utf-8").removesuffix("\n").split("\n\n")
    for said, expected in zip_longest(fault_texts(), recorded):
        assert said == expected, "if this is intended, run `.venv/bin/python -m tests.settings.wording`"


@pytest.mark.parametrize("edits", GOOD, ids=lambda edits: " ".join(edits) or "as it is")
def test_good_input_has_no_faults(faults_of: FaultsOf, edits: dict[str, object]) -> None:
    assert [str(fault) for fault in faults_of(edits)] == []


@pytest.mark.parametrize(("edits", "key", "text"), BAD, ids=[f"{key}: {text}"[:60] for _, key, text in BAD])
def test_bad_input_is_refused_at_its_key(faults_of: FaultsOf, edits: dict[str, object], key: str, text: str) -> None:
    faults = faults_of(edits)
    at_key = [fault for fault in faults if fault.key == key]
    assert at_key, f"no fault at {key}, but at {[fault.key for fault in faults]}"
    assert any(text in str(fault) for fault in at_key), "\n".join(map(str, at_key))
    assert all(fault.line > 1 and fault.given and fault.allowed for fault in faults)


def test_every_rule_finds_something_in_the_bad_examples(edit: Edit) -> None:
    """A rule that no bad example sets off is not tested."""
    environments = []
    for edits, _, _ in BAD:
        with suppress(settings.Faults):
            environments.append(typed(read(edit(edits)), settings.Environment))
    silent = [rule for rule in RULES if not any(next(rule(environment), None) for environment in environments)]
    assert silent == []
