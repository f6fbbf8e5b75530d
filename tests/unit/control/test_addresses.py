"""Where the endpoint listens: IPv4, IPv6, or every address of both."""

from __future__ import annotations

import socket

import pytest
from support.machine import loopback

from sparkstate import errors, keys
from sparkstate.control import server
from sparkstate_tools.drivers import control_job

TOKEN = "a-token-of-the-tests-0123456789"


@pytest.mark.parametrize(
    ("listen", "found"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:8480", ("::1", 8480)),
        ("[::]:8480", ("::", 8480)),
        (":8480", ("", 8480)),
        ("localhost:1", ("localhost", 1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_address_is_read(listen: str, found: tuple[str, int]) -> None:
    assert server.parse(listen) == found


NO_ADDRESSES = [
    "8480",
    "::1:8480",
    "host:",
    "[::1]",
    "[::1:1",
    "host:x",
    "",
    "h:65536",
    f"h:{'9' * 5000}",
    "h:٣",
]


@pytest.mark.parametrize("listen", NO_ADDRESSES)
def test_what_is_no_address_is_refused_with_the_three_forms(listen: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=r"host:port, \[IPv6 address\]:port, or :port"):
        server.parse(listen)


def test_a_host_that_no_name_can_be_is_refused() -> None:
    """Python has no OSError for it, and the driver was started again and again."""
    with pytest.raises(errors.SpecInvalid, match=r"cannot listen on a\.\.b:0"):
        server.ControlServer(control_job.InMemoryJob(), keys.of_token(TOKEN), "a..b")


def answering(host: str) -> set[str]:
    """The loopback addresses at which it answers. It answers at the address that it shows, where there is that one."""
    with server.ControlServer(control_job.InMemoryJob(), keys.of_token(TOKEN), host) as endpoint:
        shown = endpoint.address.removeprefix("http://").rpartition(":")[0].strip("[]")
        assert shown not in loopback.BOTH or loopback.answers(shown, endpoint.port)
        assert shown in ("127.0.0.1", "::1")
        return {one for one in ("127.0.0.1", "::1") if loopback.answers(one, endpoint.port)}


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("", {"127.0.0.1", "::1"}),
        ("0.0.0.0", {"127.0.0.1"}),
        ("127.0.0.1", {"127.0.0.1"}),
        ("::", {"::1"}),
    ],
    ids=["every address", "every IPv4", "IPv4", "every IPv6"],
)
def test_it_answers_where_it_listens(host: str, reached: set[str]) -> None:
    assert answering(host) == loopback.reached(reached)


@loopback.needs_ipv6
def test_it_answers_at_one_address_of_ipv6() -> None:
    assert answering("::1") == {"::1"}


def test_without_ipv6_every_address_is_every_ipv4_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with server.ControlServer(control_job.InMemoryJob(), keys.of_token(TOKEN), "") as endpoint:
        assert loopback.answers("127.0.0.1", endpoint.port)
        assert not loopback.answers("::1", endpoint.port)
