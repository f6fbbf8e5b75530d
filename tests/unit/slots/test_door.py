"""A slot's door from the wrong side: a real slot process, reached over TCP, and somebody between or without the key."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.machine import loopback
from support.machine.between import Between, ended
from support.slots import slots

from sparkstate import errors, keys
from sparkstate.slots import client, handshake, protocol
from sparkstate.slots.channel import Channel
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.starting import Identity, Starting

pytestmark = pytest.mark.fault_on("slots over TCP")
KEY = "the-key-for-slots-of-one-attempt"
DRIVER, TASK = handshake.Role.DRIVER, handshake.Role.TASK


@pytest.fixture
def address(tmp_path: Path) -> Iterator[SlotAddress]:
    """A slot process that has no plan yet."""
    identity = Identity(
        slot=0, incarnation=1, key=KEY, watched_pid=os.getpid(), python_path=(), tcp_host="127.0.0.1"
    )
    found = Starting(tmp_path / "slots", 0).become(identity)
    yield found
    with contextlib.suppress(errors.SlotLost):
        client.SlotClient(found, KEY, found.host).call(protocol.Stop(), protocol.Ok, 10)


def remote(address: SlotAddress, port: int | None = None) -> client.SlotClient:
    """The driver's end over TCP, at another port if somebody is to stand between."""
    return client.SlotClient(at(address, port), KEY, "another host")


def at(address: SlotAddress, port: int | None) -> SlotAddress:
    return address if port is None else dataclasses.replace(address, tcp_port=port)


class Touch:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._path),)


def evil(marker: Path) -> bytes:
    """A ``Configure`` that runs code, as the protocol spells it."""
    sent = bytearray()

    class Recorder(Channel):
        def __init__(self) -> None:
            pass

        def send(self, data: bytes) -> None:  # type: ignore[override]
            sent.extend(struct.pack(">I", len(data)) + data)

    protocol.send(Recorder(), protocol.Configure(plan=pickle.dumps(Touch(marker))))
    return bytes(sent)


def configure(caller: client.SlotClient, folder: Path) -> None:
    caller.call(protocol.Configure(plan=cloudpickle.dumps(slots.plan(folder))), protocol.Ok, 60)


@pytest.mark.fault(
    broken="a process at a slot's former address passes the handshake on to the slot and then speaks itself",
    when="the driver connects over TCP",
    expected="the slot closes the connection unread; no code runs; the driver's own connection works",
)
def test_who_passes_a_handshake_on_gains_nothing(address: SlotAddress, tmp_path: Path) -> None:
    with (
        Between(("127.0.0.1", address.tcp_port)) as between,
        client.connect(at(address, between.port), KEY, DRIVER, "another host"),
    ):
        assert between.slot_side is not None
        between.slot_side.sendall(evil(tmp_path / "code-ran"))
        assert ended(between.slot_side)
    assert not (tmp_path / "code-ran").exists()
    configure(remote(address), tmp_path)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX], ids=["tcp", "unix"])
def test_who_has_no_key_runs_no_code(
    address: SlotAddress, tmp_path: Path, family: socket.AddressFamily
) -> None:
    with socket.socket(family) as raw:
        raw.connect(address.unix_path if family == socket.AF_UNIX else ("127.0.0.1", address.tcp_port))
        raw.sendall(handshake.PROTOCOL + DRIVER.value + bytes(handshake.NONCE_BYTES))
        raw.sendall(bytes(handshake.PROOF_BYTES) + evil(tmp_path / "code-ran"))
        raw.settimeout(30)
        heard = b""
        with contextlib.suppress(ConnectionError):
            while part := raw.recv(1 << 16):
                heard += part
    assert len(heard) <= handshake.NONCE_BYTES + handshake.PROOF_BYTES
    assert not (tmp_path / "code-ran").exists()


def test_a_recorded_conversation_means_nothing_to_a_slot(address: SlotAddress, tmp_path: Path) -> None:
    with Between(("127.0.0.1", address.tcp_port)) as between:
        configure(remote(address, between.port), tmp_path)
        said = bytes(between.to_slot)
    with socket.create_connection(("127.0.0.1", address.tcp_port)) as again:
        again.sendall(said)
        again.settimeout(30)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := again.recv(1 << 16):
                answer += part
    assert len(answer) <= handshake.NONCE_BYTES + handshake.PROOF_BYTES, "a nonce and a proof, no reply"


def test_what_travels_between_hosts_cannot_be_read(address: SlotAddress, tmp_path: Path) -> None:
    with Between(("127.0.0.1", address.tcp_port)) as between:
        configure(remote(address, between.port), tmp_path)
        assert slots.plan(tmp_path).lineage.encode() in cloudpickle.dumps(slots.plan(tmp_path))
        assert slots.plan(tmp_path).lineage.encode() not in between.to_slot
        assert KEY.encode() not in between.to_slot + between.to_caller


