"""Names in storage: URLs, keys, and ids that are never used twice. Pure, except :func:`random_id`."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from sparkstate import errors

MEMORY = "memory://driver"
"""The URL of the store in a process's own memory."""
_LONGEST_NAME, _LONGEST_PATH = 255, 4095
"""Bytes, NAME_MAX and PATH_MAX of Linux."""


def random_id() -> str:
    """16 hex digits from the system's entropy; the default id factory where one is passed in."""
    return secrets.token_hex(8)


def normalise_url(url: str) -> str:
    """The URL in the one form we compare and store: ``file:///absolute/path`` or ``s3://bucket/prefix``, no end slash.

    A plain path is taken relative to the working directory; ``s3a://`` and ``s3n://`` (Hadoop's spellings)
    mean S3. Raises :class:`errors.SpecInvalid` for other schemes.
    """
    if not url:
        raise errors.SpecInvalid("the storage URL is empty; give a folder or s3://bucket/prefix")
    if any(ord(character) < 32 or 0xD800 <= ord(character) < 0xE000 for character in unquote(url)):
        raise errors.SpecInvalid(
            f"the storage URL {url!r} has characters that no name can have; leave them out"
        )
    if re.match("s3[an]?:/?[^/]", url):
        raise errors.SpecInvalid(
            f"the storage URL {without_user(url)!r} lacks a slash; write s3://bucket/prefix"
        )
    if "://" not in url and not url.startswith("file:"):
        return Path(os.path.abspath(url)).as_uri()
    if url == MEMORY or url.startswith(f"{MEMORY}/"):
        return url.rstrip("/")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise errors.SpecInvalid(
            f"{url!r} is not a URL ({error}); write s3://bucket/prefix or file:///path"
        ) from error
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise errors.SpecInvalid(
                f"{url!r} names the host {parts.netloc!r}; write file:///{parts.path.lstrip('/')}"
            )
        if "#" in url or "?" in url:
            raise errors.SpecInvalid(
                f"the storage URL {url!r} has a # or ?, which ends the path of a URL; write %23 for # and %3F for ?, "
                "or give a plain path"
            )
        return Path(os.path.abspath(unquote(parts.path))).as_uri()
    if parts.scheme in ("s3", "s3a", "s3n"):
        return _normalise_s3(url)
    raise errors.SpecInvalid(
        f"the storage URL {without_user(url)!r} has the scheme {parts.scheme!r}; this version knows file:// (or a "
        "path) and s3://"
    )


def without_user(text: str) -> str:
    """A text without the users and passwords that URLs within it may have, for messages. A password may have slashes,
    and an endpoint no scheme, so every word loses all that comes before an ``@``."""
    return re.sub(r"[^\s'\"]*@", "…@", text)


def _normalise_s3(url: str) -> str:
    rest = url.split("://", 1)[1]
    bucket, _, prefix = rest.partition("/")
    if "@" in bucket:
        raise errors.SpecInvalid(
            "the storage URL holds credentials; leave them to the environment or the default chain"
        )
    if not bucket:
        raise errors.SpecInvalid(f"the storage URL {url!r} names no bucket; write s3://bucket/prefix")
    segments = [segment for segment in prefix.split("/") if segment]
    if {".", ".."}.intersection(segments):
        raise errors.SpecInvalid(
            f"the storage URL {url!r} has '.' or '..' in its prefix, and a bucket has no folders to step through; "
            "leave out the segments '.' and '..'"
        )
    return "/".join([f"s3://{bucket}", *segments])


def join_url(base: str, *keys: str) -> str:
    """The URL of an object or folder by its key below ``base``. Keys are plain, ``file://`` URLs percent-encoded."""
    names = [key.strip("/") for key in keys]
    if is_local(base):
        names = [quote(name) for name in names]
    return "/".join([base.rstrip("/"), *names])


def split_url(url: str) -> tuple[str, str]:
    """(parent URL, last segment as a key below it) of a normalised URL."""
    parent, _, last = url.rpartition("/")
    return parent, unquote(last) if is_local(url) else last


def is_local(url: str) -> bool:
    """Whether a normalised URL is that of a folder on a disk."""
    return url.startswith("file:")


def is_memory(url: str) -> bool:
    """Whether a URL is that of the store in a process's own memory."""
    return is_within(url, MEMORY)


def is_within(url: str, folder: str) -> bool:
    """Whether ``url`` is ``folder`` or lies in it; both normalised."""
    return f"{url}/".startswith(f"{folder}/")


def is_same_folder(one: str, other: str) -> bool:
    """Whether both URLs lead to one folder of a disk, as by a symbolic link; False where there is none."""
    if not (is_local(one) and is_local(other)):
        return False
    try:
        return local_path(one).samefile(local_path(other))
    except OSError:
        return False


def local_path(url: str) -> Path:
    """The folder of a ``file://`` URL."""
    return Path(unquote(urlsplit(url).path))


def too_long(path: Path) -> str:
    """The reason in words why a path is longer than Linux allows; empty if it is not. Linux answers requests for such a
    path with ``ENAMETOOLONG``, which ``Path.exists`` raises."""
    for name in path.parts:
        if len(os.fsencode(name)) > _LONGEST_NAME:
            return (
                f"{name[:40]!r}… has {len(os.fsencode(name))} bytes, a file's name may have {_LONGEST_NAME}"
            )
    if len(os.fsencode(path)) > _LONGEST_PATH:
        return f"it has {len(os.fsencode(path))} bytes, a path may have {_LONGEST_PATH}"
    return ""


def check_key(key: str) -> str:
    """``key`` itself, if it is a relative ``/``-separated name that cannot leave its root; else ``StorageError``."""
    segments = key.split("/")
    if not key or any(segment in ("", ".", "..") for segment in segments) or "\0" in key or "\\" in key:
        raise errors.StorageError(
            f"{key!r} is not a valid object name: relative, '/'-separated, without '.' and '..'"
        )
    return key


def quote_segment(name: str) -> str:
    """A user's name as one path segment: percent-encoded where needed, never ``.`` or ``..``, never empty."""
    if not name:
        raise errors.SpecInvalid("a job's cluster, namespace and name must not be empty")
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted.strip(".") == "" else quoted
