"""Requests with bad, hostile or unlucky content get an error of their own, and the job runs on."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.slots import slots
from support.slots.running import stored_job

from sparkstate import clock, errors, keys, phases
from sparkstate.control import driver_life, port, server
from sparkstate.control.documents import JobIdentity, SavepointPhase
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import earlier_savepoint
from sparkstate.driver import requests as driver_requests
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.control import DriverControl
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.requests import Requests
from sparkstate.driver.savepoint_targets import Targets, check_name
from sparkstate.driver.view import JobView
from sparkstate.settings import CheckpointSettings, EntryPoint, JobSettings, S3Settings
from sparkstate.slots.group import SlotGroup
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks
from sparkstate_tools.drivers import control_job

TIMEOUT_S = 120.0
"""Of everything here, so that nothing is over before its time on a busy machine."""
PATHS = ["/v1/status", "/v1/checkpoints", "/v1/checkpoints/1", "/v1/savepoints", "/v1/savepoints/t", "/v1/state",
         "/v1/claim", "/metrics", "/ui/", "/livez"]  # fmt: skip
text = st.text(max_size=60)
urls = st.one_of(
    text.filter(
        lambda url: not url.startswith(("/", "file:"))
    ),  # nothing is written outside of the test's folder
    st.sampled_from(
        [
            "gs://x",
            "s3://",
            "s3://user:secret@bucket/x",
            "file://[",
            "s3://[x",
            "file:///%00",
            "/a\0b",
            "../up",
            "s3://b/../x",
            "http://169.254.169.254/",
            "file://host/x",
            "file:x",
            "/proc/1/x",
            "/dev/null/x",
            "/" + "n" * 2000,
            "\ud800".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
        ]
    ),
)
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), text
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)),
    max_leaves=8,
)
savepoints = st.fixed_dictionaries(
    {}, optional={"trigger_id": st.one_of(text, st.sampled_from(["a", "b", "x" * 128])), "target_directory": urls,
                  "stop": st.one_of(st.booleans(), values), "drain": st.booleans(), "other": values},
)  # fmt: skip
bodies = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"{", b"[" * 20_000, b"\xff\xfe{}", b'{"trigger_id": "\\ud800"}', b"x" * 70_000,
                     b'{"stop": 1e999}']),
    values.map(lambda value: json.dumps(value).encode()),
    savepoints.map(lambda value: json.dumps(value).encode()),
)  # fmt: skip
queries = st.dictionaries(
    st.sampled_from(["operator", "state", "key", "namespace", "x"]), st.one_of(text, urls)
)
headers = st.dictionaries(
    st.sampled_from(["Content-Type", "Content-Encoding", "Accept", "X-Http-Method-Override", "Range", "Expect"]),
    st.one_of(st.sampled_from(["gzip", "application/json", "text/plain; charset=utf-7", "bytes=0-", "*/*", ""]),
              st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=40)),
)  # fmt: skip


def settings_of(folder: Path) -> JobSettings:
    return JobSettings(
        name="job",
        entry=EntryPoint(module="a.job"),
        checkpoint=CheckpointSettings(storage=f"{folder}/storage", timeout_s=TIMEOUT_S),
    )


class MovableClock(clock.SystemClock):
    """A test moves it on where a timeout is to be over."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


