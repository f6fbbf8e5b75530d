"""A JVM that ends by itself or is killed is named, with the signal and the remedy."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparkstate.settings import EntryPoint, JobSettings
from sparkstate.spark import jvm, session

SETTINGS = JobSettings(name="job", entry=EntryPoint(module="m"))


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as running:
        yield running
        running.kill()


@pytest.fixture
def started(process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> jvm.Jvm:
    monkeypatch.setattr(jvm, "launch_gateway", lambda conf: SimpleNamespace(proc=process))
    begun = jvm.Jvm(SETTINGS)
    begun.gateway()
    return begun


def test_a_killed_jvm_is_named_with_its_process_and_the_remedy(
    started: jvm.Jvm, process: subprocess.Popen[bytes]
) -> None:
    assert started.loss() is None
    process.send_signal(signal.SIGKILL)
    lost = started.loss(20)
    assert lost is not None and started.loss() is not None
    assert str(lost).startswith(
        f"Spark's JVM (pid {process.pid}) was killed by SIGKILL; the kernel does that"
    )
    assert "raise driver.memory" in str(lost)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (3, "ended with exit code 3; the driver's log"),
        (-15, "was killed by SIGTERM;"),
        (-99, "by signal 99;"),
    ],
)
def test_any_other_end_is_told_as_it_is(code: int, told: str) -> None:
    assert told in jvm.told_end(7, code) and "driver.memory" not in jvm.told_end(7, code)


def test_a_jvm_that_has_not_started_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(conf: object) -> None:
        raise RuntimeError("there is no Java")

    monkeypatch.setattr(jvm, "launch_gateway", fail)
    begun = jvm.Jvm(SETTINGS)
    with pytest.raises(RuntimeError):
        begun.gateway()
    assert begun.loss() is None


def test_nobody_asks_a_jvm_that_is_gone_to_stop(
    started: jvm.Jvm, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """py4j would raise an error that hides the one that ends the driver."""
    stops: list[str] = []
    monkeypatch.setattr(session, "_context", lambda settings, jvm: None)
    monkeypatch.setattr(
        session, "_session", lambda context: SimpleNamespace(stop=lambda: stops.append("stop"))
    )
    begun = session.Beginning(SETTINGS, cast("Any", started))
    begun.stop()
    assert stops == ["stop"]
    process.kill()
    process.wait()
    begun.stop()
    assert stops == ["stop"]
