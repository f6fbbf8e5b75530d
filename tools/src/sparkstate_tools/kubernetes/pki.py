"""Certificates for a cluster of the tests: one authority, made anew for each cluster, by the ``openssl`` command."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DAYS = "30"
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs what a cluster needs. The files lie in ``folder``, which ends with the cluster."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            raise RuntimeError("there is no openssl command, which makes the certificates of a test cluster")
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate, self.key = folder / "ca.crt", folder / "ca.key"
        extensions = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]
        self._request("ca", "/CN=sparkstate-tests", extensions, [])

    def server(self, name: str, names: Sequence[str], subject: str | None = None) -> Pair:
        """A server's certificate for ``names`` such as ``DNS:localhost`` and ``IP:127.0.0.1``."""
        extensions = ["extendedKeyUsage=serverAuth", f"subjectAltName={','.join(names)}"]
        return self._signed(name, subject or f"/CN={name}", extensions)

    def client(self, name: str, user: str, group: str | None = None) -> Pair:
        """A certificate that the API server takes for this user and group."""
        subject = (f"/O={group}" if group else "") + f"/CN={user}"
        return self._signed(name, subject, ["extendedKeyUsage=clientAuth"])

    def signing_key(self) -> Pair:
        """The key pair that ServiceAccount tokens are signed with; the "certificate" is a public key."""
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        _openssl(["ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", str(key)])
        _openssl(["ec", "-in", str(key), "-pubout", "-out", str(public)])
        return Pair(public, key)

    def _signed(self, name: str, subject: str, extensions: Sequence[str]) -> Pair:
        signer = ["-CA", str(self.certificate), "-CAkey", str(self.key)]
        return self._request(name, subject, ["basicConstraints=CA:FALSE", *extensions], signer)

    def _request(self, name: str, subject: str, extensions: Sequence[str], signer: Sequence[str]) -> Pair:
        pair = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        added = [word for extension in extensions for word in ("-addext", extension)]
        files = ["-keyout", str(pair.key), "-out", str(pair.certificate)]
        _openssl(["req", "-x509", *KEY, "-days", DAYS, "-subj", subject, *files, *signer, *added])
        return pair


def kubeconfig(
    path: Path, server: str, authority: Path, user: Mapping[str, Any], namespace: str = "default"
) -> Path:
    """Writes a kubeconfig with one context; ``user`` is its user as kubectl writes it."""
    cluster = {"server": server, "certificate-authority-data": _encoded(authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "user", "user": dict(user)}],
        "contexts": [
            {"name": "tests", "context": {"cluster": "tests", "user": "user", "namespace": namespace}}
        ],
        "current-context": "tests",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def by_certificate(pair: Pair) -> dict[str, str]:
    """The user of a kubeconfig who shows a certificate."""
    return {"client-certificate-data": _encoded(pair.certificate), "client-key-data": _encoded(pair.key)}


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _openssl(arguments: Sequence[str]) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()[-400:]}")
