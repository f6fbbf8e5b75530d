"""Which loopback addresses this machine has. Older container hosts turn IPv6 off (``disable_ipv6``), and then
``socket.has_dualstack_ipv6()`` still says yes while nobody can bind ``::1``."""

from __future__ import annotations

import http.client
import socket

import pytest


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


HAS_IPV6 = _has_ipv6()
BOTH = ("127.0.0.1", "::1") if HAS_IPV6 else ("127.0.0.1",)
"""The addresses at which something that listens everywhere is reached."""
IPV6, LISTENS = ("::1", "::1") if HAS_IPV6 else ("::ffff:127.0.0.1", "127.0.0.1")
"""An address written and dialled as one of IPv6, and where to listen for it. Without ``::1`` it is the mapped address
of IPv4, which the kernel reaches whatever the interfaces have."""
needs_ipv6 = pytest.mark.skipif(
    not HAS_IPV6, reason="this machine has no IPv6 loopback address (::1) to bind"
)


def reached(addresses: set[str]) -> set[str]:
    """Those of the addresses that this machine has."""
    return addresses & set(BOTH)


def answers(host: str, port: int) -> bool:
    """Whether an endpoint of ours says there that it lives."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
