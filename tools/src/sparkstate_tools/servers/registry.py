"""A registry of container images that lets nobody pull without user and password.

It understands as much of the OCI distribution specification as a pull asks for: manifests and blobs, by GET and HEAD.
Nothing can be pushed. The images stay in their archives; a blob goes from the file to the socket without passing
through this process's memory.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import socket
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
BYTES = "application/octet-stream"
ASKED = re.compile(r"/v2/(?P<name>.+)/(?P<what>manifests|blobs)/(?P<reference>[^/]+)")
REALM = 'Basic realm="images of the tests"'


@dataclass(frozen=True)
class Part:
    """A part of an archive's file."""

    at: int
    size: int


@dataclass(frozen=True)
class Image:
    """An image in an archive, as a registry shows it."""

    archive: Path
    manifest: bytes
    parts: Mapping[str, Part]
    """Configuration and layers by their digests."""

    @property
    def digest(self) -> str:
        """Of the manifest."""
        return _digest(self.manifest)


@dataclass(frozen=True)
class Login:
    """The user who may pull."""

    user: str
    password: str

    @property
    def header(self) -> str:
        """The header that a client sends."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


def read(archive: Path) -> Image:
    """The first image of an archive in Docker's format whose layers are not compressed.
    Raises ``ValueError`` for any other file."""
    try:
        with tarfile.open(archive, "r:") as tar:
            (said, *_) = json.loads(_content(tar, "manifest.json"))
            config = _content(tar, said["Config"])
            parts = [_part(tar, name) for name in (said["Config"], *said["Layers"])]
        # A layer that is not compressed has its digest in the configuration: nobody has to read a gigabyte for it.
        digests = [_digest(config), *json.loads(config)["rootfs"]["diff_ids"]]
        kinds = [CONFIG, *[LAYER] * len(said["Layers"])]
        described = [
            {"mediaType": kind, "digest": digest, "size": part.size}
            for kind, digest, part in zip(kinds, digests, parts, strict=True)
        ]
    except (KeyError, ValueError, tarfile.TarError) as error:
        raise ValueError(f"{archive} is not an image archive in Docker's format: {error}") from error
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
    return Image(archive, json.dumps(manifest).encode(), dict(zip(digests, parts, strict=True)))


class Registry(ThreadingHTTPServer):
    """Answers on a socket that listens already, wherever that was made. ``images`` are those that it has,
    by name and tag (``team/job:1``)."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, images: Mapping[str, Image], login: Login) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.images = images
        self.login = login
        self.answers: list[str] = []
        """Status, method and path of all requests so far."""

    def manifest(self, name: str, reference: str) -> Image | None:
        """The image of that name by its tag, or by its manifest's digest."""
        by_tag = self.images.get(f"{name}:{reference}")
        return by_tag or next((one for one in self._named(name) if one.digest == reference), None)

    def blob(self, name: str, digest: str) -> tuple[Path, Part] | None:
        """The file that has that blob of the images of that name, and where."""
        found = ((one.archive, one.parts[digest]) for one in self._named(name) if digest in one.parts)
        return next(found, None)

    def _named(self, name: str) -> Iterator[Image]:
        return (image for tag, image in self.images.items() if tag.rpartition(":")[0] == name)


class _Handler(BaseHTTPRequestHandler):
    server: Registry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """One manifest or blob."""
        if self.headers.get("Authorization") != self.server.login.header:
            self._refuse(401, "UNAUTHORIZED", "this registry asks for user and password")
            return
        asked = ASKED.fullmatch(self.path.partition("?")[0])
        if self.path == "/v2/":
            self._send(b"{}", "application/json")
        elif asked and asked["what"] == "manifests":
            self._send_manifest(self.server.manifest(asked["name"], asked["reference"]))
        elif asked:
            self._send_blob(asked["reference"], self.server.blob(asked["name"], asked["reference"]))
        else:
            self._refuse(404, "UNSUPPORTED", f"nothing is at {self.path}")

    do_HEAD = do_GET

    def _send_manifest(self, image: Image | None) -> None:
        if image is None:
            self._refuse(404, "MANIFEST_UNKNOWN", f"no image is at {self.path}")
        else:
            self._send(image.manifest, MANIFEST, digest=image.digest)

    def _send_blob(self, digest: str, found: tuple[Path, Part] | None) -> None:
        if found is None:
            self._refuse(404, "BLOB_UNKNOWN", f"no blob is at {self.path}")
            return
        path, part = found
        self._begin(200, BYTES, part.size, digest)
        if self.command == "GET":
            with path.open("rb") as file:
                self.connection.sendfile(file, part.at, part.size)

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._send(
            json.dumps({"errors": [{"code": code, "message": message}]}).encode(), "application/json", status
        )

    def _send(self, body: bytes, kind: str, status: int = 200, digest: str = "") -> None:
        self._begin(status, kind, len(body), digest)
        if self.command == "GET":
            self.wfile.write(body)

    def _begin(self, status: int, kind: str, size: int, digest: str = "") -> None:
        self.server.answers.append(f"{status} {self.command} {self.path}")
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", REALM)
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing: ``answers`` has it."""


@contextlib.contextmanager
def serving(listener: socket.socket, archives: Mapping[str, Path], login: Login) -> Iterator[Registry]:
    """A registry that answers meanwhile, from a thread; ``archives`` by the names and tags of their images."""
    images = {tag: read(archive) for tag, archive in archives.items()}
    with Registry(listener, images, login) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is not a file")
    return file.read()


def _part(tar: tarfile.TarFile, name: str) -> Part:
    member = tar.getmember(name)
    if not member.isreg():
        raise ValueError(f"{name} is not a plain file")
    return Part(member.offset_data, member.size)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
