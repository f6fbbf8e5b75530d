"""What a job says of itself while it goes from one incarnation to the next."""

from __future__ import annotations

from sparkstate import clock
from sparkstate.control.documents import JobIdentity
from sparkstate.driver.view import JobView
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress

REPLY = protocol.SlotStatus(
    slot=0, pid=7, shards=(0,), state_bytes=9, state_rows=1, rss_bytes=10, memory={}, metrics={}
)


def test_the_slots_of_an_incarnation_are_never_said_to_be_the_next_one_s() -> None:
    view = JobView(JobIdentity(job_uid="u", attempt=1), "job", "shop", "rocksdb", clock.SystemClock())
    view.note_incarnation(1, None, None)
    view.note_slots([SlotAddress(0, "executor-1", 7, "/s", 0)], [REPLY])
    assert [(slot.host, slot.alive) for slot in view.status().slots] == [("executor-1", True)]
    view.note_failure("SlotLost", "gone", recovering=True)
    assert [(slot.host, slot.alive) for slot in view.status().slots] == [("executor-1", False)]
    view.note_incarnation(2, None, None)
    assert view.status().slots == ()
