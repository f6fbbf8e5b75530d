"""The runner's folder for one job, and the lock on it.

::

    lock               held while a runner lives; holds its process id
    attempt            the number of the last attempt that was started
    lineage            where the job's state lies, as its driver said; without it the storage is away, not new
    token              what opens the control endpoint; readable by the owner only, removed at the end
    driver.json        the driver's process id, address and phase; removed at the end
    termination.json   the last driver's last word
    logs/driver-N.log  what attempt N's driver and its JVM printed; the newest five are kept
    logs/slot-S-I.log  what slot S of incarnation I printed, if the last run ended with an error
    local/             the driver's own working directory: slots' stores, query position; removed at the end

``local/`` may lie on a disk of its own. There, it is named by the job alone, and runs of the same name from other
folders would take it for theirs, so a second lock lies beside it: ``.<name of the folder>.lock``, which stays.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sparkstate import clock as clocks
from sparkstate import errors
from sparkstate.local_state import folders

KEPT_LOGS = 5
_CLEAN_TRIES = 20
_CLEAN_PAUSE_S = 0.1


@dataclass(frozen=True)
class DriverAddress:
    """Where a running driver answers, as its status file says."""

    pid: int
    address: str


class WorkDirInUse(errors.SparkstateError):
    """Another runner works in this folder. The message names its process id and the remedy."""


class WorkDir:
    """The paths of one job's folder and what the runner keeps there.

    ``local`` lies elsewhere if the manifest names disks of its own (``localStorage.paths``).
    """

    def __init__(self, root: Path, local: Path | None = None) -> None:
        self.root = root
        self.token_file = root / "token"
        self.status_file = root / "driver.json"
        self.termination_log = root / "termination.json"
        self.local = local or root / "local"
        self._lock_file = root / "lock"
        # Not in it: at its end a runner removes the folder, and a lock on a removed file keeps nobody out.
        self._local_lock_file = None if local is None else local.with_name(f".{local.name}.lock")
        self._attempt_file = root / "attempt"
        self.lineage_file = root / "lineage"
        self._noted: dict[str, str] = {}
        """The note that :meth:`record_lineage` was given last, whether or not the disk took it."""
        self._is_stored = False
        self._logs = root / "logs"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder, and ``local`` where that lies elsewhere, against other runners; the kernel drops the locks
        when this process dies.

        Raises :class:`WorkDirInUse`, and ``SpecInvalid`` where there is no room for ``local``.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.SpecInvalid(
                f"{self.root} cannot be the working directory: {error.strerror}; give one that user {os.geteuid()} may "
                "write to with --work-dir"
            ) from error
        with ExitStack() as locks:
            remedy = "give this one a folder of its own with --work-dir"
            locks.enter_context(_held(self._lock_file, self.root, remedy))
            if self._local_lock_file is not None:
                self._make_room(self._local_lock_file)
                remedy = "give this one another folder: --set spec.localStorage.paths=/another/folder"
                locks.enter_context(_held(self._local_lock_file, self.local, remedy))
            yield

    def _make_room(self, lock_file: Path) -> None:
        try:
            lock_file.parent.mkdir(parents=True, exist_ok=True)
            lock_file.touch()
        except OSError as error:
            raise errors.SpecInvalid(
                f"{self.local} cannot be the working directory: {error}; the first of spec.localStorage.paths has to "
                f"be a folder in which user {os.getuid()} may make others"
            ) from error

    def write_token(self, token: str) -> None:
        """Keep the token where only this user reads it; never on a command line, which everyone can read."""
        self.token_file.unlink(missing_ok=True)
        handle = os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(token)

    def read_token(self) -> str | None:
        """The token of the running job, None if there is none. Raises ``SpecInvalid`` if it is another user's."""
        try:
            return self.token_file.read_text().strip()
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise errors.SpecInvalid(
                f"user {os.geteuid()} may not read {self.token_file}; ask as the user who runs the job, or give "
                "--address and --token-file"
            ) from error

    def last_attempt(self) -> int:
        """The number of the last attempt started from this folder, 0 before the first."""
        try:
            return int(self._attempt_file.read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def record_attempt(self, attempt: int) -> None:
        """Remember ``attempt`` before it starts, so that no number is used twice."""
        _replace(self._attempt_file, f"{attempt}\n")

    def known_lineage(self, storage: str, job: str) -> str:
        """The lineage that ``job`` had in ``storage``; empty if it never had one there, as far as this folder knows."""
        try:
            known = self._noted or json.loads(self.lineage_file.read_text())
            # Older versions' notes name no job.
            same = known["storage"] == storage and known.get("job", job) == job
            return str(known["lineage"]) if same else ""
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return ""

    def record_lineage(self, storage: str, job: str, lineage: str) -> bool:
        """Remember it, for the attempts and runs to come. Cheap where nothing has changed.
        Returns whether the disk has it."""
        note = {"storage": storage, "job": job, "lineage": lineage}
        if note != self._noted or not self._is_stored:
            self._noted, self._is_stored = note, False
            with suppress(OSError):
                _replace(self.lineage_file, json.dumps(note))
                self._is_stored = True
        return self._is_stored

    def forget_lineage(self) -> None:
        """Forget the lineage: the job begins empty."""
        self._noted = {}
        self.lineage_file.unlink(missing_ok=True)

    def driver(self) -> DriverAddress | None:
        """The driver that the status file names; None before it wrote one."""
        try:
            document = json.loads(self.status_file.read_text())
            return DriverAddress(int(document["pid"]), str(document["address"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def log_file(self, attempt: int) -> Path:
        """The log of ``attempt``."""
        return self._logs / f"driver-{attempt}.log"

    def new_log_file(self, attempt: int) -> Path:
        """The log of an attempt that is about to start; makes room by removing the oldest ones."""
        self._logs.mkdir(parents=True, exist_ok=True)
        existing = sorted(self._logs.glob("driver-*.log"), key=_attempt_of)
        for old in existing[: max(0, len(existing) - KEPT_LOGS + 1)]:
            old.unlink(missing_ok=True)
        return self.log_file(attempt)

    def forget_driver(self) -> None:
        """Remove what the last driver said, so that nothing of it is taken for the next one's."""
        self.status_file.unlink(missing_ok=True)
        self.termination_log.unlink(missing_ok=True)

    def clean(self, clock: clocks.Clock | None = None) -> str:
        """Remove what is of no use after the end: token, status file and the driver's working directory.

        Slots whose driver was killed may still write for a moment, so it tries for two seconds. It raises nothing that
        could take the place of the job's own end: it returns what could not be removed and why, or an empty text.
        """
        clock, told = clock or clocks.SystemClock(), ""
        with suppress(OSError):  # a full disk keeps nobody from the rest
            self._keep_slot_logs()
        for _ in range(_CLEAN_TRIES):
            try:
                self._try_clean()
            except OSError as error:
                told = f"cannot remove all of {self.local}: {error}"
                clock.sleep(_CLEAN_PAUSE_S)
            else:
                return ""
        return told

    def _keep_slot_logs(self) -> None:
        """In place of those of an earlier run. A run without a driver, or whose driver has finished, leaves none: then
        those of the last failure stay."""
        new = [*filter(_is_slot_log, (self.local / folders.SLOTS).glob("slot-*"))]
        for old in filter(_is_slot_log, self._logs.glob("slot-*") if new else ()):
            old.unlink(missing_ok=True)
        for log in new:
            self._logs.mkdir(parents=True, exist_ok=True)
            shutil.move(log, self._logs / log.name)  # from another disk, perhaps

    def _try_clean(self) -> None:
        self.token_file.unlink(missing_ok=True)
        self.status_file.unlink(missing_ok=True)
        ended = self.local.with_name(f".{self.local.name}.ended")
        _remove(ended)
        with suppress(OSError):  # missing, or a mount point: then it is removed where it is
            self.local.rename(ended)  # who still writes by its name finds nothing there
        _remove(ended)
        _remove(self.local)


def default_root(manifest: Path, name: str) -> Path:
    """``.sparkstate/<name>`` beside the manifest, so that every command finds it by the manifest alone."""
    return manifest.resolve().parent / ".sparkstate" / name


@contextmanager
def _held(lock_file: Path, folder: Path, remedy: str) -> Iterator[None]:
    """Hold the lock of a folder. Raises :class:`WorkDirInUse`."""
    with lock_file.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            raise WorkDirInUse(
                f"{folder} is in use by another `sparkstate run` (process {owner}); stop that one, or {remedy}"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _is_slot_log(file: Path) -> bool:
    return folders.is_log(file.name)


def _replace(file: Path, text: str) -> None:
    temporary = file.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(file)


def _attempt_of(log: Path) -> int:
    number = log.stem.removeprefix("driver-")
    return int(number) if number.isdigit() else -1
