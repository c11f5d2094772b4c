"""EC2's query protocol, by botocore's own model of it.

`call` sends one EC2 action to the handlers of this process (no HTTP) and `answers` registers an action written
with plain dictionaries. Both sides use the shapes that botocore ships, so a new action needs no XML of its own.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any
from xml.sax.saxutils import escape

from botocore.model import OperationModel, ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from ministack.services import ec2

from local.emulator.service import ApiError, service_model

Answer = tuple[int, dict[str, str], bytes]


def model() -> ServiceModel:
    """botocore's description of EC2."""
    return service_model("ec2")


def call(operation: str, **arguments: Any) -> dict[str, Any]:
    """Carry out an EC2 action in this process; raises ApiError when it is refused."""
    operation_model = model().operation_model(operation)
    body = create_serializer("ec2").serialize_to_request(arguments, operation_model)["body"]
    params = {key: [str(value)] for key, value in body.items()}
    status, _headers, answer = ec2._ACTION_MAP[operation](params)
    raw = {"status_code": status, "headers": {}, "body": answer}
    shape: Any = operation_model.output_shape
    parsed: dict[str, Any] = create_parser("ec2").parse(raw, shape)
    if status >= 400:
        error = parsed.get("Error", {})
        raise ApiError(error.get("Code", "InternalError"), error.get("Message", ""), status)
    return parsed


def answers(operation: str) -> Callable[[Callable[[dict[str, Any]], dict[str, Any]]], Any]:
    """Register a function from request to answer, both as boto3 would show them, as an EC2 action."""

    def register(function: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
        def handler(params: dict[str, Any]) -> Answer:
            operation_model = model().operation_model(operation)
            try:
                return write(operation_model, function(read(operation_model, params)))
            except ApiError as error:
                answer: Answer = ec2._error(error.code, escape(error.message), error.status)
                return answer

        ec2._ACTION_MAP[operation] = handler
        return function

    return register


def read(operation: OperationModel, params: dict[str, Any]) -> dict[str, Any]:
    """The request that query parameters spell out."""
    flat = {key: value[0] if isinstance(value, list) else value for key, value in params.items()}
    prefixes = {key.rsplit(".", depth)[0] for key in flat for depth in range(key.count(".") + 1)}
    if operation.input_shape is None:
        return {}
    return _read(operation.input_shape, flat, prefixes, "") or {}


def _read(shape: Any, flat: dict[str, str], prefixes: set[str], prefix: str) -> Any:
    if prefix and prefix not in prefixes:
        return None
    if shape.type_name == "structure":
        found = {}
        for name, member in shape.members.items():
            key = _query_name(member, name)
            value = _read(member, flat, prefixes, f"{prefix}.{key}" if prefix else key)
            if value is not None:
                found[name] = value
        return found
    if shape.type_name == "list":
        items: list[Any] = []
        while (item := _read(shape.member, flat, prefixes, f"{prefix}.{len(items) + 1}")) is not None:
            items.append(item)
        return items
    text = flat.get(prefix)
    if text is None:
        return None
    convert: dict[str, Callable[[str], Any]] = {
        "integer": int,
        "long": int,
        "float": float,
        "double": float,
        "boolean": lambda value: value.lower() == "true",
    }
    return convert.get(shape.type_name, str)(text)


def _query_name(member: Any, name: str) -> str:
    if "queryName" in member.serialization:
        return str(member.serialization["queryName"])
    wire_name = str(member.serialization.get("name", name))
    return wire_name[0].upper() + wire_name[1:]


def write(operation: OperationModel, answer: dict[str, Any]) -> Answer:
    """The XML that a client expects for an answer."""
    inner = _write_members(operation.output_shape, answer) if operation.output_shape else ""
    root = f"{operation.name}Response"
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?><{root} xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"{inner}<requestId>00000000-0000-4000-8000-000000000000</requestId></{root}>"
    )
    return 200, {"Content-Type": "text/xml;charset=UTF-8"}, body.encode()


def _write_members(shape: Any, value: dict[str, Any]) -> str:
    return "".join(
        _write(member, value[name], str(member.serialization.get("name", name)))
        for name, member in shape.members.items()
        if value.get(name) is not None
    )


def _write(shape: Any, value: Any, tag: str) -> str:
    if shape.type_name == "structure":
        inner = _write_members(shape, value)
    elif shape.type_name == "list":
        item = str(shape.member.serialization.get("name", "item"))
        inner = "".join(_write(shape.member, entry, item) for entry in value)
    elif isinstance(value, bool):
        inner = str(value).lower()
    elif isinstance(value, datetime.datetime):
        inner = value.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    elif isinstance(value, bytes):
        inner = base64.b64encode(value).decode()
    else:
        inner = escape(str(value))
    return f"<{tag}>{inner}</{tag}>"


def matches(request: dict[str, Any], record: dict[str, Any]) -> bool:
    """Whether a record passes every filter of a request. A filter's name is that of a member: zone-id is ZoneId.

    Raises:
        ApiError: a filter of another name; ignoring it would return too much.
    """
    values = {re.sub(r"(?<!^)(?=[A-Z])", "-", key).lower(): value for key, value in record.items()}
    for wanted in request.get("Filters", []):
        if wanted["Name"] not in values:
            raise ApiError("InvalidParameterValue", f"The filter '{wanted['Name']}' is invalid")
        value = values[wanted["Name"]]
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not any(fnmatchcase(text, pattern) for pattern in wanted.get("Values", [])):
            return False
    return True


def page(request: dict[str, Any], found: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """One page of the items, as NextToken and MaxResults ask."""
    start = int(request.get("NextToken") or 0)
    end = start + int(request.get("MaxResults") or len(found) or 1)
    return {key: found[start:end], **({"NextToken": str(end)} if end < len(found) else {})}
