"""Processes over one storage, of which a test says which one does its next request, and what becomes of it.

Each :class:`Actor` runs its work in a thread that stands still before every request. So every interleaving of requests
is a sequence of calls, and the same sequence gives the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from support.storage.stores import WRITES, Crash

from sparkstate import errors
from sparkstate.storage.objectstore import ObjectInfo, ObjectStore

Late = list[Callable[[], object]]
"""Writes that were sent and have not arrived."""


class Actor:
    """One process. It is an ``ObjectStore`` to its own work, and asks ``disk``."""

    def __init__(self, disk: ObjectStore, late: Late) -> None:
        self._disk = disk
        self._late = late
        self._stands = threading.Semaphore(0)
        self._goes = threading.Semaphore(0)
        self._how = ""
        self._thread: threading.Thread | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.dead = False

    # -- for the test -------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether it stands before a request."""
        return self._thread is not None

    def begin(self, work: Callable[[], Any]) -> None:
        """Run ``work`` up to its first request."""
        self.result = self.error = None

        def run() -> None:
            try:
                self.result = work()
            except BaseException as error:
                self.error = error
            ended.set()
            self._stands.release()

        self._ended = ended = threading.Event()
        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self._wait()

    def step(self, how: str = "") -> None:
        """One request: carried out, or ``lost`` before, ``answer-lost`` after, ``late`` (some time), ``kill``."""
        self._how = how
        self._goes.release()
        self._wait()

    def _wait(self) -> None:
        assert self._stands.acquire(timeout=60), "the work neither ends nor asks the storage"
        if self._ended.is_set():
            assert self._thread is not None
            self._thread.join()
            self._thread = None

    # -- for its work -------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self._disk.url

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._request("put_if_absent", lambda: self._disk.put_if_absent(key, data))

    def put_file(self, key: str, source: Path) -> None:
        self._request("put_file", lambda: self._disk.put_file(key, source))

    def get(self, key: str) -> bytes:
        return self._request("get", lambda: self._disk.get(key))

    def get_file(self, key: str, target: Path) -> str:
        return self._request("get_file", lambda: self._disk.get_file(key, target))

    def head(self, key: str) -> ObjectInfo:
        return self._request("head", lambda: self._disk.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter(self._request("list", lambda: list(self._disk.list(prefix))))

    def begin_move(self, source: str, target: str) -> str:
        return self._request("begin_move", lambda: self._disk.begin_move(source, target))

    def move(self, ticket: str, source: str, target: str, size: int) -> bool:
        return self._request("move", lambda: self._disk.move(ticket, source, target, size))

    def drop_move(self, ticket: str, target: str) -> None:
        self._request("drop_move", lambda: self._disk.drop_move(ticket, target))

    def delete(self, keys: Iterable[str]) -> None:
        # One at a time: a process may be killed, or another come, between two of them.
        for key in list(keys):
            self._request("delete", lambda key=key: self._disk.delete([key]))

    def _request(self, name: str, act: Callable[[], Any]) -> Any:
        if self.dead:
            raise Crash(name)
        self._stands.release()
        self._goes.acquire()
        if self._how == "kill":
            self.dead = True
            raise Crash(name)
        if self._how == "late" and name in WRITES:
            self._late.append(act)
        if self._how in ("late", "lost"):
            raise errors.StorageUnavailable(f"{name}: {self._how}")
        answer = act()
        if self._how == "answer-lost":
            raise errors.StorageUnavailable(f"{name}: the answer was lost")
        return answer
