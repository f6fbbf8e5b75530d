"""Chapter "threads": commits, reads and snapshots come in threads as in a slot, never in one alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from sparkstate.backends.base import ListChange
from sparkstate.conformance.kit import KEYS, LISTS, VALUES, Kit, changes, content, equal, fill, table
from sparkstate.keygroups import KeyGroupRange

_COMMITS: Final = 50
_READS: Final = 20
_ROUNDS: Final = 4
_PATIENCE_S: Final = 20.0


class _Call:
    """Work in another thread, whose result or error comes back."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._found: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="conformance", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = self._work()
        except BaseException as error:
            self._error = error

    def result(self, what: str) -> Any:
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            raise AssertionError(f"{what} did not end within {_PATIENCE_S:.0f} s beside other calls")
        if self._error is not None:
            raise AssertionError(f"{what} raised {type(self._error).__name__}: {self._error}")
        return self._found


def check_any_thread_may_call_a_store(kit: Kit) -> None:
    """A store is made, filled, read, counted and closed by different threads, one after another."""
    store = _Call(kit.store).result("a store made in another thread")
    _Call(lambda: fill(store)).result("a commit in another thread")
    read = _Call(lambda: content(store)).result("reading in another thread")
    equal(read, content(store), "the content that another thread read")
    _Call(store.stats).result("stats() in another thread")
    _Call(lambda: kit.close_store(store)).result("close() in another thread")


def check_several_threads_may_read_at_a_time(kit: Kit) -> None:
    """Rows are processed, states are looked at and sizes are counted side by side, while nothing is committed."""
    store = kit.store()
    fill(store)
    wanted = content(store)

    def read() -> list[dict[str, Any]]:
        return [content(store) for _ in range(_READS)]

    counting = _Call(lambda: [store.stats() for _ in range(_READS)])
    for each in [_Call(read) for _ in range(4)]:
        for found in each.result("reading beside other threads"):
            equal(found, wanted, "the content that several threads read")
    counting.result("stats() beside readers")


def check_a_snapshot_is_written_beside_commits(kit: Kit) -> None:
    """One thread writes the files of a snapshot, and holds its moment, while another one commits and reads."""
    for in_canonical in (True, False):
        store = kit.store()
        fill(store)
        wanted = content(store)
        with kit.snapshot(store, in_canonical=in_canonical) as taken:
            writing = _Call(lambda taken=taken: kit.written(taken))  # type: ignore[misc]
            for number in range(_COMMITS):
                store.commit(
                    changes(values={"a": number}, lists={"b": ListChange(items=[f"{number}"])}), KEYS
                )
                equal(table(store, VALUES).get(0, "a"), number, "a value beside a snapshot")
            files = writing.result("writing a snapshot")
            restored = kit.store()
            restored.restore(files, taken.format)
        equal(content(restored), wanted, "a snapshot that was written beside commits")
        equal(len(table(store, LISTS).get(5, "b")), _COMMITS + 3, "the elements of a list after them")


def check_reads_go_on_beside_the_start_of_a_snapshot(kit: Kit) -> None:
    """A thread prepares a snapshot while another one reads; the snapshot before was released since the last commit."""
    store = kit.store()
    fill(store)
    for number in range(_ROUNDS):
        store.prepare_snapshot(number, kit.folder(), number % 2 == 0).release()
        store.commit(changes(values={"a": number}, lists={"b": ListChange(items=[f"{number}"])}), KEYS)
        wanted = content(store)
        reading = _Call(lambda: [content(store) for _ in range(_ROUNDS)])
        store.prepare_snapshot(_ROUNDS + number, kit.folder(), number % 2 == 0).release()
        for found in reading.result("reading beside the start of a snapshot"):
            equal(found, wanted, "the content beside the start of a snapshot")


def check_a_snapshot_is_released_by_another_thread(kit: Kit) -> None:
    """The thread that wrote a snapshot releases it, and the store goes on."""
    store = kit.store()
    fill(store)

    def write_and_release(taken: Any) -> None:
        kit.written(taken)
        taken.release()

    for number in range(3):
        taken = store.prepare_snapshot(number, kit.folder(), number % 2 == 0)
        _Call(lambda taken=taken: write_and_release(taken)).result("a snapshot")  # type: ignore[misc]
        store.commit(changes(values={"a": number}), KEYS)
        equal(table(store, VALUES).get(0, "a"), number, "a value after a snapshot")


def check_stores_work_beside_one_another(kit: Kit) -> None:
    """The stores of one factory prepare and write snapshots, and restore, in several threads at a time."""
    ranges = [KeyGroupRange(first, first + 31) for first in range(0, 128, 32)]
    source = kit.store()
    fill(source)
    with kit.snapshot(source, in_canonical=True) as taken:
        files = kit.written(taken)
        stores = kit.stores(*ranges)
        restores = [_Call(lambda s=store: s.restore(files, taken.format)) for store in stores]  # type: ignore[misc]
        for each in restores:
            each.result("a restore beside others")
    folders = [kit.folder() for _ in stores]
    prepared = [
        _Call(lambda s=store, f=folder: s.prepare_snapshot(1, f, True))  # type: ignore[misc]
        for store, folder in zip(stores, folders, strict=True)
    ]
    snapshots = [each.result("preparing a snapshot beside others") for each in prepared]
    writing = [_Call(lambda t=taken: (t.files(), t.release())) for taken in snapshots]  # type: ignore[misc]
    for each in writing:
        each.result("writing a snapshot beside others")
    for store in stores:
        keys = [key for key, group in KEYS.items() if group in store.key_groups]
        found = {key: table(store, VALUES).get(KEYS[key], key) for key in keys}
        equal(
            found, {key: table(source, VALUES).get(KEYS[key], key) for key in keys}, "values after all of it"
        )
