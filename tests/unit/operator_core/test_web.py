"""Where the operator's probes and metrics are answered: IPv4, IPv6, or every address of both."""

from __future__ import annotations

import click
import pytest
from support.machine import loopback

from sparkstate_operator import cli
from sparkstate_operator.edges.web import Web


def answering(listen: str) -> set[str]:
    """The loopback addresses at which it answers."""
    web = Web(*cli._address(listen), lambda: "", lambda: "", bytes)
    web.start()
    try:
        return {one for one in ("127.0.0.1", "::1") if loopback.answers(one, web.port)}
    finally:
        web.stop()


@pytest.mark.parametrize(
    ("listen", "reached"),
    [
        (":0", {"127.0.0.1", "::1"}),
        ("0.0.0.0:0", {"127.0.0.1"}),
        ("127.0.0.1:0", {"127.0.0.1"}),
        ("[::]:0", {"::1"}),
    ],
)
def test_it_answers_where_it_listens(listen: str, reached: set[str]) -> None:
    assert answering(listen) == loopback.reached(reached)


@loopback.needs_ipv6
def test_it_answers_at_one_address_of_ipv6() -> None:
    assert answering("[::1]:0") == {"::1"}


def test_the_default_is_every_address() -> None:
    (option,) = (one for one in cli.run.params if one.name == "listen")
    assert cli._address(str(option.default)) == ("", 8081)


@pytest.mark.parametrize("listen", ["8081", "::1:8081", "host:", "[::1]"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    with pytest.raises(click.UsageError, match=r"IPv6 address"):
        cli._address(listen)
