"""Answers of an S3 server that cannot be true, or were cut: an outage to wait for, never a wrong result."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import botocore.endpoint
import pytest
from support.storage.checkpoints import JOB
from support.storage.stores import ManualClock

from sparkstate import errors
from sparkstate.checkpoint.metadata import Committable
from sparkstate.log import LineageLog, open_lineage
from sparkstate.settings import S3Settings
from sparkstate.sinks import publication
from sparkstate.storage import open_store
from sparkstate.storage.retrying import RetryPolicy
from sparkstate_tools.servers.fault_proxy import FaultProxy, Schedule

pytestmark = [pytest.mark.fault_on("S3"), pytest.mark.s3]
PARTS = 12


@dataclass(frozen=True)
class CutAt(Schedule):
    """Every answer is cut after ``part`` twelfths."""

    part: int = 1

    def kept(self, request, nth, length):
        return max(1, length * self.part // PARTS)


@dataclass(frozen=True)
class CutAfter(Schedule):
    """Every answer is cut after ``size`` bytes."""

    size: int = 1

    def kept(self, request, nth, length):
        return min(self.size, length)


@pytest.fixture
def proxy(s3, monkeypatch):
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda seconds: None))
    with FaultProxy(s3.port) as running:
        yield running


def through(proxy, folder, attempts=1):
    settings = S3Settings(endpoint=proxy.endpoint, region="us-east-1", path_style=True)
    retry = RetryPolicy(attempts=attempts, first_pause_s=0.001)
    return open_store(f"s3://state/answers-{folder}", settings, retry=retry)


@pytest.mark.fault(
    broken="the server's answer to `{operation}` is cut, head or body",
    when="after each twelfth of it",
    expected="the right result or StorageUnavailable; never fewer bytes, a shorter listing or another error",
)
@pytest.mark.parametrize("operation", ["get", "get_file", "head", "list", "put_if_absent", "move", "delete"])
def test_an_answer_that_was_cut_gives_the_right_result_or_an_outage(
    proxy, tmp_path, operation, record_property
):
    store = through(proxy, operation)
    data = bytes(range(256)) * 8
    for name in ("a", "b", "c"):
        store.put_if_absent(name, data)
    known = {info.key: info for info in store.list("")}
    target = tmp_path / "target"

    def act(number):
        if operation == "get":
            assert store.get("a") == data
        elif operation == "get_file":
            store.get_file("a", target)
            assert target.read_bytes() == data
        elif operation == "head":
            assert store.head("a") == known["a"]
        elif operation == "list":
            assert {info.key for info in store.list("")} >= set(known)
        elif operation == "put_if_absent":
            store.put_if_absent(f"new-{number}", data)
        elif operation == "move":
            store.move(store.begin_move("a", f"moved-{number}"), "a", f"moved-{number}", len(data))
        else:
            store.delete([f"new-{number}"])

    outages = 0
    for number in range(1, PARTS):
        proxy.use(CutAt(number, rate=1.0, kinds=("torn",), part=number))
        try:
            act(number)
        except errors.StorageUnavailable:
            outages += 1
        assert not target.exists() or target.read_bytes() == data
    # What a create or a delete did is known from the first line of its answer.
    assert outages > 0 or operation in ("put_if_absent", "delete")
    proxy.use(Schedule())
    act(0)
    record_property("runs", PARTS - 1)


@pytest.mark.fault(
    broken="the server's answer to `head` is cut in the middle of a header",
    when="after each third byte of it",
    expected="the right size and time or StorageUnavailable; never a half of one",
)
def test_a_look_at_an_object_whose_answer_was_cut_anywhere_gives_no_half_values(proxy, record_property):
    store = through(proxy, "anywhere")
    store.put_if_absent("a", bytes(12_345))
    known = {info.key: info for info in store.list("")}
    outages = 0
    for size in range(2, 400, 3):
        proxy.use(CutAfter(1, rate=1.0, kinds=("torn",), size=size))
        try:
            assert store.head("a") == known["a"], size
        except errors.StorageUnavailable:
            outages += 1
    assert outages > 20
    record_property("runs", 133)


@pytest.mark.fault(
    broken="412 for a name that is free: nothing is stored, and the server says that it exists",
    when="when the log is appended to, or a job's name is first used",
    expected="StorageUnavailable, tried again; the entry is written once, nobody is fenced",
)
def test_a_refusal_of_a_free_name_is_tried_again(proxy):
    store = through(proxy, "free")
    proxy.use(Schedule(1, rate=1.0, kinds=("412",)))
    with pytest.raises(errors.StorageUnavailable, match="did not find it"):
        open_lineage(store, JOB, ManualClock(), lambda: "lineage")
    proxy.use(Schedule())
    log = LineageLog(open_lineage(store, JOB, ManualClock()).store, ManualClock())
    proxy.use(Schedule(1, rate=1.0, kinds=("412",)))
    with pytest.raises(errors.StorageUnavailable, match="did not find it"):
        log.claim(1, "me")
    proxy.use(Schedule())
    assert log.claim(1, "me").token.life == 1
    assert log.refresh().last_number == 1


@pytest.mark.fault(
    broken="the answer to a create is lost: carried out, and answered {kind}",
    when="when the log is appended to",
    expected="our own entry is recognised by its bytes: the append succeeds, once, and nobody is fenced",
)
@pytest.mark.parametrize("kind", ["lost-409", "lost-412", "lost-500", "lost-503", "cut-after", "torn"])
def test_an_append_whose_answer_was_lost_is_known_as_our_own(proxy, kind):
    store = through(proxy, f"lost-{kind}", attempts=3)
    log = LineageLog(open_lineage(store, JOB, ManualClock()).store, ManualClock())
    proxy.use(FirstTries(1, rate=1.0, kinds=(kind,)))
    claimed = log.claim(1, "me")
    assert claimed.begin_incarnation("") == 1
    proxy.use(Schedule())
    assert claimed.check().last_number == 2


class FirstTries(Schedule):
    """Breaks every other conditional write, which is each one's first try, and nothing else."""

    def fault(self, request, nth):
        first = "if-none-match" in request.headers and nth % 2 == 1
        return super().fault(request, nth) if first else None


