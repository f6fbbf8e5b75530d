"""A handshake whose time is over: what has come counts, what has not come does not."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from sparkstate import errors
from sparkstate.slots import handshake


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def over() -> float:
    return -5.0


def test_bytes_that_are_there_are_read_though_the_time_is_over(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    here, there = ends
    there.sendall(b"x" * 64)
    assert handshake._receive(here, 64, over) == b"x" * 64


def test_bytes_that_are_not_there_when_the_time_is_over_are_not_waited_for(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    here, there = ends
    there.sendall(b"x" * 63)
    with pytest.raises(errors.SlotLost, match="in time"):
        handshake._receive(here, 64, over)
