"""What changes in epochs without rows is in a checkpoint: a real slot, whose function is called by timers alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.slots import slots
from support.slots.idle_job import IDLE_MS, IdleJob

from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.spark import feeding
from sparkstate.spark.fed_rows import FedRows, FedSlot
from sparkstate.spark.watermarks import Watermarks
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.state.ttl import StateTtlConfig, Time
from sparkstate.testing.manual_clock import ManualClock

cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["x"]))
BY_THE_CLOCK, BY_THE_WATERMARK, EXPIRES, AGAIN = 1, 2, 3, 4
"""What a row asks for: a timer of processing time, one of event time, a value that expires, a timer that sets itself
anew."""


class Waking(KeyedProcessFunction):
    """Does what its rows ask for; each timer that fires adds a thousand."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        brief = ValueStateDescriptor("brief", Types.LONG())
        brief.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        self.brief = ctx.get_state(brief)

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        self.total.update((self.total.value() or 0) + row.v)
        timers = ctx.timer_service()
        if row.v in (BY_THE_CLOCK, AGAIN):
            timers.register_processing_time_timer(10_000)
        if row.v == BY_THE_WATERMARK:
            timers.register_event_time_timer(150)
        if row.v == EXPIRES:
            self.brief.update(1)
        yield row.k, row.v

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
        total = self.total.value() + 1000
        self.total.update(total)
        if total % 1000 == AGAIN:
            ctx.timer_service().register_processing_time_timer(timestamp + 10_000)
        yield ctx.get_current_key(), total


class _Feeding:
    """Brings the rows of an epoch, which here are its frame, to the slot."""

    operator = SimpleNamespace(uid="sum", reads_batch=True, is_mixed=False, upstream=None, inputs=())

    def __init__(self, slot: slots.Slot) -> None:
        self._slot = slot

    def upstreams(self) -> Iterator[Any]:
        yield from ()

    def note(self, *_: object) -> None: ...

    def run(self, rows: pa.RecordBatch, times: feeding.EpochTimes) -> FedRows:
        self._slot.feed(times.epoch, 1, rows, follows=times.follows)
        return FedRows({0: FedSlot(1, rows.num_rows)}, {})


class Job(IdleJob):
    """Its rows are the frames of its epochs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ManualClock(0), 200)
        self._folder = folder
        feedings: Any = {"sum": _Feeding(self.running.slot)}
        self.runner._feedings = feedings

    def rest(self, seconds: float) -> None:
        """Idle epochs, one a second."""
        for _ in range(int(seconds)):
            self.time.advance(1000)
            self.run()

    def total(self) -> str:
        return self.running.slot.value("a")

    def saved(self) -> slots.Slot:
        """A slot as a restart would fill it."""
        restored = self.running.job_storage.restore_point()
        assert restored.metadata is not None and restored.store is not None
        folder = self._folder / f"again-{restored.metadata.checkpoint_id}"
        made = slots.Slot(folder / "slot", slots.plan(folder))
        made.restore(*restored.metadata.shards, url=restored.store.url)
        return made

    def saved_bytes(self) -> int:
        restored = self.running.job_storage.restore_point()
        assert restored.metadata is not None
        return sum(shard.state_size for shard in restored.metadata.shards)

    def published_rows(self) -> int:
        return sum(len(pq.read_table(path)) for path in self.running.out.glob("part-*"))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setattr(slots, "Sum", Waking)
    made = Job(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("row", "fired"),
    [(BY_THE_CLOCK, 1), (BY_THE_WATERMARK, 1), (AGAIN, 4)],
    ids=[
        "a timer of processing time",
        "one of event time, by a partition that is idle",
        "one that sets itself anew",
    ],
)
def test_what_timers_change_and_put_out_is_saved_though_no_row_comes(job: Job, row: int, fired: int) -> None:
    if row != BY_THE_WATERMARK:
        job.runner.watermarks = Watermarks(())
    job.run(slots.rows(("a", row)))
    job.rest(9)
    assert (job.completed, job.total()) == (1, str(row))
    if row == BY_THE_WATERMARK:
        job.runner.watermarks = job.runner.watermarks.advance({(0, "a"): 200}, job.time.now_ms())
    job.time.advance(IDLE_MS - job.time.now_ms())
    job.rest(10)
    assert job.total() == str(row + 1000 * fired)
    saved = job.saved()
    assert saved.value("a") == job.total()
    saved.close()
    assert job.published_rows() == 1 + fired
    before = job.completed
    job.rest(3)
    assert job.completed == before


def test_a_sweep_of_state_that_has_expired_is_saved_though_no_row_comes(job: Job) -> None:
    job.run(slots.rows(*((f"{key}", EXPIRES) for key in range(50))))
    full = job.saved_bytes()
    job.rest(5)
    assert job.completed == 2
    assert job.saved_bytes() < full
    job.rest(60)
    assert job.completed == 2, "nothing is left to sweep"
