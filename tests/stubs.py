"""boto3 clients that answer what a test queued; botocore checks calls and answers against its models of AWS."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.stub import Stubber


@contextmanager
def stubbed(service: str, region: str = "us-east-1") -> Iterator[tuple[Any, Stubber]]:
    """A client and its stub. At the end, every queued answer must have been taken."""
    session: Any = boto3.Session("id", "secret", region_name=region)
    client = session.client(service)
    with Stubber(client) as stub:
        yield client, stub
        stub.assert_no_pending_responses()
