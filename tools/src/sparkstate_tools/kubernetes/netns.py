"""Network namespaces for clusters with nodes, and how the tests' own process reaches into them.

A cluster with nodes must not touch the host's network: its control plane, its nodes and their pods live in
namespaces of their own, joined by veth pairs, with no way out. A socket belongs to the namespace of the thread
that made it, so one thread inside (``SocketFactory``) makes sockets for everybody outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from sparkstate_tools.kubernetes import addresses

NEWNET = 0x40000000
BLOCK = 1 << 18
FORWARDING = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding || true"

NO_PROBING = ("nodad",) if addresses.IPV6 else ()
"""Of an address of IPv6: it is usable at once, nobody else on this bridge can have it."""
Address = tuple[str, int]


def family(address: Address) -> socket.AddressFamily:
    """Of a socket for that address."""
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def ip(*words: str) -> None:
    """The ``ip`` command; raises with what it said."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def file_of(namespace: str) -> Path:
    """Where ``ip netns`` keeps a namespace."""
    return Path("/run/netns") / namespace


def inside(namespace: str) -> tuple[str, str]:
    """The words with which a command begins to run in a namespace."""
    return "nsenter", f"--net={file_of(namespace)}"


def add(namespace: str) -> None:
    """A new namespace with its loopback up, forwarding between its interfaces."""
    ip("netns", "add", namespace)
    ip("-n", namespace, "link", "set", "lo", "up")
    subprocess.run([*inside(namespace), "sh", "-c", FORWARDING], check=True)


def remove(namespace: str) -> None:
    """Its interfaces go with it; quiet when it is gone."""
    with contextlib.suppress(RuntimeError):
        ip("netns", "delete", namespace)


class SocketFactory:
    """Makes sockets inside of a namespace, for use by any thread."""

    def __init__(self, namespace: str) -> None:
        self._orders: queue.Queue[
            tuple[Callable[[], socket.socket], queue.Queue[socket.socket | OSError]] | None
        ]
        self._orders = queue.Queue()
        ready: queue.Queue[OSError | None] = queue.Queue()
        self._thread = threading.Thread(target=self._live, args=(namespace, ready), daemon=True)
        self._thread.start()
        failure = ready.get()
        if failure:
            raise failure

    def connect(self, address: Address) -> socket.socket:
        """A connection from inside to an address there."""
        return self._order(lambda: socket.create_connection(address, 10))

    def listen(self, address: Address) -> socket.socket:
        """A socket that listens inside."""
        return self._order(lambda: socket.create_server(address, family=family(address), backlog=128))

    def listen_for_datagrams(self, address: Address) -> socket.socket:
        """A UDP socket that is bound inside."""

        def make() -> socket.socket:
            made = socket.socket(family(address), socket.SOCK_DGRAM)
            made.bind(address)
            return made

        return self._order(make)

    def close(self) -> None:
        """Ends the thread; the sockets live on."""
        self._orders.put(None)
        self._thread.join()

    def _order(self, make: Callable[[], socket.socket]) -> socket.socket:
        answer: queue.Queue[socket.socket | OSError] = queue.Queue()
        self._orders.put((make, answer))
        made = answer.get()
        if isinstance(made, OSError):
            raise made
        return made

    def _live(self, namespace: str, ready: queue.Queue[OSError | None]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with file_of(namespace).open() as file:
            failed = libc.setns(file.fileno(), NEWNET)
        ready.put(OSError(ctypes.get_errno(), f"setns into {namespace}") if failed else None)
        while not failed and (order := self._orders.get()):
            make, answer = order
            try:
                answer.put(make())
            except OSError as error:
                answer.put(error)


class Forward:
    """Carries connections from a listening socket to wherever ``dial`` leads: the bridge between namespaces."""

    def __init__(self, listener: socket.socket, dial: Callable[[], socket.socket]) -> None:
        self.listener = listener
        self.port = int(listener.getsockname()[1])
        self._dial = dial
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Takes no more connections and breaks those that are open."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self._lock:
            left = list(self._open)
        for each in left:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(here,), daemon=True).start()

    def _carry(self, here: socket.socket) -> None:
        with contextlib.closing(here):
            try:
                there = self._dial()
            except OSError:
                return
            there.settimeout(None)
            with contextlib.closing(there):
                with self._lock:
                    self._open |= {here, there}
                back = threading.Thread(target=_copy, args=(there, here), daemon=True)
                back.start()
                _copy(here, there)
                back.join()
                with self._lock:
                    self._open -= {here, there}


def into(door: SocketFactory, address: Address) -> Forward:
    """From a free port of the host's loopback to an address inside."""
    return Forward(socket.create_server(("127.0.0.1", 0), backlog=128), lambda: door.connect(address))


def out_of(door: SocketFactory, address: Address, target: Address) -> Forward:
    """From an address inside to one on the host, for servers that run here."""
    return Forward(door.listen(address), lambda: socket.create_connection(target, 10))


def processes_in(kind: str, namespace: Path) -> list[int]:
    """Processes whose namespace of that kind (``net``, ``mnt``) is the one that the file keeps."""
    if not namespace.exists():
        return []
    wanted = namespace.stat().st_ino
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if (entry / "ns" / kind).stat().st_ino == wanted:
                    found.append(int(entry.name))
    return found


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := source.recv(BLOCK):
            target.sendall(block)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
