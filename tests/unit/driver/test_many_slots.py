"""What the driver asks of many slots at a checkpoint, and how often: real slots, a real storage."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.slots import slots
from support.slots.running import Running

from sparkstate.sinks import publication
from sparkstate.slots import protocol
from sparkstate.slots.runtime import SlotRuntime

SLOTS = 3
SLOW_S = 1.5
"""Longer than a slot keeps a question, so that it has to be asked twice."""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path, SLOTS)
    yield made
    made.close()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, protocol.SnapshotState]]:
    """What the slots have answered when they were asked for a snapshot."""
    found = []
    plain = SlotRuntime.snapshot_state

    def noted(self: SlotRuntime, request: protocol.SnapshotPoll) -> protocol.SnapshotState:
        reply = plain(self, request)
        found.append((self.plan.slot, reply))
        return reply

    monkeypatch.setattr(SlotRuntime, "snapshot_state", noted)
    return found


def runtime(slot: slots.Slot) -> Any:
    return slot.server.slot.runtime


def feed(running: Running, epoch: int) -> None:
    for number, slot in enumerate(running.slots):
        group = slots.KEY_SPACE.key_groups_of_shard(slots.KEY_SPACE.shards_of_slot(number, SLOTS)[0]).start
        slot.epoch(epoch, slots.rows((f"key-{number}", 1), group=group))


def test_while_one_slot_stores_its_files_the_others_name_theirs_once(
    running: Running, answers: list[tuple[int, protocol.SnapshotState]]
) -> None:
    """The handles of a slot can be megabytes; a poll of all slots sent them fifty times a second."""
    feed(running, 0)
    over = threading.Event()
    runtime(running.slots[-1])._snapshots.worker._upload.submit(over.wait, SLOW_S)
    running.start(0).settle()
    assert over.is_set() is False  # it was slow by itself
    named = [slot for slot, reply in answers if reply.shards]
    assert sorted(named) == list(range(SLOTS))
    asked = [slot for slot, _ in answers]
    assert [asked.count(slot) for slot in range(SLOTS)] == [1, 1, 2]


def test_a_checkpoint_ends_when_its_slots_do_and_not_at_the_next_question(
    running: Running, answers: list[tuple[int, protocol.SnapshotState]]
) -> None:
    feed(running, 0)
    started = running.start(0)
    assert started.ended.wait(0.9), "the slots were done at once; none was to keep its answer for a second"
    started.settle()


def test_what_the_slots_have_staged_is_published_side_by_side(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file takes eight requests; a hundred slots, one after another, took ten seconds on an object store."""
    feed(running, 0)
    together = threading.Barrier(SLOTS)
    plain = publication.publish

    def publish(*arguments: Any, **options: Any) -> bool:
        together.wait(20)
        return plain(*arguments, **options)

    monkeypatch.setattr(publication, "publish", publish)
    running.start(0).settle()
    assert len(list(running.out.glob("part-*"))) == SLOTS
    assert running.job_storage.log.state.published == 1
