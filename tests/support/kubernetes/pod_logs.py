"""What the containers of a node printed, also those that are gone: the log files are linked to as they appear."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

EVERY_S = 0.3


@dataclass
class PodLogs:
    """Keeps the logs of the pods of some nodes under ``kept``, as ``NAMESPACE_POD_UID/CONTAINER/N.log``.

    The kubelet removes a pod's log with the pod; another hard link keeps the file.
    """

    sources: Sequence[Path]
    kept: Path
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def keeping(self) -> Iterator[PodLogs]:
        """Watches the folders meanwhile, from a thread."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def lines(self, namespace: str, container: str = "") -> Iterator[str]:
        """What containers of that namespace printed, without the runtime's prefix; file by file."""
        self._link()
        for path in sorted(self.kept.glob(f"{namespace}_*/{container or '*'}/*.log")):
            for line in path.read_text(errors="replace").splitlines():
                # CRI's format: time, stream, F or P, text.
                yield line.split(" ", 3)[-1]

    def copy(self, target: Path, namespace: str) -> None:
        """Writes one readable file per container, for somebody who looks for the reason of a failure."""
        self._link()
        for path in sorted(self.kept.glob(f"{namespace}_*/*/*.log")):
            pod, container = path.parts[-3], path.parts[-2]
            name = f"{pod.split('_')[1]}-{pod[-6:]}-{container}-{path.stem}.log"
            target.mkdir(parents=True, exist_ok=True)
            lines = path.read_text(errors="replace").splitlines()
            (target / name).write_text("\n".join(line.split(" ", 3)[-1] for line in lines) + "\n")

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._link()

    def _link(self) -> None:
        for source in self.sources:
            for path in source.glob("*/*/*.log*"):
                target = self.kept / path.relative_to(source)
                with contextlib.suppress(FileNotFoundError, FileExistsError):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.link(path, target)


def complaints(lines: Iterator[str]) -> list[str]:
    """Of an operator's log: errors, tracebacks, and lines that are no structured log at all."""
    found = []
    for line in lines:
        try:
            document = json.loads(line)
        except ValueError:
            found.append(line)
            continue
        if (
            not isinstance(document, dict)
            or document.get("level") in {"error", "critical"}
            or "traceback" in document
        ):
            found.append(line)
    return found
