"""The port for Prometheus: numbers without a token, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client import parser

from sparkstate import clock, errors
from sparkstate.control import documents, metrics, port, scraping, server
from sparkstate.testing.manual_clock import ManualClock
from sparkstate_tools.drivers import control_job

LABELS = {"slot", "part", "kind", "le"}
OWN = {"operator", "metric"}
"""What a job calls its own metrics is shown."""


@pytest.fixture(scope="module")
def scraper(control: server.ControlServer) -> Iterator[httpx.Client]:
    """Knows the port and no token."""
    with (
        server.MetricsServer(control, "127.0.0.1", 0, clock.SystemClock()) as served,
        httpx.Client(base_url=served.address, trust_env=False) as http,
    ):
        yield http


def test_the_port_for_metrics_gives_the_same_text_as_the_endpoint_does_for_the_token(
    scraper: httpx.Client, caller: httpx.Client
) -> None:
    answer = scraper.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == caller.get("/metrics").headers["content-type"]
    names = {family.name for family in parser.text_string_to_metric_families(answer.text)}
    assert names == {
        family.name for family in parser.text_string_to_metric_families(caller.get("/metrics").text)
    }
    assert "sparkstate_rows" in names


def test_it_shows_numbers_and_names_nothing_of_the_job_but_its_own_metrics(
    control: server.ControlServer, control_client, job: control_job.InMemoryJob
) -> None:
    away = [
        documents.StorageAway(
            url=f"s3://a-bucket/{place}", doing="checkpoints", since_ms=control_job.NOW_MS - age
        )
        for place, age in (("state", 2000), ("output", 5000))
    ]
    job.update(storage_away=tuple(away), slots=(control_job.slot(0),))
    job.own_metrics = [
        port.SlotMetric(0, documents.UserMetric(operator="sums", name="odd", kind="counter", count=3))
    ]
    with (
        server.MetricsServer(control, "127.0.0.1", 0, clock.SystemClock()) as served,
        httpx.Client(base_url=served.address, trust_env=False) as http,
    ):
        answer = http.get("/metrics")
    seen = {}
    for family in parser.text_string_to_metric_families(answer.text):
        for sample in family.samples:
            own = OWN if family.name.startswith("sparkstate_user_") else set()
            assert set(sample.labels) <= LABELS | own
            seen[sample.name] = sample
    assert seen["sparkstate_user_counter"].labels == {"slot": "0", "operator": "sums", "metric": "odd"}
    assert seen["sparkstate_storage_away_seconds"].labels == {}
    assert "a-bucket" not in answer.text
    status = control_client.status()
    for secret in (
        status.name,
        status.job_uid,
        status.namespace,
        status.lineage or control_job.TOKEN,
        control_job.TOKEN,
    ):
        assert secret not in answer.text
        assert secret not in str(answer.headers)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/status",
        "/v1/savepoints",
        "/v1/cancel",
        "/livez",
        "/ui/",
        "/metrics/",
        "//metrics",
        "/v1/state",
    ],
)
@pytest.mark.parametrize("with_token", [False, True], ids=["without", "with token"])
def test_nothing_else_is_there_with_or_without_the_token(
    scraper: httpx.Client, path: str, with_token: bool
) -> None:
    headers = {"Authorization": f"Bearer {control_job.TOKEN}"} if with_token else {}
    for method in ("GET", "POST"):
        answer = scraper.request(method, path, headers=headers)
        assert (answer.status_code, answer.content) == (404, b"")


def test_of_several_places_that_are_away_it_shows_the_longest() -> None:
    job = control_job.InMemoryJob()
    time = ManualClock()
    job.update(
        storage_away=tuple(
            documents.StorageAway(
                url=f"s3://a-bucket/{age}", doing="checkpoints", since_ms=time.now_ms() - age
            )
            for age in (2000, 5000, 1000)
        )
    )
    shown = metrics.JobMetrics(job, time)
    assert "\nsparkstate_storage_away_seconds 5.0\n" in shown.render_open().decode()
    assert shown.render().decode().count("sparkstate_storage_away_seconds{url=") == 3


def test_it_can_only_be_read(scraper: httpx.Client, job: control_job.InMemoryJob) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = scraper.request(method, "/metrics", content=b"x" * 1000)
        assert (answer.status_code, answer.content) == (405, b"")
    assert scraper.head("/metrics").content == b""
    assert not job.requests()


def ask(door: scraping.MetricsApp) -> int:
    told: list[dict] = []

    async def send(message: dict) -> None:
        told.append(message)

    asyncio.run(door({"type": "http", "path": "/metrics", "method": "GET"}, None, send))
    return told[0]["status"]


def test_whoever_asks_often_is_given_the_text_of_this_second() -> None:
    time, made = ManualClock(), []
    door = scraping.MetricsApp(lambda: made.append(1) or b"text", time)
    for _ in range(50):
        assert ask(door) == 200
    assert len(made) == 1
    time.advance(1000)
    assert ask(door) == 200
    assert len(made) == 2


def test_a_job_that_cannot_tell_is_not_shown_as_numbers_of_before() -> None:
    time = ManualClock()
    texts = [b"text"]
    door = scraping.MetricsApp(texts.pop, time)
    assert ask(door) == 200
    time.advance(2000)
    assert ask(door) == 503


def test_idle_connections_keep_no_scraper_out(scraper: httpx.Client) -> None:
    port = scraper.base_url.port
    with contextlib.ExitStack() as stack:
        for number in range(300):
            made = socket.create_connection(
                ("127.0.0.1", port), 5, source_address=(f"127.0.3.{number % 9 + 1}", 0)
            )
            stack.enter_context(made)
        assert scraper.get("/metrics", timeout=5).status_code == 200


def test_a_port_that_is_taken_is_said(control: server.ControlServer) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(errors.SpecInvalid, match="port for metrics"),
    ):
        server.MetricsServer(control, "127.0.0.1", taken.getsockname()[1], clock.SystemClock())