def _flip_last(frame: bytes) -> bytes:
    return frame[:-1] + bytes([frame[-1] ^ 1])


EDITS = {
    "a bit flipped": _flip_last,
    "one frame twice": lambda frame: frame + frame,
    "a frame before it": lambda frame: struct.pack(">I", 20) + bytes(20) + frame,
    "not sealed": lambda frame: struct.pack(">I", 1) + b"\x90" + frame,
    "another length": lambda frame: struct.pack(">I", len(frame) - 5) + frame[4:-1],
}


@pytest.mark.fault(
    broken="somebody between driver and slot changes, repeats or adds a frame",
    when="a request is under way",
    expected="it is not carried out twice and no other request is; the connection ends, the slot serves others",
)
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_frame_that_somebody_changed_or_repeated_ends_the_connection(
    address: SlotAddress, tmp_path: Path, edit
) -> None:
    with Between(("127.0.0.1", address.tcp_port)) as between:
        caller = remote(address, between.port)
        configure(caller, tmp_path)
        between.change = edit
        for _ in range(2):  # a repeated frame is noticed when the next one is due
            with contextlib.suppress(errors.SlotLost):
                caller.call(protocol.Status(), protocol.SlotStatus, 10)
        assert between.slot_side is not None
        assert ended(between.slot_side)
    assert remote(address).call(protocol.Status(), protocol.SlotStatus, 10).pid == address.pid


def test_a_handshake_over_tcp_is_none_for_the_unix_socket(address: SlotAddress) -> None:
    with Between(address.unix_path) as between, pytest.raises(errors.SlotLost, match="cannot prove"):
        remote(address, between.port).call(protocol.Status(), protocol.SlotStatus, 10)


def test_another_slot_of_the_same_attempt_at_the_address_is_not_taken_for_this_one(
    address: SlotAddress, tmp_path: Path
) -> None:
    identity = Identity(
        slot=1, incarnation=1, key=KEY, watched_pid=os.getpid(), python_path=(), tcp_host="127.0.0.1"
    )
    other = Starting(tmp_path / "slots", 1).become(identity)
    with pytest.raises(errors.SlotLost, match="belongs to another process"):
        remote(address, other.tcp_port).call(protocol.Status(), protocol.SlotStatus, 10)
    client.SlotClient(other, KEY, other.host).call(protocol.Stop(), protocol.Ok, 10)


@pytest.mark.parametrize("written", [loopback.IPV6, f"[{loopback.IPV6}]"], ids=["bare", "in brackets"])
def test_a_slot_is_reached_at_an_address_of_ipv6(tmp_path: Path, written: str) -> None:
    identity = Identity(
        slot=0, incarnation=1, key=KEY, watched_pid=os.getpid(), python_path=(), tcp_host=loopback.LISTENS
    )
    found = dataclasses.replace(Starting(tmp_path / "slots", 0).become(identity), tcp_host=written)
    with pytest.raises(errors.SlotLost, match="not been configured yet"):  # its own answer: it has no plan
        remote(found).call(protocol.Status(), protocol.SlotStatus, 10)
    client.SlotClient(found, KEY, found.host).call(protocol.Stop(), protocol.Ok, 10)


def test_a_stranger_at_a_slots_address_is_told_a_nonce_and_nothing_else(address: SlotAddress) -> None:
    heard = bytearray()

    def play(listener: socket.socket) -> None:
        caller, _ = listener.accept()
        with caller:
            heard.extend(caller.recv(handshake.HELLO_BYTES))
            caller.sendall(heard[-32:] + bytes(32))  # also the caller's own nonce back
            while part := caller.recv(1 << 16):
                heard.extend(part)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=play, args=(listener,), daemon=True)
        thread.start()
        with pytest.raises(errors.SlotLost, match="cannot prove"):
            remote(address, listener.getsockname()[1]).call(
                protocol.Configure(plan=b"secret"), protocol.Ok, 10
            )
        thread.join(10)
    assert len(heard) == handshake.HELLO_BYTES
    assert heard.startswith(handshake.PROTOCOL)


def test_a_slot_takes_one_plan_in_its_life(address: SlotAddress, tmp_path: Path) -> None:
    configure(remote(address), tmp_path)
    again = protocol.Configure(plan=pickle.dumps(Touch(tmp_path / "code-ran")))
    for caller in (remote(address), client.SlotClient(address, KEY, address.host)):
        with pytest.raises(errors.SlotLost, match="takes no other"):
            caller.call(again, protocol.Ok, 10)
    assert not (tmp_path / "code-ran").exists()


