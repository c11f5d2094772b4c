"""Reads YAML into plain data and remembers the line of each key.

Scalars follow YAML 1.2: PyYAML's own YAML 1.1 rules would read `18:00` as 1080, `no` as false and `012` as 10. Here
they stay texts. This is not ruamel.yaml because that stops at the first duplicate key, turns dates, `0x1f` and `1_000`
into values and drops the text of a number, so this walk over the nodes would be needed all the same.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from settings.faults import Fault, Faults, KeyPath, key_text

MAX_DEPTH = 20
MAX_VALUES = 20_000
MAX_BYTES = 1_000_000
MAX_DIGITS = 18

_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
_INTEGER = re.compile(rf"-?(0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}})")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]{1,3})?")
_SURROGATE = re.compile("[\ud800-\udfff]")  # an escape in double quotes can make a lone one
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
}


class _Loader(yaml.SafeLoader):
    """Composes nodes only. Without implicit resolvers scalars keep their text; `Source._scalar` decides their type."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own attribute


@dataclass
class Source:
    """A parsed file.

    Attributes:
        data: the content as plain data.
        lines: the line of each key.
        texts: the text of each scalar as it is in the file.
        faults: what is wrong with it so far.
    """

    file: Path
    data: dict[str, object] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    texts: dict[KeyPath, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    _values: int = 0

    def line(self, key: KeyPath) -> int:
        """The line of a key, or of its nearest parent in the file."""
        return next((self.lines[key[:end]] for end in range(len(key), 0, -1) if key[:end] in self.lines), 1)

    def add(self, key: KeyPath, given: str, allowed: str, advice: str = "", line: int | None = None) -> None:
        """Record a fault at a key."""
        at = self.line(key) if line is None else line
        self.faults.append(Fault(self.file, at, key_text(key), given, allowed, advice))

    def read_mapping(self, node: yaml.MappingNode, key: KeyPath = ()) -> dict[str, object]:
        """The plain data of a mapping; records lines, texts and faults."""
        data: dict[str, object] = {}
        for name_node, value_node in node.value:
            line = name_node.start_mark.line + 1
            if not isinstance(name_node, yaml.ScalarNode):
                self.add(key, "a list or mapping as a key", "a plain text as a key", line=line)
                continue
            name = str(name_node.value)
            at = (*key, name)
            if _SURROGATE.search(name):
                self.add(key, f"the key {name!r}", "characters that UTF-8 can encode", line=line)
            elif name in data:
                self.add(at, f"the key twice, first in line {self.lines[at]}", "each key once", line=line)
            else:
                is_text = isinstance(value_node, yaml.ScalarNode) and value_node.value
                self.lines[at] = value_node.start_mark.line + 1 if is_text else line
                data[name] = self._plain(value_node, at)
        return data

    def _plain(self, node: yaml.Node, key: KeyPath) -> object:
        self._values += 1
        line = node.start_mark.line + 1
        if len(key) > MAX_DEPTH or self._values > MAX_VALUES:
            limit = f"at most {MAX_DEPTH} levels and {MAX_VALUES} values; an aliased value counts each time"
            raise _single(self.file, line, "too much nesting or too many values", limit, key=key[:4])
        if node.tag not in _TAGS:
            self.add(key, f"the tag {node.tag}", "plain YAML without tags", line=line)
            return None
        if isinstance(node, yaml.MappingNode):
            return self.read_mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            self.lines |= {(*key, index): item.start_mark.line + 1 for index, item in enumerate(node.value)}
            return [self._plain(item, (*key, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, key)

    def _scalar(self, node: yaml.Node, key: KeyPath) -> object:
        text = str(node.value)
        if _SURROGATE.search(text):
            self.add(key, repr(text), "characters that UTF-8 can encode")
            return None
        if "{{resolve:" in text:
            allowed = "a plain value: CloudFormation would replace this dynamic reference with a secret or parameter"
            self.add(key, repr(text[:80]), allowed)
        self.texts[key] = text
        if isinstance(node, yaml.ScalarNode) and node.style is not None:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) and math.isfinite(float(text)) else text


def read(
    file: Path, *, what: str = "an environment", example: str = "environments/local.yaml", text: str | None = None
) -> Source:
    """Read a file that should hold `what`, as `example` does; `text` is its content if it is not the file's own.

    Raises:
        Faults: the file is not a YAML mapping. Lesser faults are in the result's `faults`.
    """
    source = Source(file)
    root = _compose(file, text_of(file) if text is None else text)
    if root is None:
        raise _single(file, 1, "an empty file", what, f"start from {example}")
    if not isinstance(root, yaml.MappingNode):
        given = "a list" if isinstance(root, yaml.SequenceNode) else f"the single value {root.value!r}"
        raise _single(file, 1, given, "a mapping of keys to values", f"start from {example}")
    if root.tag not in _TAGS:
        raise _single(file, 1, f"the tag {root.tag}", "plain YAML without tags")
    source.data = source.read_mapping(root)
    return source


def _single(file: Path, line: int, given: str, allowed: str, advice: str = "", *, key: KeyPath = ()) -> Faults:
    return Faults([Fault(file, line, key_text(key), given, allowed, advice)])


def text_of(file: Path) -> str:
    """The text of a file; raises Faults if it is not a readable file of up to 1 MB in UTF-8."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise _single(file, 0, f"a file that cannot be read: {reason}", "a readable YAML file") from error
    if len(raw) > MAX_BYTES:
        raise _single(file, 0, f"more than {MAX_BYTES} bytes", "a file of at most 1 MB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _single(file, line, f"byte 0x{raw[error.start]:02x}", "text in UTF-8") from error


def _compose(file: Path, text: str) -> yaml.Node | None:
    try:
        root: yaml.Node | None = yaml.compose(text, _Loader)
        return root
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        number = mark.line if mark else 0
        line = ([*text.splitlines(), ""])[number]
        given = ", ".join(part for part in (error.context, error.problem) if part) or "broken YAML"
        advice = "check the line before this one"
        if "\t" in line[: len(line) - len(line.lstrip())]:
            advice = "indent with spaces: YAML does not allow tabs"
        elif line.strip():
            advice = f"check this line and the one before it: {line.strip()[:80]}"
        raise _single(file, number + 1, given, "YAML", advice) from error
    except yaml.reader.ReaderError as error:
        line_number = text.count("\n", 0, error.position) + 1
        raise _single(file, line_number, f"character U+{ord(text[error.position]):04X}", "printable text") from error
    except (RecursionError, ValueError) as error:
        given = "YAML that is nested too deeply or cannot be read"
        raise _single(file, 1, given, f"at most {MAX_DEPTH} levels") from error
