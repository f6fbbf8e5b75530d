"""The addresses of a test cluster: IPv4, or IPv6 alone where ``SPARKSTATE_TEST_IPV6=1``.

Nothing in a cluster of IPv6 alone has another address but the loopback, so whatever binds or reaches an IPv4 address
shows. The way from the tests' own process into the cluster is the host's loopback in both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

VARIABLE = "SPARKSTATE_TEST_IPV6"


@dataclass(frozen=True)
class Family:
    """The addresses of one kind of cluster."""

    address: str
    """Of the control plane, and of the servers that pods reach."""
    services: str
    first_service: str
    """The API server's."""
    pods: str
    nodes: str
    """A node's address, with ``{}`` for its number."""
    pods_of_node: str
    bits: int
    """Length of the prefix that control plane and nodes share."""
    everywhere: str
    """Binds all addresses."""
    default: str
    """The route to everywhere."""


V4 = Family(
    address="10.99.0.1",
    services="10.96.0.0/16",
    first_service="10.96.0.1",
    pods="10.244.0.0/16",
    nodes="10.99.0.1{}",
    pods_of_node="10.244.{}.0/24",
    bits=24,
    everywhere="0.0.0.0",
    default="0.0.0.0/0",
)
V6 = Family(
    address="fd00:99::1",
    services="fd00:96::/112",
    first_service="fd00:96::1",
    pods="fd00:244::/48",
    nodes="fd00:99::1{}",
    pods_of_node="fd00:244:0:{}::/64",
    bits=64,
    everywhere="::",
    default="::/0",
)
IPV6 = os.environ.get(VARIABLE, "") == "1"
HERE = V6 if IPV6 else V4


def at(host: str, port: int) -> str:
    """Host and port as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