def test_a_plan_that_cannot_be_read_is_the_only_one_too(address: SlotAddress, tmp_path: Path) -> None:
    with pytest.raises(errors.SparkstateError):
        remote(address).call(protocol.Configure(plan=b"no pickle"), protocol.Ok, 10)
    with pytest.raises(errors.SlotLost, match="takes no other"):
        configure(remote(address), tmp_path)


def test_a_plan_that_could_not_be_read_this_time_may_be_read_by_another_slot(
    address: SlotAddress, tmp_path: Path
) -> None:
    plan = pickle.dumps(Touch(tmp_path))  # FileExistsError where it is loaded
    with pytest.raises(errors.SparkstateError, match="FileExistsError") as caught:
        remote(address).call(protocol.Configure(plan=plan), protocol.Ok, 10)
    assert not isinstance(caught.value, errors.StateError)
    with pytest.raises(errors.SlotLost, match="takes no other"):
        configure(remote(address), tmp_path)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(b"cno_such_module\nnothing\n.", id="a module that is not in the image"),
        pytest.param(b"csparkstate\nnothing\n.", id="a name that its module does not have"),
    ],
)
def test_a_plan_that_no_slot_can_load_is_the_declarations_fault(address: SlotAddress, plan: bytes) -> None:
    with pytest.raises(errors.DeclarationError, match="must be in the image"):
        remote(address).call(protocol.Configure(plan=plan), protocol.Ok, 10)


@pytest.mark.parametrize(
    ("role", "request_"),
    [
        (TASK, protocol.Configure(plan=b"")),
        (TASK, protocol.Stop()),
        (TASK, protocol.Status()),
        (TASK, protocol.Commit(incarnation=1, epoch=0)),
        (DRIVER, protocol.ReadOutput(incarnation=1, epoch=0, operator="sum")),
    ],
    ids=["configure", "stop", "status", "commit", "read output"],
)
def test_a_role_may_ask_what_it_needs(
    address: SlotAddress, role: handshake.Role, request_: protocol.Message
) -> None:
    with client.connect(address, KEY, role, "another host") as channel:
        protocol.send(channel, request_)
        assert ended(channel.connection)
    assert Path(f"/proc/{address.pid}").exists()


def test_connections_that_prove_nothing_keep_nobody_out(address: SlotAddress, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", address.tcp_port))) for _ in range(300)
        ]
        configure(remote(address), tmp_path)
        assert ended(silent[0]), "the oldest had to go"
        threads = len(list(Path(f"/proc/{address.pid}/task").iterdir()))
        assert threads < 100


def test_one_that_proves_itself_a_byte_at_a_time_is_closed_in_time(
    address: SlotAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter([10.0, 5.0, 0.0])
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"s")
        threading.Timer(0.1, one.sendall, (b"p",)).start()
        with pytest.raises(errors.SlotLost, match="in time"):
            handshake.answer(other, KEY, slots.IDENTITY, lambda: next(left))


@given(said=st.binary(max_size=400), well_begun=st.booleans())
@example(said=handshake.PROTOCOL + b"d" + bytes(32) + bytes(32) + b"\xff\xff\xff\xff", well_begun=False)
@example(said=b"d" + bytes(64) + struct.pack(">I", 5) + b"hello", well_begun=True)
@settings(max_examples=tried(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_stranger_says_is_answered_by_no_more_than_a_proof(
    address: SlotAddress, said: bytes, well_begun: bool
) -> None:
    for family, target in (
        (socket.AF_INET, ("127.0.0.1", address.tcp_port)),
        (socket.AF_UNIX, address.unix_path),
    ):
        with socket.socket(family) as raw:
            raw.connect(target)
            raw.settimeout(30)
            with contextlib.suppress(OSError):  # the slot may have closed it: ENOTCONN is no ConnectionError
                raw.sendall((handshake.PROTOCOL if well_begun else b"") + said)
                raw.shutdown(socket.SHUT_WR)
            heard = b""
            with contextlib.suppress(ConnectionError):
                while part := raw.recv(1 << 16):
                    heard += part
        assert len(heard) in (0, handshake.NONCE_BYTES + handshake.PROOF_BYTES)
    assert Path(f"/proc/{address.pid}").exists()


def test_keys_of_other_doors_open_no_slot(address: SlotAddress) -> None:
    for use in ("read", "admin", "spark", "slots"):
        for where in (address.host, "another host"):
            with pytest.raises(errors.SlotLost, match="did not prove itself"):
                client.connect(address, keys.derive(KEY, use), DRIVER, where)
