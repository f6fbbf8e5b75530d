"""A slot on a state backend of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.slots import slots

from sparkstate import errors
from sparkstate.slots import protocol

OWN = "support.backends.own_backends"


def test_figures_of_an_own_backend_are_told_apart_from_rocksdbs(tmp_path: Path) -> None:
    slot = slots.Slot(tmp_path / "slot", slots.plan(tmp_path, backend=f"{OWN}:MeasuringBackend"))
    slot.restore()
    told = slot.client.call(protocol.Status(), protocol.SlotStatus)
    assert dict(told.metrics) == {"backend.open-files": 3.0}
    slot.close()


@pytest.mark.parametrize(("before", "after"), [("MemoryBackend", "hashmap"), ("hashmap", "MemoryBackend")])
def test_a_checkpoint_moves_between_an_own_backend_and_hashmap(
    tmp_path: Path, before: str, after: str
) -> None:
    first = slots.Slot(tmp_path / "slots" / "1-0", slots.plan(tmp_path, backend=_named(before)))
    first.restore()
    first.epoch(0, slots.rows(("a", 1), ("b", 2)))
    taken = first.snapshot(1, 0)
    first.close()
    plan = slots.plan(tmp_path, incarnation=2, backend=_named(after))
    second = slots.Slot(tmp_path / "slots" / "2-0", plan)
    second.restore(*taken.shards, url=str(tmp_path / "storage" / slots.LINEAGE), checkpoint_id=1)
    second.epoch(1, slots.rows(("a", 10)))
    assert second.value("a") == "11"
    assert second.value("b") == "2"
    second.close()


@pytest.mark.parametrize(
    ("name", "error"),
    [("NoBackend", errors.BackendRefused), ("RaisingBackend", errors.BackendRefused),
     ("AwayBackend", errors.BackendUnavailable)],
)  # fmt: skip
def test_a_class_that_fails_in_a_slot_fails_with_the_same_error(
    tmp_path: Path, name: str, error: type[errors.SparkstateError]
) -> None:
    with pytest.raises(error, match=f"own_backends:{name}"):
        slots.Slot(tmp_path / "slot", slots.plan(tmp_path, backend=f"{OWN}:{name}"))


def _named(backend: str) -> str:
    return backend if backend == "hashmap" else f"{OWN}:{backend}"


@pytest.mark.timeout(60)
def test_a_view_that_cannot_be_released_fails_its_snapshot_and_keeps_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver would wait for the end of the snapshot otherwise, and later say that the storage is slow."""
    slot = slots.Slot(
        tmp_path / "slot", slots.plan(tmp_path, backend="support.backends.clinging_backend:ClingingBackend")
    )
    slot.restore()
    slot.epoch(0, slots.rows(("a", 1), ("b", 2)))
    with pytest.raises(AssertionError, match="releasing snapshot 1 failed: OSError: this view stays"):
        slot.snapshot(1, 0)
    others = [one for one in caplog.messages if "OSError: this view stays, after an earlier error" in one]
    assert len(others) == 3, "the views of the other three shards were to be released too"
    slot.close()
