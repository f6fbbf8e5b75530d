"""Images for the nodes of a test cluster: the one that every pod needs, made here, and archives of our own."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from sparkstate_tools.kubernetes.containerd import PAUSE
from sparkstate_tools.parts import golang

PAUSE_PROGRAM = """\
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
"""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def pause(folder: Path) -> Path:
    """An archive with the image that holds a pod's namespaces: one static program that waits for its end."""
    program = golang.cache() / "pause" / "1" / "pause"
    with golang.only_one(program.parent.parent / "pause.lock", "pause"):
        if not program.exists():
            golang.compile_text(PAUSE_PROGRAM, program)
    return archive(folder / "pause.tar", PAUSE, {"pause": program.read_bytes()}, ["/pause"])


def archive(path: Path, tag: str, files: dict[str, bytes], command: list[str]) -> Path:
    """Writes an image archive in Docker's format: one layer with these executable files, and a command."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, content in files.items():
            _add(tar, name, content, 0o755)
    data = layer.getvalue()
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": command},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        _add(tar, "layer.tar", data)
        _add(tar, "config.json", json.dumps(config).encode())
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return path


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
