"""Requests to a bucket that survive throttling, lost connections, truncation and corruption on the way."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)

from ops.preflight.aws import Denied, code_of
from ops.problem import Problem

if TYPE_CHECKING:
    import boto3

Answer = TypeVar("Answer")

ATTEMPTS = 8
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 8.0
_TRANSIENT = {
    *(
        "BadDigest",
        "ConditionalRequestConflict",
        "IncompleteBody",
        "InternalError",
        "OperationAborted",
        "RequestTimeout",
        "ServiceUnavailable",
    ),
    *(
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "XAmzContentSHA256Mismatch",
        "XAmzContentChecksumMismatch",
        "500",
        "502",
        "503",
        "504",
    ),
}
"""S3's codes after which the same request may succeed. BadDigest: what arrived is not what was sent."""
_ACTIONS = {
    "head_object": "s3:GetObject",
    "get_object": "s3:GetObject",
    "list_objects_v2": "s3:ListBucket",
    "list_multipart_uploads": "s3:ListBucketMultipartUploads",
    "list_parts": "s3:ListMultipartUploadParts",
    "abort_multipart_upload": "s3:AbortMultipartUpload",
    "delete_object": "s3:DeleteObject",
}

_PAGES = {
    "list_objects_v2": {"ContinuationToken": "NextContinuationToken"},
    "list_parts": {"PartNumberMarker": "NextPartNumberMarker"},
    "list_multipart_uploads": {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"},
}
"""What asks for the next page, and where the answer has it."""


class Stopped(Exception):
    """Another part of the transfer failed, or the user interrupted it."""


class Truncated(Exception):
    """An answer that ended early."""


class Store:
    """One bucket. `stop` ends all requests and pauses."""

    def __init__(self, session: boto3.Session, bucket: str, connections: int = 16) -> None:
        config = Config(
            connect_timeout=10,
            read_timeout=60,
            max_pool_connections=connections + 8,
            retries={"mode": "standard", "total_max_attempts": 2},
        )
        self._client: Any = session.client("s3", config=config)
        self.bucket, self.stop = bucket, threading.Event()

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - boto3's
        """The answer of one call on the bucket, repeated while its failure is transient.

        Raises:
            Denied: the permission is missing.
            Problem: the bucket does not exist, or S3 did not answer.
            ClientError: every other error.
        """
        return self._retry(operation, lambda: getattr(self._client, operation)(Bucket=self.bucket, **arguments))

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """An object, or some bytes of it."""

        def once() -> bytes:
            span = {"Range": f"bytes={start}-{start + length - 1}"} if length else {}
            answer = self._client.get_object(Bucket=self.bucket, Key=key, **span)
            data: bytes = answer["Body"].read()
            expected = answer["ContentLength"] if length is None else length
            if len(data) != expected:
                raise Truncated(f"{len(data)} of {expected} bytes")
            return data

        return self._retry("get_object", once)

    def items(self, operation: str, answer: str, **arguments: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
        """The items of all pages.

        A boto3 paginator cannot be retried: after an exception its generator is exhausted.
        """
        page: dict[str, Any] = {}
        while True:
            page = self.call(operation, **arguments)
            yield from page.get(answer, [])
            if not page.get("IsTruncated"):
                return
            arguments |= {asked: page[given] for asked, given in _PAGES[operation].items()}

    def head(self, key: str) -> tuple[int, str, str] | None:
        """Bytes and CRC64NVME of an object, and the type of the checksum; None if it does not exist."""
        try:
            found = self.call("head_object", Key=key, ChecksumMode="ENABLED")
        except ClientError as error:
            if code_of(error) in ("404", "NoSuchKey", "NotFound"):
                return None
            raise
        return found["ContentLength"], found.get("ChecksumCRC64NVME", ""), found.get("ChecksumType", "")

    def _retry(self, operation: str, once: Callable[[], Answer]) -> Answer:
        reason: object = ""
        for attempt in range(ATTEMPTS):
            if self.stop.is_set():
                raise Stopped
            try:
                return once()
            except ClientError as error:
                code = code_of(error)
                if code in ("AccessDenied", "403", "AllAccessDisabled"):
                    raise Denied(f"{_ACTIONS.get(operation, 's3:PutObject')} on s3://{self.bucket}") from error
                if code == "NoSuchBucket":
                    raise Problem(
                        f"The bucket {self.bucket} does not exist. Was it deleted? trainyard drift ENV"
                    ) from error
                if code not in _TRANSIENT:
                    raise
                reason = error
            except (
                HTTPClientError,
                ConnectionError,  # botocore's: refused, timed out, TLS
                IncompleteReadError,
                FlexibleChecksumError,
                Truncated,
            ) as error:
                reason = error
            longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt)
            self.stop.wait(random.uniform(longest / 2, longest))  # noqa: S311 - spreads the retries
        raise Problem(
            f"S3 did not answer {operation} on {self.bucket} in {ATTEMPTS} attempts: {reason}. What arrived is kept: "
            "run the command again, and it goes on."
        )
