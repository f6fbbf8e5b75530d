"""The harness: its documented example, and what it does beyond pushing and reading."""

from __future__ import annotations

import doctest
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from support.backends import own_backends

from sparkstate import errors
from sparkstate.functions import KeyedProcessFunction, OutputTag
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness, ManualClock, harness

EVEN = OutputTag("even")


class Count(KeyedProcessFunction):
    opened = closed = 0

    def open(self, ctx):
        self.opened += 1
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        if value.n < 0:
            raise ValueError("negative")
        if value.n % 2 == 0:
            yield EVEN, value.n
        yield value.word, self.count.value()

    def close(self):
        self.closed += 1


def make(function=None, **options):
    return KeyedProcessHarness(
        function or Count(), key=lambda row: row.word, key_type=Types.STRING(), **options
    )


def test_the_example_in_its_documentation_is_true():
    result = doctest.testmod(harness)
    assert result.attempted == 5
    assert result.failed == 0


def test_side_outputs_are_read_by_tag_or_id():
    with make() as made:
        made.process_elements([({"word": "a", "n": n}, None) for n in (1, 2, 4)])
        assert made.output() == [("a", 1), ("a", 2), ("a", 3)]
        assert made.side_output(EVEN) == made.side_output("even") == [2, 4]
        made.clear_output()
        assert made.output() == made.side_output(EVEN) == []


class Calls(KeyedProcessFunction):
    """Counts the calls for each key; a timer yields the key and its count."""

    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()


def make_composite(backend):
    key_type = Types.TUPLE([Types.STRING(), Types.LONG()])
    return KeyedProcessHarness(Calls(), key=lambda row: (row.word, row.n), key_type=key_type, backend=backend)


@pytest.mark.parametrize(("backend", "other"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_the_fields_of_a_composite_key_may_be_null_as_in_a_job(backend, other):
    keys = [("a", None), (None, 1), (None, None), ("a", None), ("a", 1)]
    counts = {("a", None): 2, (None, 1): 1, (None, None): 1, ("a", 1): 1}
    with make_composite(backend) as made, make_composite(other) as after:
        made.process_elements([({"word": word, "n": n}, None) for word, n in keys])
        after.restore(made.snapshot())
        for opened in (made, after):
            assert {key: opened.state("count", key) for key in counts} == counts
            assert all(len(opened.event_timers(key)) == 1 for key in counts)
            opened.process_watermark(5)
            assert dict(opened.output()) == counts


def test_a_composite_key_has_as_many_fields_as_its_type():
    with make_composite("hashmap") as made:
        for key in (("a",), ("a", 1, 1), "a"):
            with pytest.raises(errors.SerializationError, match="does not fit the declared type TUPLE"):
                made.state("count", key)


def test_late_and_rejected_rows_go_to_their_outputs():
    with make(late_tag="late", on_error="side-output") as made:
        made.process_watermark(10)
        made.process_element({"word": "a", "n": 1}, timestamp=10)
        made.process_element({"word": "a", "n": -1}, timestamp=11)
        assert made.output() == []
        assert [row.n for row in made.side_output("late")] == [1]
        ((word, n, error),) = made.side_output("errors")
        assert (word, n) == ("a", -1)
        assert "ValueError: negative" in error
        assert made.state("count", "a") is None


def test_elements_of_one_epoch_are_sorted_if_asked_for():
    with make(sort_by_event_time=True) as made:
        made.process_elements([({"word": w, "n": 1}, t) for w, t in (("b", 5), ("a", 1), ("c", None))])
        assert [row[0] for row in made.output()] == ["c", "a", "b"]


@pytest.mark.parametrize("target", ["hashmap", "rocksdb"])
def test_a_snapshot_is_restored_into_either_backend_and_opens_the_function_again(target):
    if target == "rocksdb":
        pytest.importorskip("rocksdict")
    function = Count()
    with make() as made, make(function, backend=target) as restored:
        made.process_element({"word": "a", "n": 1}, timestamp=1)
        made.process_watermark(7)
        snapshot = made.snapshot()
        made.process_element({"word": "a", "n": 1}, timestamp=9)
        restored.restore(snapshot)
        assert restored.current_watermark() == 7
        assert (function.opened, function.closed) == (2, 1)
        restored.process_element({"word": "a", "n": 1}, timestamp=9)
        assert restored.output() == [("a", 2)]
        made.restore(snapshot)
        assert made.state("count", "a") == 1


class FailsToClose(Count):
    def close(self):
        raise ValueError("the connection is gone")


def test_stores_are_closed_and_files_deleted_although_the_function_raises_on_being_closed():
    pytest.importorskip("rocksdict")
    made = make(FailsToClose(), backend="rocksdb", parallelism=2)
    made.process_element({"word": "a", "n": 1}, timestamp=1)
    stores, folder = list(made._stores.values()), Path(made._folder.name)
    assert any(store.database() is not None for store in stores)
    with pytest.raises(errors.UserCodeError, match=r"close\(\) raised ValueError: the connection is gone"):
        made.close()
    assert all(store.database() is None for store in stores)
    assert not folder.exists()


class FailsToOpen(Count):
    def open(self, ctx):
        super().open(ctx)
        raise ValueError("no connection")


class Watched(own_backends.MemoryBackend):
    """Tells what was opened and closed."""

    told: ClassVar[list[str]] = []

    def open_rows(self, directory):
        told = self.told
        told.append("open")

        class Rows(own_backends.MemoryRows):
            def close(self):
                told.append("closed")

        return Rows()

    def close(self):
        self.told.append("factory closed")


def test_nothing_stays_open_of_a_harness_whose_function_cannot_be_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Watched, "told", [])
    with pytest.raises(errors.UserCodeError, match=r"open\(\) raised ValueError: no connection"):
        make(FailsToOpen(), backend=Watched)
    assert Watched.told == ["open", "open", "closed", "closed", "factory closed"]
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_of_another_number_of_shards_is_refused():
    with make(shards=2) as made, make(shards=4) as other, pytest.raises(ValueError, match="2 shards"):
        other.restore(made.snapshot())


def test_the_manual_clock_moves_only_forwards():
    clock = ManualClock(5)
    clock.sleep(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (1505, 1.505)
    with pytest.raises(ValueError, match="go back"):
        clock.set(1)
