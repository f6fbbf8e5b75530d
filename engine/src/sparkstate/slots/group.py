"""The driver's view of all slots of one incarnation: the same request to each, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sparkstate import errors
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress, SlotClient

_R = TypeVar("_R", bound=protocol.Message)


class SlotGroup:
    """Clients of every slot, in order. Connections of their own for epochs, questions, snapshots, the sign of life, and
    the end: none waits behind another."""

    def __init__(
        self,
        addresses: tuple[SlotAddress, ...],
        key: str,
        incarnation: int,
        local_host: str,
        key_of_tasks: str | None = None,
    ) -> None:
        """``key_of_tasks``: what tasks are told of the key; empty: their pod has it (``keys.for_task``)."""
        self.addresses = addresses
        self.key_of_tasks = key if key_of_tasks is None else key_of_tasks
        self.incarnation = incarnation
        self._epochs = [SlotClient(address, key, local_host) for address in addresses]
        self._questions = [SlotClient(address, key, local_host) for address in addresses]
        self._snapshots = [SlotClient(address, key, local_host) for address in addresses]
        self._signs = [SlotClient(address, key, local_host) for address in addresses]
        self._ends = [SlotClient(address, key, local_host) for address in addresses]
        self._clients = (*self._epochs, *self._questions, *self._snapshots, *self._signs, *self._ends)
        self._pool = ThreadPoolExecutor(len(self._clients), thread_name_prefix="slots")
        self._closed = False

    def __len__(self) -> int:
        return len(self.addresses)

    def each(self, request: Callable[[int], protocol.Message], expect: type[_R]) -> list[_R]:
        """Send ``request(slot)`` to every slot at once and return the replies in order.

        Waits for all; if some fail, the one whose error says most is raised (a lost slot last: it is
        often a consequence).
        """
        return self._all(self._epochs, request, expect, None)

    def ask(
        self, request: Callable[[int], protocol.Message], expect: type[_R], timeout_s: float | None = None
    ) -> list[_R]:
        """As :meth:`each`, on the connections that do not disturb epochs."""
        return self._all(self._questions, request, expect, timeout_s)

    def snapshot_states(
        self, slots: Iterable[int], request: protocol.SnapshotPoll
    ) -> dict[int, protocol.SnapshotState]:
        """The answers of these slots about a snapshot, each at its end or after the request's ``wait_s``.

        A slot's answer at the end names every file of its state, so nobody may ask it again after that.
        """
        asked = list(slots)
        clients = [self._snapshots[slot] for slot in asked]
        replies = self._all(clients, lambda _: request, protocol.SnapshotState, None)
        return dict(zip(asked, replies, strict=True))

    def status(self, timeout_s: float) -> list[protocol.SlotStatus]:
        """The slots' sign of life. A slot answers it whatever it is at: one that does not within ``timeout_s`` hangs,
        and counts as lost."""
        return self._all(self._signs, lambda _: protocol.Status(), protocol.SlotStatus, timeout_s)

    def end(self, request: protocol.Message, timeout_s: float) -> None:
        """Tell every slot of its end, whatever else is under way."""
        self._all(self._ends, lambda _: request, protocol.Ok, timeout_s)

    def ask_one(self, slot: int, request: protocol.Message, expect: type[_R]) -> _R:
        """Ask one slot."""
        return self._questions[slot].call(request, expect, 30.0)

    def _all(
        self,
        clients: list[SlotClient],
        request: Callable[[int], protocol.Message],
        expect: type[_R],
        timeout_s: float | None,
    ) -> list[_R]:
        try:
            futures = [
                self._pool.submit(c.call, request(slot), expect, timeout_s) for slot, c in enumerate(clients)
            ]
        except RuntimeError as error:
            if not self._closed:
                raise
            raise errors.SlotLost("the incarnation of these slots has ended") from error
        failures = [failure for future in futures if (failure := future.exception()) is not None]
        if failures:
            raise min(failures, key=lambda failure: isinstance(failure, errors.SlotLost))
        return [future.result() for future in futures]

    def interrupt(self) -> None:
        """Let every call under way fail with ``SlotLost``."""
        for client in self._clients:
            client.interrupt()

    def give_up(self, slot: int) -> None:
        """This one is gone: calls to it fail, those under way and all later ones."""
        for client in self._clients[slot :: len(self)]:
            client.give_up()

    def close(self) -> None:
        """Close the connections. Whoever comes later finds the slots lost: a storage may have held up its thread."""
        self._closed = True
        # All are given up first, so that none waits for the lock of a call that a slot does not answer.
        for client in self._clients:
            client.give_up()
        for client in self._clients:
            client.close()
        self._pool.shutdown(wait=False)
