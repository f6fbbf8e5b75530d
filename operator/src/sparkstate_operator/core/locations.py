"""The folder that a storage URL means, in one form for all spellings of it. It is for comparing two URLs only.

A driver reports its savepoints in the engine's own form (``file:///mnt/s/sp-1``), and a user writes the same folder as
``/mnt/s/sp-1``. Compared as text, the two differed, and the data was deleted under the job that had to start from it.
"""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, urlsplit

_METADATA = "/_metadata"
"""A savepoint may also be named by the file that makes it one."""
_S3 = frozenset({"s3", "s3a", "s3n"})
"""Hadoop's spellings mean S3 too."""


def folder(url: str) -> str:
    """Equal for two URLs if the engine opens the same folder for both. A text that is no such URL is compared as it is.

    A relative path stays one: only the driver's container knows its working directory.
    """
    return _spelt(url).removesuffix(_METADATA).rstrip("/")


def _spelt(url: str) -> str:
    if url.startswith("/") and "://" not in url:
        return _local(url)
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.rstrip("/")
    if parts.scheme in _S3:
        return "/".join(["s3:/", *filter(None, url.partition("://")[2].split("/"))])
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        return _local(unquote(parts.path))
    return url.rstrip("/")


def _local(path: str) -> str:
    """``normpath`` keeps two slashes in front, which mean the same as one on Linux."""
    return "file://" + posixpath.normpath("/" + path.lstrip("/"))