@pytest.mark.fault(
    broken="the answer to the completion of an upload in parts is lost",
    when="when a large file is stored",
    expected="the file is stored, whole; no other error",
)
def test_a_large_file_whose_completion_was_answered_by_nobody_is_stored(proxy, tmp_path, monkeypatch):
    from sparkstate.storage import s3 as module

    source = tmp_path / "large"
    source.write_bytes(b"0123456789abcdef" * (module.SINGLE_PUT_LIMIT // 16) + b"end")
    store = through(proxy, "large", attempts=4)
    proxy.use(FirstCompletion(1, rate=1.0, kinds=("cut-after",)))
    store.put_file("large", source)
    assert any("cut-after" in line for line in proxy.happened)
    proxy.use(Schedule())
    store.get_file("large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


@pytest.mark.fault(
    broken="the storage's answer to a request of a publication is lost ({kind})",
    when="at each of them, and a reader takes the file away as soon as it appears",
    expected="the file appears once, and nothing is left beside it but a note that arrives late",
)
@pytest.mark.parametrize("kind", ["503", "lost-500", "lost-503", "cut-before", "cut-after", "late", "torn"])
def test_a_file_whose_publication_is_tried_again_appears_once(proxy, s3, kind, record_property):
    store = through(proxy, f"publication-{kind}", attempts=4)
    direct = open_store(store.url, s3.settings)
    for which in range(1, REQUESTS_OF_A_PUBLICATION + 1):
        staged = stage(direct, which)
        reader = Taking(direct, staged.final)
        proxy.use(WhileAReaderTakes(1, rate=1.0, kinds=(kind,), reader=reader, which=which))
        publication.publish(store, staged, 0)
        publication.forget(store, [staged])
        assert len(proxy.happened) == 1
        proxy.use(Schedule())
        reader()
        assert reader.taken == 1, f"request {which} was broken"
        left = [info.key for info in direct.list("")]
        assert (
            left == [] or kind == "late"
        )  # a note that arrives when it was forgotten is swept by the next driver
        direct.delete(left)
    record_property("runs", REQUESTS_OF_A_PUBLICATION)


@pytest.mark.fault(
    broken="a driver that was fenced off publishes a file that the next driver publishes and forgets meanwhile",
    when="it sleeps before each of its requests, and a reader takes the file away as soon as it appears",
    expected="the file appears once",
)
def test_two_drivers_that_publish_one_file_at_a_time_show_it_once(proxy, s3, record_property):
    store = through(proxy, "two-drivers")
    direct = open_store(store.url, s3.settings)
    for which in range(1, REQUESTS_OF_A_PUBLICATION):
        staged = stage(direct, which)
        reader, sleep = Taking(direct, staged.final), Sleep(which)
        proxy.watch = sleep
        older = threading.Thread(target=publish_as_one_that_may_be_fenced, args=(store, staged))
        older.start()
        assert sleep.begun.wait(20)
        reader()
        publication.publish(direct, staged, 0)
        reader()
        publication.forget(direct, [staged])
        sleep.over.set()
        older.join()
        reader()
        assert reader.taken == 1, f"it slept before request {which}"
        direct.delete([info.key for info in direct.list("")])
    record_property("runs", REQUESTS_OF_A_PUBLICATION - 1)


def publish_as_one_that_may_be_fenced(store, staged):
    with contextlib.suppress(
        errors.CorruptData
    ):  # nothing is left of the file, and its log is another driver's
        publication.publish(store, staged, 0)


class Sleep:
    """Holds the ``which``-th request."""

    def __init__(self, which):
        self._left = which
        self.begun, self.over = threading.Event(), threading.Event()

    def __call__(self, request):
        self._left -= 1
        if self._left == 0:
            self.begun.set()
            self.over.wait(20)


def stage(store, number):
    """A file of a committed checkpoint, as its slot has left it."""
    staged = Committable(
        sink="sum",
        slot=0,
        staged=f"staged-{number}",
        final=f"part-{number}",
        size=4,
        checksum="",
        url=store.url,
    )
    store.put_if_absent(staged.staged, b"rows")
    return staged


REQUESTS_OF_A_PUBLICATION = 9
"""Note and ticket looked for, upload begun, ticket stored, copied, completed, note, and two deletions."""


class Taking:
    """A reader that takes what has appeared, and counts the requests before which it was asked to."""

    def __init__(self, store, name):
        self._store, self._name = store, name
        self.asked = self.taken = 0

    def __call__(self):
        self.asked += 1
        if [info.key for info in self._store.list(self._name)] == [self._name]:
            self._store.delete([self._name])
            self.taken += 1
        return self.asked


@dataclass(frozen=True)
class WhileAReaderTakes(Schedule):
    """Breaks the ``which``-th request; before each of them the reader takes what has appeared."""

    reader: Taking | None = None
    which: int = 1

    def fault(self, request, nth):
        return super().fault(request, nth) if self.reader() == self.which else None


class FirstCompletion(Schedule):
    """Breaks the first request that completes an upload in parts."""

    def fault(self, request, nth):
        completes = request.words[0] == "POST" and "uploadId" in request.words[1]
        return super().fault(request, nth) if completes and nth == 1 else None
