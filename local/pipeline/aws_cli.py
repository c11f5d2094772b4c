"""What builds call of the AWS CLI, where the machine has none of version 2: any operation, driven by botocore's models.

    aws SERVICE OPERATION [--PARAMETER VALUE...]      scalars, JSON, or several words for a list of scalars
    aws lambda invoke --function-name F --payload '{}' OUTFILE

Output is JSON. --query and the high-level commands (s3 cp, configure ...) are refused. Exit status 252 for wrong use,
254 for a refusal of the service, as the genuine one has it.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import boto3
from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError

USAGE, REFUSED = 252, 254
_IGNORED = ("--output", "--cli-binary-format", "--color", "--no-cli-pager", "--no-paginate")
_WITH_VALUE = ("--output", "--cli-binary-format", "--color")


def main(arguments: list[str]) -> int:
    """Run one command."""
    try:
        return _run(arguments)
    except ValueError as fault:
        print(f"aws: {fault}", file=sys.stderr)
        return USAGE
    except (ClientError, BotoCoreError) as error:
        print(f"\n{error}", file=sys.stderr)
        return REFUSED


def _run(arguments: list[str]) -> int:
    region, arguments = _taken(arguments, "--region")
    if len(arguments) < 2:
        raise ValueError("give a service and an operation")
    service, command, *rest = arguments
    if service not in boto3.session.Session().get_available_services():
        raise ValueError(f"{service!r} is no service; the high-level commands are not here")
    client: Any = boto3.client(service, region_name=region or None)  # type: ignore[call-overload]
    operations = {xform_name(name, "-"): name for name in client.meta.service_model.operation_names}
    if command not in operations:
        raise ValueError(f"{service} has no operation {command!r}; the high-level commands are not here")
    shape = client.meta.service_model.operation_model(operations[command]).input_shape
    given, positional = _parsed(rest, shape)
    answer = getattr(client, xform_name(operations[command]))(**given)
    answer.pop("ResponseMetadata", None)
    for key, value in list(answer.items()):
        if hasattr(value, "read"):
            body = answer.pop(key).read()
            if not positional:
                raise ValueError(f"{service} {command} wants a file for its {key}")
            Path(positional[0]).write_bytes(body)
    if answer:
        print(json.dumps(answer, indent=4, default=str))
    return 0


def _taken(arguments: list[str], option: str) -> tuple[str, list[str]]:
    if option not in arguments:
        return "", arguments
    at = arguments.index(option)
    return arguments[at + 1], arguments[:at] + arguments[at + 2 :]


def _parsed(rest: list[str], shape: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: ANN401 - botocore's shapes
    members = {
        f"--{xform_name(name, '-')}": (name, member) for name, member in (shape.members if shape else {}).items()
    }
    given: dict[str, Any] = {}
    positional = []
    words = list(rest)
    while words:
        word = words.pop(0)
        if word in _IGNORED:
            if word in _WITH_VALUE:
                words.pop(0)
        elif word in members:
            values: list[str] = []
            while words and not words[0].startswith("--") and (not values or members[word][1].type_name == "list"):
                values.append(words.pop(0))
            name, member = members[word]
            given[name] = _value(word, values, member)
        elif word.startswith("--"):
            raise ValueError(f"{word} is not here; allowed: {', '.join(sorted(members))}")
        else:
            positional.append(word)
    return given, positional


def _value(option: str, values: list[str], shape: Any) -> Any:  # noqa: ANN401 - whatever the shape asks for
    if shape.type_name == "boolean":
        return not values or values[0] == "true"
    if not values:
        raise ValueError(f"{option} wants a value")
    text = _file(values[0])
    if shape.type_name in ("structure", "map", "list"):
        if text.lstrip().startswith(("{", "[")):
            return json.loads(text)
        if shape.type_name == "list":
            return values
        pairs = (pair.partition("=") for pair in text.split(","))
        return {key: value for key, _, value in pairs}
    if shape.type_name in ("integer", "long"):
        return int(text)
    return text.encode() if shape.type_name == "blob" else text


def _file(text: str) -> str:
    if text.startswith("file://"):
        return Path(text.removeprefix("file://")).read_text()
    if text.startswith("fileb://"):
        return base64.b64encode(Path(text.removeprefix("fileb://")).read_bytes()).decode()
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