class Job:
    """A driver's parts around one real slot, without Spark."""

    def __init__(self, folder: Path) -> None:
        self.slot = slots.Slot(folder / "slot", slots.plan(folder))
        self.slot.restore()
        claimed = claim(settings_of(folder), clock.SystemClock(), 1, "a test")
        self.job_storage = JobStorage(claimed, stored_job(sum=folder / "out"))
        self.view = JobView(JobIdentity(job_uid="u"), "job", "shop", "hashmap", clock.SystemClock())
        self.view.happened(driver_life.RESTORES)
        self.view.happened(driver_life.FILLED)
        self.requests = Requests()
        self.group = SlotGroup((self.slot.address,), slots.KEY, 1, "here")
        self.epochs = itertools.count()
        self.clock = MovableClock()
        self.job_storage.log.begin_incarnation("", 1)
        # A stop that is asked for rightly ends the job; here the next request comes.
        self.job_storage.close_lineage = lambda *_: None  # type: ignore[method-assign]
        self.checkpoints = Checkpoints(
            self.group, self.job_storage, settings_of(folder).checkpoint, self.requests, self.view, self.clock,
            phases.Phases("driver", clock.SystemClock(), {}), slots.KEY_SPACE, base=-1,
        )  # fmt: skip
        targets = Targets(S3Settings(), lambda: self.job_storage.lineage.store.url, answer_s=TIMEOUT_S)
        self.control = DriverControl(
            self.view, self.requests, lambda trigger_id: earlier_savepoint.find(claimed.log.refresh(), trigger_id),
            lambda: None, claimed.ids.peek, targets.require,
        )  # fmt: skip

    def epoch(self) -> None:
        """One with rows, and what is due or asked for at its end. Raises what would end the incarnation."""
        number = next(self.epochs)
        self.slot.epoch(number, slots.rows(("a", 1)))
        self.view.note_epoch(number, 1, 0, 0.1)
        stop = self.checkpoints.stop_requested()
        if stop is None:
            self.checkpoints.after_commit(number, Watermarks(()), CapturedPosition, changed=False)
        else:
            self.checkpoints.start(number, Watermarks(()), CapturedPosition(), stop)
        self.checkpoints.wait()
        self.checkpoints.require_sound()

    def close(self) -> None:
        self.group.close()
        self.slot.close()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    running = Job(tmp_path_factory.mktemp("job"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def caller(job: Job) -> Iterator[httpx.Client]:
    token = {"Authorization": f"Bearer {control_job.TOKEN}"}
    with (
        server.ControlServer(job.control, keys.of_token(control_job.TOKEN)) as running,
        httpx.Client(base_url=running.address, headers=token, trust_env=False, timeout=TIMEOUT_S) as http,
    ):
        yield http


@pytest.mark.fault(
    broken="a request of arbitrary method, path, query, headers, encoding and body, targets of savepoints among them",
    when="the job runs",
    expected="it gets an answer of its own, no internal error; the savepoint fails or completes; the job runs on",
)
@pytest.mark.fault_on("a driver")
@settings(max_examples=tried(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"]),
    path=st.one_of(st.sampled_from(PATHS), text.map(lambda part: f"/v1/savepoints/{part}"),
                   st.integers().map(lambda number: f"/v1/checkpoints/{number}")),
    query=queries, body=bodies, extra=headers,
)  # fmt: skip
def test_whatever_is_asked_the_job_answers_and_runs_on(
    job: Job, caller: httpx.Client, tmp_path_factory: pytest.TempPathFactory,
    method: str, path: str, query: dict[str, str], body: bytes, extra: dict[str, str],
) -> None:  # fmt: skip
    try:
        answer = caller.request(method, path, params=query, content=body, headers=extra)
    except (httpx.InvalidURL, UnicodeError, httpx.LocalProtocolError):
        return  # nothing was sent
    assert answer.status_code != 500, answer.text
    _runs_on(job, caller)


@settings(max_examples=tried(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(asked=savepoints)
def test_whatever_savepoint_is_asked_for_the_job_answers_and_runs_on(
    job: Job, caller: httpx.Client, asked: dict[str, Any]
) -> None:
    target = asked.get("target_directory")
    if isinstance(target, str) and target.startswith("/proc") and os.getuid() == 0:
        asked = {**asked, "target_directory": "/dev/null/x"}
    answer = caller.post("/v1/savepoints", json=asked)
    assert answer.status_code in (202, 400, 409, 422, 502), answer.text
    _runs_on(job, caller)


def _runs_on(job: Job, caller: httpx.Client) -> None:
    for _ in range(20):
        job.epoch()
        if job.requests.next_open() is None:
            break
    assert job.requests.next_open() is None
    assert caller.get("/livez").status_code == 200
    assert caller.get("/v1/status").json()["phase"] == "RUNNING"
    assert job.requests.ending() is False


@pytest.mark.fault(
    broken="a savepoint goes to {url}, which nobody checked before",
    when="it is taken together with a checkpoint",
    expected="the savepoint fails with the reason; the checkpoint completes and the job runs on",
)
@pytest.mark.fault_on("a driver")
@pytest.mark.parametrize("url", ["gs://x", "s3://user:secret@bucket/x", "file://[", "/dev/null/x"])
def test_a_target_that_was_not_checked_fails_its_savepoint_alone(job: Job, url: str) -> None:
    before = job.view.status().checkpoints_completed
    trigger = f"t-{random.getrandbits(40):x}"
    job.requests.add(SavepointTrigger(trigger_id=trigger, target_directory=url))
    job.epoch()
    told = job.requests.find(trigger)
    assert told is not None
    assert (told.status, bool(told.failure)) == (SavepointPhase.FAILED, True)
    assert "secret" not in str(told)
    assert job.view.status().checkpoints_completed == before + 1
    job.job_storage.savepoints.sweep()


@pytest.mark.fault(
    broken="the folder that a savepoint goes to becomes a file",
    when="the slots have stored it, before its metadata is written",
    expected="the savepoint fails; the checkpoint completes, and the next start goes on without that folder",
)
@pytest.mark.fault_on("a driver")
def test_a_target_that_is_lost_on_the_way_fails_its_savepoint_alone(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, target = job.job_storage.write_savepoint, tmp_path / "target"
    before = job.view.status().checkpoints_completed

    def lose(*arguments: Any) -> Any:
        target.rename(tmp_path / "elsewhere")
        target.write_text("a file")
        job.clock.ahead_s += TIMEOUT_S  # whoever waits for the folder to come back gives up now
        return write(*arguments)

    monkeypatch.setattr(job.job_storage, "write_savepoint", lose)
    job.requests.add(SavepointTrigger(trigger_id="lost", target_directory=str(target)))
    job.epoch()
    told = job.requests.find("lost")
    assert told is not None and told.status == SavepointPhase.FAILED
    assert job.view.status().checkpoints_completed == before + 1
    job.epoch()
    number = job.job_storage.log.begin_incarnation("", 1)
    job.job_storage.savepoints.sweep()  # raises nothing, and keeps it for later
    assert any(str(target) in url for url in job.job_storage.log.refresh().doomed_savepoints)
    job.checkpoints._group.incarnation = job.group.incarnation = number


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("gs://x", "scheme 'gs'"),
        ("http://user:secret@minio:9000/x", "'…@minio:9000/x' has the scheme 'http'"),
        ("http://user:se/secret@minio:9000/x", "'…@minio:9000/x' has the scheme 'http'"),
        ("s3://user:secret@bucket/x", "holds credentials"),
        ("s3://", "names no bucket"),
        ("relative/path", "relative to a folder"),
        ("file:relative", "relative to a folder"),
        ("/a\0b", "characters"),
        ("file:///%00", "characters"),
        ("s3://bucket/../x", "segments"),
        ("file:///storage/lineage-1/savepoints", "job's own state"),
        ("/storage/x/../lineage-1", "job's own state"),
        ("file://[", "not a URL"),
        (f"/storage/{'n' * 256}", "256 bytes, a file's name may have 255"),
        ("/" + "n/" * 2100, "a path may have 4095"),
    ],
)
def test_a_target_that_no_savepoint_can_lie_in_is_refused_by_its_name(url: str, word: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=word) as refused:
        check_name(url, "file:///storage/lineage-1")
    assert "secret" not in str(refused.value)
    assert check_name("/storage/lineage-10", "file:///storage/lineage-1") == "file:///storage/lineage-10"


def test_a_target_that_cannot_be_written_to_is_refused_before_the_request_is_taken(
    job: Job, caller: httpx.Client, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    for url, status in (("gs://x", 400), (str(tmp_path / "file"), 502)):
        answer = caller.post("/v1/savepoints", json={"trigger_id": "refused", "target_directory": url})
        assert (answer.status_code, job.requests.find("refused")) == (status, None), answer.text


def test_a_storage_that_does_not_answer_does_not_hold_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    targets = Targets(S3Settings(), lambda: "", answer_s=0.05)
    monkeypatch.setattr(targets, "_write", lambda url: go_on.wait(30))
    for _ in range(10):
        targets.require("s3://bucket/x")
    go_on.set()


def test_requests_without_end_are_refused_and_ended_ones_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_requests, "MOST_OPEN", 3)
    monkeypatch.setattr(driver_requests, "MOST_ENDED", 5)
    waiting = Requests()
    for number in range(3):
        waiting.add(SavepointTrigger(trigger_id=f"t{number}"))
    with pytest.raises(port.TooManyRequests, match="3 savepoints wait"):
        waiting.add(SavepointTrigger(trigger_id="one-more"))
    for number in range(50):
        waiting.update(f"t{number}", SavepointPhase.FAILED)
        waiting.add(SavepointTrigger(trigger_id=f"t{number + 3}"))
    assert len(waiting._savepoints) <= 3 + 5
