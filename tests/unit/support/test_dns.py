"""The name service of the test clusters, as bytes."""

from __future__ import annotations

import socket
import struct

import pytest

from sparkstate_tools.kubernetes import dns

ADDRESSES = {dns.API_SERVER: "10.96.0.1", "minio.minio.svc": "10.99.0.1"}


def query(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!HHHHHH", 77, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


@pytest.mark.parametrize("name", ["kubernetes.default.svc", "Kubernetes.default.svc.cluster.local"])
def test_the_api_server_has_its_address(name: str) -> None:
    said = dns.answer(query(name, dns.A), ADDRESSES)
    number, flags, _, records = struct.unpack_from("!HHHH", said)
    assert (number, flags & 0xF, records) == (77, 0, 1)
    assert said.endswith(socket.inet_aton("10.96.0.1"))


def test_a_service_that_was_added_has_its_own() -> None:
    said = dns.answer(query("minio.minio.svc", dns.A), ADDRESSES)
    assert said.endswith(socket.inet_aton("10.99.0.1"))


def test_it_has_no_address_of_version_6() -> None:
    said = dns.answer(query("kubernetes.default.svc", dns.AAAA), ADDRESSES)
    _, flags, _, records = struct.unpack_from("!HHHH", said)
    assert (flags & 0xF, records) == (0, 0)


def test_there_is_no_other_name() -> None:
    _, flags, _, records = struct.unpack_from("!HHHH", dns.answer(query("example.org", dns.A), ADDRESSES))
    assert (flags & 0xF, records) == (dns.NO_SUCH_NAME, 0)
