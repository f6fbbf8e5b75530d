"""Bytes and headers of S3's answers and requests: what has to be looked at by hand, without boto3."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

MAX_PARTS = 10_000
"""Of one multipart upload."""


def part_size(size: int, least: int) -> int:
    """Bytes of each part but the last of an object of ``size`` bytes: ``least``, or more if they would be too many."""
    return max(least, -(-size // MAX_PARTS))


def require_length(found: int, promised: int) -> None:
    """Raise ``ValueError`` for a body that was cut. A head that was cut before its Content-Length makes the body end
    with the connection, wherever that is."""
    if found != promised:
        raise ValueError(f"{found} of {promised} bytes")


def add_content_md5(params: dict[str, Any], **_: Any) -> None:
    """Older servers require Content-MD5 for the multi-object delete and do not know CRC32, botocore's new choice."""
    body = params["body"]
    data = body if isinstance(body, bytes) else str(body).encode()
    params["headers"] = {
        name: value
        for name, value in params["headers"].items()
        if not name.lower().startswith(("x-amz-checksum-", "x-amz-sdk-checksum-"))
    }
    params["headers"]["Content-MD5"] = md5(data)


def may_be_cut(headers: Mapping[str, str]) -> bool:
    """Whether the answer to HEAD, which has no body that tells, may have ended in what we read of it: Python takes the
    end of a connection for the end of the headers. Servers send others behind."""
    last = next(reversed(list(headers)), "")
    return last.lower() in ("content-length", "last-modified")


def md5(data: bytes | bytearray) -> str:
    """As ``Content-MD5`` has it."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
