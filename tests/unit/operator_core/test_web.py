"""Where the operator's probes and metrics are answered (IPv4, IPv6, or every address of both), and what a stranger
learns there."""

from __future__ import annotations

import asyncio
import http.client
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.machine import loopback
from support.scene import kubeconfig

from sparkstate_operator import cli, errors
from sparkstate_operator.cli import values
from sparkstate_operator.edges import kube
from sparkstate_operator.edges.web import Web
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.watching import handlers
from sparkstate_operator.watching.watches import Watches


def answering(listen: str) -> set[str]:
    """The loopback addresses at which it answers."""
    web = Web(*values.address(listen), lambda: "", lambda: "", bytes)
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
    assert values.address(str(option.default)) == ("", 8081)


@pytest.mark.parametrize("listen", ["8081", "::1:8081", "host:", "[::1]"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    with pytest.raises(click.UsageError, match=r"IPv6 address"):
        values.address(listen)


# -- what a stranger learns --------------------------------------------------------------------------------------------

CONFIG = kubeconfig.text("http://127.0.0.1:9")


async def ask_for_a_job(metrics: Metrics, config: Path) -> None:
    api = await kube.Kube.connect(str(config), count=metrics.count_request)
    try:
        with pytest.raises(errors.ApiError):
            await api.get(kube.JOBS, "shop", "orders")
    finally:
        await api.close()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """Of an operator of the whole cluster that has asked for one job, in vain, and whose watches are not live."""
    metrics = Metrics()
    config = tmp_path_factory.mktemp("operator") / "config"
    config.write_text(CONFIG)
    asyncio.run(ask_for_a_job(metrics, config))
    metrics.count_jobs(["Running"])
    watches = Watches((kind.path(None) for kind in handlers.KINDS), time.monotonic)
    found = Web("127.0.0.1", 0, lambda: "", watches.wrong, metrics.text)
    found.start()
    yield found
    found.stop()


def ask(web: Web, method: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
    try:
        connection.request(method, path, body="{}" if method in ("POST", "PUT", "PATCH") else None)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path", ["/", "/metrics/", "/v1/status", "/../metrics", "/debug", "/livez/x", "/%6cvez"]
)
def test_nothing_else_is_there(web: Web, path: str) -> None:
    assert ask(web, "GET", path) == (404, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_no_request_changes_anything(web: Web, method: str) -> None:
    paths = ("/livez", "/readyz", "/metrics")
    before = [ask(web, "GET", path) for path in paths]
    for path in (*paths, "/v1/jobs/orders"):
        assert ask(web, method, path)[0] == 501
    assert [ask(web, "GET", path) for path in paths] == before


def test_no_job_and_no_namespace_is_named(web: Web) -> None:
    (_, alive), (_, ready), (_, numbers) = (
        ask(web, "GET", path) for path in ("/livez", "/readyz", "/metrics")
    )
    assert alive == "ok"
    assert ready.startswith(
        "the watch of /apis/sparkstate.io/v1alpha1/statefulsparkjobs is not connected yet"
    )
    assert 'resource="statefulsparkjobs",status="0",verb="get"' in numbers
    assert 'sparkstate_operator_jobs{phase="Running"} 1.0' in numbers
    assert not any(
        name in text for text in (alive, ready, numbers) for name in ("orders", "shop", "namespaces")
    )


def test_a_connection_that_says_nothing_is_closed() -> None:
    web = Web("127.0.0.1", 0, lambda: "", lambda: "", bytes, idle_s=0.1)
    web.start()
    try:
        with socket.create_connection(("127.0.0.1", web.port), timeout=60) as stranger:
            assert stranger.recv(1) == b""
    finally:
        web.stop()
