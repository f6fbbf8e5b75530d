"""The kit on a backend of the user's own, in a process of its own: a backend that crashes or hangs harms nothing else.

The process gets a folder with the request, writes the name of each check there as it begins, and at the end the
verdict (``conformance.__main__``). It ends by itself when its time is over, should nobody wait for it any more.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent import futures
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sparkstate import clock, errors
from sparkstate.backends.custom import loading
from sparkstate.settings import StateBackendSettings

BUDGET_S: Final = 120.0
"""The kit takes two seconds on a local backend. This is for a machine that is busy with other starts."""
_LOOK_S: Final = 0.05
_TAIL: Final = 2000


@dataclass(frozen=True)
class Request:
    """The question to the process. ``python_path``: folders with the job's modules."""

    class_name: str | None
    options: Mapping[str, str]
    memory_bytes: int | None
    python_path: Sequence[str]
    budget_s: float


@dataclass(frozen=True)
class Passed:
    """The verdict on a backend that passed: the number of checks by chapter, and how long they took."""

    chapters: Mapping[str, int]
    seconds: float

    @property
    def checks(self) -> int:
        """How many there were."""
        return sum(self.chapters.values())


class TrialFolder:
    """The files by which the two processes speak."""

    def __init__(self, path: Path) -> None:
        self.request = path / "request.json"
        self.progress = path / "progress"
        self.verdict = path / "verdict.json"
        self.log = path / "log"
        self.stores = path / "stores"

    def current_check(self) -> str:
        """The check that was begun last."""
        try:
            return f"in the check {self.progress.read_text('utf-8')}"
        except FileNotFoundError:
            return "before the first check"

    def tail(self) -> str:
        """The end of what the process said."""
        said = self.log.read_text("utf-8", errors="replace").strip()[-_TAIL:]
        return f"; the end of its output:\n{said}" if said else ""


def run(
    backend: StateBackendSettings,
    python_path: Sequence[str],
    directory: Path,
    clock_: clock.Clock,
    budget_s: float = BUDGET_S,
    unwanted: threading.Event | None = None,
) -> Passed:
    """Try the class that ``backend`` names. ``directory`` takes a folder meanwhile, on the disk that stores will use.
    ``unwanted`` is set when nobody asks for the verdict any more: the process is ended then.

    Raises :class:`errors.BackendRefused` with the first check that fails, or the reason why there is no backend;
    :class:`errors.BackendUnavailable` where something is away that it needs, or the time was over; and
    ``CancelledError`` once ``unwanted`` is set.
    """
    began = clock_.monotonic()
    memory = backend.fixed_memory_bytes or backend.managed_memory_bytes
    request = Request(backend.class_name, dict(backend.options), memory, tuple(python_path), budget_s)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix="backend-", ignore_cleanup_errors=True) as folder:
        verdict = _verdict(TrialFolder(Path(folder)), request, clock_, unwanted or threading.Event())
    if "chapters" in verdict:
        return Passed(verdict["chapters"], clock_.monotonic() - began)
    kind = errors.BackendUnavailable if verdict["reason"] == "BackendUnavailable" else errors.BackendRefused
    raise kind(verdict["message"])


def _verdict(
    folder: TrialFolder, request: Request, clock_: clock.Clock, unwanted: threading.Event
) -> dict[str, Any]:
    folder.request.write_text(json.dumps(asdict(request)), "utf-8")
    with folder.log.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sparkstate.conformance", str(folder.request.parent)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",  # as slots have it: a module is found by the job's Python path, or it is installed
            start_new_session=True,
        )
    try:
        code = _wait(process, clock_.monotonic() + request.budget_s, clock_, unwanted)
    except subprocess.TimeoutExpired:
        raise loading.unavailable(
            request.class_name,
            f"it did not pass the conformance kit within {request.budget_s:.0f} s, and was {folder.current_check()}"
            f"{folder.tail()}",
        ) from None
    finally:
        _end(process)
    if folder.verdict.is_file():
        found: dict[str, Any] = json.loads(folder.verdict.read_text("utf-8"))
        return found
    raise loading.refused(
        request.class_name,
        f"the process that tried it {_ended(code)} {folder.current_check()}{folder.tail()}",
    )


def _wait(
    process: subprocess.Popen[bytes], deadline_s: float, clock_: clock.Clock, unwanted: threading.Event
) -> int:
    while True:
        try:
            return process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            if unwanted.is_set():
                raise futures.CancelledError from None
            if clock_.monotonic() > deadline_s:
                raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process, and whatever the backend started in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it may have ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ended(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
