"""The static files of the page: a shell without any job data, the same bytes for every job of a release.

It is served without a token, because the token is in the URL's fragment, which a browser sends to nobody;
the script in the shell reads it there and asks for the data with it (docs/rfcs/0003-page-shell.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

ROOT: Final = "/ui/"
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True)
class ShellFile:
    """A ready answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content: bytes


def load() -> Mapping[str, ShellFile]:
    """Every static path with its answer. ``/ui/`` is the page, ``/ui`` leads to it (with the fragment)."""
    files = {ROOT + name: _file(name, content) for name, content in _contents().items()}
    files[ROOT] = files.pop(ROOT + "index.html")
    files[ROOT.rstrip("/")] = ShellFile(
        308, ((b"location", ROOT.encode()), (b"content-length", b"0"), *SECURITY_HEADERS), b""
    )
    return files


def _contents() -> dict[str, bytes]:
    folder = resources.files("sparkstate.control").joinpath("page")
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.is_file() and entry.name.rpartition(".")[2] in _TYPES
    }


def _file(name: str, content: bytes) -> ShellFile:
    headers = (
        (b"content-type", _TYPES[name.rpartition(".")[2]].encode()),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"no-cache"),
        *SECURITY_HEADERS,
    )
    return ShellFile(200, headers, content)
