"""EC2's query protocol, by botocore's own model of it.

`call` sends one EC2 action to the handlers of this process (no HTTP) and `answers` registers an action written
with plain dictionaries. botocore and moto translate, so a new action needs no XML of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from typing import Any
from xml.sax.saxutils import escape

from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from ministack.services import ec2
from moto.core.model import ServiceModel
from moto.core.parse import EC2QueryParser
from moto.core.serialize import EC2Serializer

from local.emulator.service import ApiError, service_description

Answer = tuple[int, dict[str, str], bytes]
Action = Callable[[dict[str, Any]], dict[str, Any]]


@cache
def _operation(name: str) -> Any:
    return ServiceModel(service_description("ec2"), "ec2").operation_model(name)


def call(operation: str, **arguments: Any) -> dict[str, Any]:
    """Carry out an EC2 action in this process; raises ApiError when it is refused."""
    model = _operation(operation)
    body = create_serializer("ec2").serialize_to_request(arguments, model)["body"]
    status, _headers, answer = ec2._ACTION_MAP[operation]({key: [str(value)] for key, value in body.items()})
    raw = {"status_code": status, "headers": {}, "body": answer}
    parsed: dict[str, Any] = create_parser("ec2").parse(raw, model.output_shape)
    if status >= 400:
        error = parsed.get("Error", {})
        raise ApiError(error.get("Code", "InternalError"), error.get("Message", ""), status)
    return parsed


def answers(operation: str, depends_on: Callable[[], object] | None = None) -> Callable[[Action], Action]:
    """Register a function from request to answer, both as boto3 would show them, as an EC2 action.

    `depends_on` returns what an answer depends on besides the request. Answers are kept while that stays the same,
    because it takes 0.3 s to write out the instance types of a region.
    """
    kept: dict[tuple[object, str], Answer] = {}

    def register(function: Action) -> Action:
        def handler(params: dict[str, Any]) -> Answer:
            try:
                if depends_on is None:
                    return write(operation, function(read(operation, params)))
                key = depends_on(), json.dumps(params, sort_keys=True)
                if key not in kept:
                    kept[key] = write(operation, function(read(operation, params)))
                status, headers, body = kept[key]
                return status, dict(headers), body  # ministack adds to the headers
            except ApiError as error:
                answer: Answer = ec2._error(error.code, escape(error.message), error.status)
                return answer

        ec2._ACTION_MAP[operation] = handler
        return function

    return register


def read(operation: str, params: dict[str, Any]) -> dict[str, Any]:
    """The request that query parameters spell out."""
    flat = {key: value[0] if isinstance(value, list) else value for key, value in params.items()}
    found: dict[str, Any] = EC2QueryParser(_operation(operation)).parse({"values": flat})
    return found


def write(operation: str, answer: dict[str, Any]) -> Answer:
    """The XML that a client expects for an answer."""
    body = EC2Serializer(_operation(operation)).serialize(answer)["body"]
    return 200, {"Content-Type": "text/xml;charset=UTF-8"}, body.encode()


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
