"""Credentials that stop being valid in the middle of a publication: told, waited for, and exact when they are back."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sparkstate.control.documents import DriverPhase
from sparkstate_tools.drivers import driving, totals
from sparkstate_tools.servers import fault_proxy, s3server
from sparkstate_tools.servers.http_wire import Message

pytestmark = [pytest.mark.fault_on("hashmap, S3"), pytest.mark.spark, pytest.mark.s3]


class Door:
    """The way to the sink's bucket: it closes when the first file of a publication has appeared."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._lock = threading.Lock()
        self.armed = self.closed = False
        self.completed = 0

    def refuse(self, request: Message) -> str | None:
        with self._lock:
            if self.closed:
                return self._code
            if self.armed and request.words[0] == "POST" and "uploadId=" in request.words[1]:
                self.completed += 1
                self.closed = self.completed > 1
                return self._code if self.closed else None
            return None


def manifest(folder: Path, endpoint: str) -> dict[str, Any]:
    """Checkpoints in a folder, output in a bucket."""
    return driving.manifest(
        folder,
        "totals.py",
        params={"output": "s3://state/out", "pause": "0.005"},
        s3={"endpoint": endpoint, "region": "us-east-1", "pathStyle": True},
        restart={"strategy": "fixed-delay", "fixedDelay": {"attempts": 100, "delay": "500ms"}},
    )


@pytest.mark.fault(
    broken="the credentials of the sink's bucket are no longer valid ({code}); later {remedy}",
    when="in the phase checkpoint-publish, when one of a checkpoint's files is published{killed}",
    expected="the driver waits for a new token without a restart; after a refusal, a new incarnation waits; what was "
    "committed is published by the same driver or the next; output exact, no record twice",
)
@pytest.mark.parametrize(
    ("code", "remedy", "killed"),
    [
        pytest.param("ExpiredToken", "the file of credentials has new keys", "", id="new keys"),
        pytest.param(
            "ExpiredToken",
            "the same keys are valid again",
            "; the driver is killed before",
            id="killed",
            marks=pytest.mark.extra,
        ),
        pytest.param(
            "AccessDenied", "the same keys are valid again", "", id="refused", marks=pytest.mark.extra
        ),
    ],
)
def test_credentials_that_expire_in_a_publication_cost_nothing_but_time(
    tmp_path: Path, code: str, remedy: str, killed: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=4)
    keys, door = tmp_path / "credentials", Door(code)
    with s3server.running() as server, fault_proxy.FaultProxy(server.port, refuse=door.refuse) as proxy:
        s3server.write_keys(server, keys)
        document = manifest(tmp_path, proxy.endpoint)
        environment = {"AWS_SHARED_CREDENTIALS_FILE": str(keys)}
        output = server.folder / "data" / "state" / "out"

        def valid_again() -> None:
            if "new keys" in remedy:
                server.stop()
                server.secret_key = "another-secret"
                server.start()
                s3server.write_keys(server, keys)
            door.armed = door.closed = False

        with driving.Driver(tmp_path, document, environment=environment) as first:
            first.hold("driver", "checkpoint-publish")
            first.held("driver", "checkpoint-publish")
            door.armed = True
            first.release()
            driving.wait_for(lambda: door.closed, driving.PATIENCE_S, "the door closes", first.process)
            if code == "ExpiredToken":
                driving.wait_for(
                    lambda: bool(first.client().status().storage_away),
                    driving.PATIENCE_S,
                    "the place is told",
                    first.process,
                )
                told = first.client().status().storage_away[0]
                assert told.url.startswith("s3://state/out/") and "credentials were refused" in told.message
            else:
                driving.wait_for(
                    lambda: "restarting in" in first.log(), driving.PATIENCE_S, "a restart", first.process
                )
            assert len(list(output.glob("*/part-*"))) == 1, "half of the publication is done"
            if killed:
                first.process.kill()
                first.wait()
            else:
                time.sleep(1.0)
                valid_again()
                first.finish()
                assert ("restarting in" in first.log()) == (code == "AccessDenied")
                assert first.end()["reason"] == "Finished"
            for secret in (server.secret_key, "another-secret"):
                assert secret not in first.log()
        if killed:
            valid_again()
            with driving.Driver(tmp_path, document, attempt=2, environment=environment) as second:
                second.finish()
        totals.check(output, rows)


@pytest.mark.fault(
    broken="the keys in the driver's environment are refused by the bucket of the checkpoints, and valid again later",
    when="while a job runs, {when}",
    expected="the driver does not end: it pauses, or restarts again and again, and tells the refusal; then it goes on "
    "{how}, output exact",
)
@pytest.mark.parametrize(
    ("when", "how"),
    [
        pytest.param("between two checkpoints", "as if nothing had been", id="epoch"),
        pytest.param(
            "when a checkpoint is published",
            "with a new incarnation or the same",
            id="checkpoint",
            marks=pytest.mark.extra,
        ),
    ],
)
def test_a_driver_whose_keys_from_the_environment_are_refused_does_not_end(
    tmp_path: Path, when: str, how: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=12)
    phase = "output" if "between" in when else "checkpoint-publish"
    closed = threading.Event()
    with (
        s3server.running() as server,
        fault_proxy.FaultProxy(
            server.port, refuse=lambda request: "AccessDenied" if closed.is_set() else None
        ) as proxy,
    ):
        document = driving.manifest(
            tmp_path,
            "totals.py",
            params={"pause": "0.005"},
            s3={"endpoint": proxy.endpoint, "region": "us-east-1", "pathStyle": True},
            checkpointing={"interval": "1h" if phase == "output" else "500ms", "storage": "s3://state/jobs"},
            restart={"strategy": "exponential-delay", "exponentialDelay": {"maxBackoff": "1s"}},
            fenceTimeout="3s",
        )
        with driving.Driver(tmp_path, document, environment=server.environment) as driver:
            driver.hold("driver", phase)
            driver.held("driver", phase)
            closed.set()
            driver.release()
            # What meets the refusal first decides: a checkpoint waits for the storage, a restart fails and is repeated.
            driving.wait_for(
                lambda: (
                    "restarting in" in driver.log() or driver.client().status().phase is DriverPhase.PAUSED
                ),
                driving.PATIENCE_S,
                "PAUSED, or a restart",
                driver.process,
            )
            if "between" in when:
                told = {place.url: place.message for place in driver.client().status().storage_away}
                (message,) = (told[url] for url in told if url.startswith("s3://state/jobs"))
                assert "check that the credentials" in message
            else:
                driving.wait_for(lambda: is_told(driver), driving.PATIENCE_S, "the refusal", driver.process)
            closed.clear()
            driver.finish()
            assert driver.end()["reason"] == "Finished"
            if "between" in when:
                assert "restarting in" not in driver.log()
            assert server.secret_key not in driver.log()
    totals.check(tmp_path / "out", rows)


def is_told(driver: driving.Driver) -> bool:
    """A driver that restarts says so in its log, one that pauses in its status."""
    said = [driver.log(), *(place.message for place in driver.client().status().storage_away)]
    return any("check that the credentials" in one for one in said)
