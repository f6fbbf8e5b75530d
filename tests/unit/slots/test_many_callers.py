"""All tasks of a large cluster call a slot at the same moment: each of them gets through."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.slots import slots

from sparkstate import errors
from sparkstate.slots import client, handshake, protocol, server
from sparkstate.slots.channel import Channel
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.starting import Identity, Starting

TASK = handshake.Role.TASK
MANY = 2 * server.MAX_UNPROVEN


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX], ids=["tcp", "unix"])
def test_callers_that_are_still_proving_themselves_are_not_ended_for_later_ones(
    tmp_path: Path, family: socket.AddressFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_PROMPT_S", 15.0)  # however busy this machine is
    slot = slots.Slot(tmp_path / "slot", slots.plan(tmp_path), tcp_host="127.0.0.1")
    target = slot.address.unix_path if family == socket.AF_UNIX else ("127.0.0.1", slot.address.tcp_port)
    first_half_is_there = threading.Barrier(server.MAX_UNPROVEN + 1)

    def call(number: int) -> None:
        with socket.socket(family) as caller:
            caller.connect(target)
            if number < server.MAX_UNPROVEN:
                first_half_is_there.wait(20)
            handshake.call(caller, slots.KEY, slots.IDENTITY, TASK, lambda: 20.0)

    with ThreadPoolExecutor(MANY) as tasks:
        first = [tasks.submit(call, number) for number in range(server.MAX_UNPROVEN)]
        others = [tasks.submit(call, number) for number in range(server.MAX_UNPROVEN, MANY)]
        first_half_is_there.wait(20)
        for task in [*first, *others]:
            task.result(20)
    slot.close()


def test_a_task_waits_where_a_unix_socket_has_too_many_callers(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(path)
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as before, socket.socket(socket.AF_UNIX) as refused:
            before.connect(path)
            refused.setblocking(False)
            with pytest.raises(BlockingIOError):
                refused.connect(path)
            address = SlotAddress(0, "here", 1, path, identity=slots.IDENTITY)
            calling = pool.submit(client.connect, address, slots.KEY, TASK, "here", 20.0)
            with pytest.raises(TimeoutError):
                calling.result(0.3)
            listener.accept()[0].close()
            accepted, _ = listener.accept()
            with accepted:
                role, _ = handshake.answer(accepted, slots.KEY, slots.IDENTITY, lambda: 20.0)
                assert role is TASK
                channel: Channel = calling.result(20)
                channel.connection.close()


def wait_until_it_waits(pid: int) -> None:
    """A slot answers before it has opened all that it needs. Its main thread opens the selector last."""

    def is_selector(descriptor: Path) -> bool:
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            return "eventpoll" in os.readlink(descriptor)
        return False

    deadline = time.monotonic() + 20
    while not any(map(is_selector, Path(f"/proc/{pid}/fd").iterdir())):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.fault(
    broken="a slot has no file descriptor left for a moment",
    when="a task connects",
    expected="it takes callers again as soon as one is free, on each of its sockets",
)
@pytest.mark.fault_on("a slot process")
@pytest.mark.parametrize("host", ["here", "another"])
def test_a_slot_without_a_free_file_descriptor_takes_callers_again(tmp_path: Path, host: str) -> None:
    local = socket.gethostname()
    identity = Identity(
        slot=0, incarnation=1, key=slots.KEY, watched_pid=os.getpid(), python_path=(), tcp_host="127.0.0.1"
    )
    address = Starting(tmp_path, 0).become(identity)
    wait_until_it_waits(address.pid)
    before = resource.prlimit(address.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(address.pid, resource.RLIMIT_NOFILE, (1, before[1]))
    for _ in range(2):  # Linux had taken a descriptor for the first when the slot began to wait for it
        with socket.socket(socket.AF_UNIX) as one, socket.socket() as other:
            one.connect(address.unix_path)
            other.connect(("127.0.0.1", address.tcp_port))
            time.sleep(0.5)
    resource.prlimit(address.pid, resource.RLIMIT_NOFILE, before)
    with client.connect(address, slots.KEY, TASK, local if host == "here" else host, 10):
        pass
    client.SlotClient(address, slots.KEY, local).call(protocol.Stop(), protocol.Ok, 10)


@pytest.mark.fault(
    broken="a slot gets no thread for a caller",
    when="a task connects",
    expected="the connection is closed; the next caller is served",
)
@pytest.mark.fault_on("a slot process")
def test_a_slot_without_a_thread_for_a_caller_serves_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    slot = slots.Slot(tmp_path / "slot", slots.plan(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(threading, "_start_new_thread", refuse)
        for _ in range(server.MAX_UNPROVEN + 1):
            with pytest.raises(errors.SlotLost, match="did not prove itself") as refused:
                client.connect(slot.address, slots.KEY, TASK, "here", 10)
            assert "time" not in str(refused.value), "it has waited"
    with client.connect(slot.address, slots.KEY, TASK, "here", 10):
        slot.close()
