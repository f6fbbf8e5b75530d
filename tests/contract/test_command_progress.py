"""A command of the engine that says how far it is, and the operator that asks it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.machine import loopback
from support.scene.decisions import NOW, acts, job, look, revision, running_status
from support.storage.stores import ManualClock

from sparkstate.checkpoint import purge
from sparkstate.checkpoint.removal import Removal
from sparkstate.cli import command_progress
from sparkstate.storage import open_store
from sparkstate_operator import actions, answers, clock, errors, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import keys, naming
from sparkstate_operator.decide import progress
from sparkstate_operator.edges.driver import Drivers
from sparkstate_operator.objects import commands, parts

MIB = 2**20
NAME = naming.command_job("orders", "uid-1", "purge")
OWN = b"the operator's own key"
KEY = keys.of_command(OWN, "shop", NAME)


def environment() -> dict[str, str]:
    """The variables of the container in which the operator runs a purge, on a free port in place of its own."""
    status = running_status(phase="Deleting", intent={"action": "delete", "attempt": 1, "policy": "purge"})
    seen = observed.ObservedState(job(status, deleting=True), NOW)
    (action,) = acts(look(seen), actions.CreateCommand)
    context = parts.Context(seen.job, revision(), Config())
    made = commands.job(commands.with_progress(commands.of_job(context, action, "orders-1"), OWN), {})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    found = {one["name"]: one.get("value", "") for one in container["env"]}
    assert found[command_progress.PORT_VARIABLE] == "8480"
    with socket.create_server(("127.0.0.1", 0)) as free:
        return {**found, command_progress.PORT_VARIABLE: str(free.getsockname()[1])}


def ask(
    environ: dict[str, str], name: str = NAME, address: str = "127.0.0.1", key: str = KEY
) -> dict[str, Any]:
    """What the operator hears."""

    async def asking() -> dict[str, Any]:
        drivers = Drivers(clock.SystemClock(), int(environ[command_progress.PORT_VARIABLE]))
        try:
            return await drivers.command_progress(address, name, "c-1", key)
        finally:
            await drivers.close()

    return asyncio.run(asking())


@pytest.fixture
def environ() -> dict[str, str]:
    return environment()


@contextlib.contextmanager
def working(environ: dict[str, str], clock_: ManualClock | None = None) -> Iterator[command_progress.Tell]:
    with command_progress.shown("purge", clock_ or ManualClock(), io.StringIO(), environ) as tell:
        yield tell


def test_the_operator_reads_how_far_a_command_is_as_it_reads_a_drivers_work(environ: dict[str, str]) -> None:
    now = ManualClock()
    with working(environ, now) as tell:
        assert ask(environ) == {"progress": []}
        now.sleep(10)
        tell(300 * MIB, 1200 * MIB)
        found = ask(environ)
        answers.require(found, {"progress": answers.STATUS["progress"]})
        command = observed.Command(NAME, "c-1", "1", "purge", False, False, progress=found)
        assert progress.of_command(command, None) == "purge 20 %: 300Mi of 1200Mi, 30s left"
        assert [ask(environ, address=address) for address in loopback.BOTH] == [found] * len(loopback.BOTH)


def test_an_answer_of_another_command_and_none_at_all_count_for_nothing(environ: dict[str, str]) -> None:
    with pytest.raises(errors.DriverUnavailable):
        ask(environ)
    with working(environ), pytest.raises(errors.DriverUnavailable, match="not of another"):
        ask(environ, name="another")


def test_the_key_of_a_command_opens_that_command_alone(environ: dict[str, str]) -> None:
    assert KEY not in environ.values()
    others = [
        keys.of_command(OWN, "shop", "another"),
        keys.of_command(OWN, "elsewhere", NAME),
        keys.of_command(b"the key of another operator", "shop", NAME),
        environ[command_progress.DIGEST_VARIABLE],
        "",
    ]
    with working(environ):
        for key in others:
            with pytest.raises(errors.DriverUnavailable, match="401"):
                ask(environ, key=key)
        assert ask(environ) == {"progress": []}


def status_of(port: int, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """How a request is answered: status and content."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_without_its_key_every_path_gets_the_same_empty_401(environ: dict[str, str]) -> None:
    port = int(environ[command_progress.PORT_VARIABLE])
    paths = ("/", "/v1/progress", "/v1/status", "/v1/progress/")
    with working(environ) as tell:
        tell(1, 2)
        for headers in ({}, {"Authorization": KEY}, {"Authorization": f"Basic {KEY}"}):
            assert {status_of(port, path, headers) for path in paths} == {(401, b"")}
        right = {"Authorization": f"Bearer {KEY}"}
        assert [status_of(port, path, right)[0] for path in paths] == [404, 200, 404, 404]


def test_a_silent_caller_holds_up_no_end(environ: dict[str, str]) -> None:
    with working(environ):
        silent = socket.create_connection(("127.0.0.1", int(environ[command_progress.PORT_VARIABLE])))
    silent.close()


def test_a_caller_that_sends_byte_after_byte_keeps_no_other_waiting(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_progress, "PATIENCE_S", 0.5)
    port = int(environ[command_progress.PORT_VARIABLE])
    with working(environ), socket.create_connection(("127.0.0.1", port)) as slow:
        is_heard = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                slow.sendall(b"GET / HTTP/1.0\r\n")
                while not is_heard.wait(0.05):
                    slow.sendall(b"A")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert status_of(port, "/v1/progress", {"Authorization": f"Bearer {KEY}"})[0] == 200
        finally:
            is_heard.set()
            dripping.join()


def test_a_pod_without_threads_stops_no_command(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    told: list[int] = []
    with working(environ) as tell:
        monkeypatch.setattr(threading.Thread, "start", none_left)
        tell(1, 2)
    with working(environment()) as tell:
        told.append(1)
    assert told == [1]


def test_a_command_that_knows_no_key_answers_nobody(environ: dict[str, str]) -> None:
    with working({**environ, command_progress.DIGEST_VARIABLE: ""}), pytest.raises(errors.DriverUnavailable):
        ask(environ)


def test_a_port_that_is_taken_and_one_that_is_none_stop_no_command(environ: dict[str, str]) -> None:
    told: list[tuple[int, int]] = []
    with socket.create_server(("", 0)) as taken:
        for port in (str(taken.getsockname()[1]), "none", "99999", "", "9" * 5000):
            with working({**environ, command_progress.PORT_VARIABLE: port}) as tell:
                tell(1, 2)
                told.append((1, 2))
    assert len(told) == 5


def test_the_bytes_of_a_savepoint_that_is_deleted_are_those_of_its_files(tmp_path: Path) -> None:
    now = ManualClock()
    folder = tmp_path / "elsewhere" / "savepoint-012345-aa"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"{number}").write_bytes(b"x" * 100)
    told: list[tuple[int, int]] = []
    removal = Removal(lambda done, total: told.append((done, total)))
    assert purge.delete_savepoint(str(folder), open_store, now, removal=removal)
    assert told == [(0, 300), (100, 300), (200, 300), (300, 300)]
