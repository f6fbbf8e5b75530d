"""What the containers of a node printed, also those that are gone: the log files are linked to as they appear."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
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
            yield from printed(path.read_text(errors="replace"))

    def since(self, began: float, namespace: str, container: str, has: str) -> dict[str, float]:
        """Seconds after ``began`` (Unix time) at which each later line was printed by the first container that has
        printed one with ``has`` since; empty while there is none."""
        self._link()
        for path in sorted(self.kept.glob(f"{namespace}_*/{container}/*.log")):
            stamped = [
                (datetime.fromisoformat(time).timestamp() - began, text)
                for time, text in timed(path.read_text(errors="replace"))
            ]
            later = [(seconds, text) for seconds, text in stamped if seconds > 0]
            if any(has in text for _, text in later):
                return {text: seconds for seconds, text in reversed(later)}
        return {}

    def copy(self, target: Path, namespace: str) -> None:
        """Writes one readable file per container, for somebody who looks for the reason of a failure."""
        self._link()
        for path in sorted(self.kept.glob(f"{namespace}_*/*/*.log")):
            pod, container = path.parts[-3], path.parts[-2]
            name = f"{pod.split('_')[1]}-{pod[-6:]}-{container}-{path.stem}.log"
            target.mkdir(parents=True, exist_ok=True)
            lines = printed(path.read_text(errors="replace"))
            (target / name).write_text("".join(f"{line}\n" for line in lines))

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._link()

    def _link(self) -> None:
        for source in self.sources:
            # Path.glob raises where the kubelet removes a pod's folder meanwhile; this one passes over it.
            for name in glob.iglob("*/*/*.log*", root_dir=source):
                target = self.kept / name
                with contextlib.suppress(FileNotFoundError, FileExistsError):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.link(source / name, target)


def printed(log: str) -> Iterator[str]:
    """The lines of a log in CRI's format, without what the runtime wrote before them."""
    return (text for _, text in timed(log))


def timed(log: str) -> Iterator[tuple[str, str]]:
    """The lines of such a log, each with the time of its end: time, stream, F or P (the line goes on in the next one),
    text. A line that is still being written does not count yet.
    """
    begun: dict[str, str] = {}
    for line in log.rpartition("\n")[0].splitlines():
        time, stream, kind, text = [*line.split(" ", 3), ""][:4]
        begun[stream] = begun.get(stream, "") + text
        if kind != "P":
            yield time, begun.pop(stream)


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
