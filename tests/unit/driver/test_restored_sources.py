"""A restore goes on at the positions of the sources that the operators read before, or says which ones are others."""

from __future__ import annotations

from typing import Any

import pytest
from support.storage.checkpoints import inline_shard, metadata

from sparkstate import errors
from sparkstate.checkpoint.metadata import checksum
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.driver import restoring
from sparkstate.functions import KeyedProcessFunction
from sparkstate.handles import FileHandle
from sparkstate.spark import graph


def declared(*inputs: str, order: str) -> graph.Graph:
    """Operators ``uid:source`` or ``uid:first,second`` over sources that were declared in this order."""
    found = graph.Graph()
    numbers = {name: found.add_sources([graph.Source(frame=f"frame {name}")]) for name in order}  # type: ignore[arg-type]
    for text in inputs:
        uid, _, names = text.partition(":")
        first, *others = (numbers[name] for name in names.split(","))
        second = [graph.Input(keys=("k",), upstream=None, event_time=None, source=n) for n in others]
        found.add(
            graph.Operator(
                uid=uid,
                function=KeyedProcessFunction(),
                keys=("k",),
                upstream=None,
                event_time=None,
                output_schema="k string",
                source=first,
                second=second[0] if second else None,
            )
        )
    return found


def inline_file(data: bytes) -> FileHandle:
    return FileHandle(name="source-position", size=len(data), checksum=checksum(data), inline=data)


def restored(before: graph.Graph, **changes: Any) -> RestoredSnapshot:
    fields = {
        "source_position": inline_file(b"position"),
        "source_readers": before.source_readers(),
    } | changes
    return RestoredSnapshot(
        RestorePlan("checkpoint", "", "s3://b/chk-1"), metadata((inline_shard(0),), **fields)
    )


BEFORE = declared("matched:o,p", "counted:o", "priced:o,r", order="opr")


def test_the_same_sources_in_the_same_order_are_restored_whatever_else_changed() -> None:
    restoring.require_sources(restored(BEFORE), BEFORE)
    restoring.require_sources(restored(BEFORE), declared("priced:o,r", "new:p", order="opr"))
    restoring.require_sources(restored(BEFORE), declared("other:o,p", order="opr"))


def test_calls_in_another_order_are_refused_with_the_operators_that_would_read_others() -> None:
    with pytest.raises(errors.RestoreBlocked) as refused:
        restoring.require_sources(
            restored(BEFORE), declared("matched:o,p", "counted:o", "priced:o,r", order="por")
        )
    assert "input 0 of 'matched' reads source 1 and read source 0" in str(refused.value)
    assert "input 1 of 'matched' reads source 0 and read source 1" in str(refused.value)
    assert "'priced' reads source 2" not in str(refused.value)
    assert "back into their order" in str(refused.value)


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (declared("matched:o,p", "counted:o", "late:x", order="opx"), ""),
        (declared("matched:o,p", "priced:o,r", "late:x", order="oprx"), "by late/0, no longer by counted/0"),
        (declared("matched:o,p", order="op"), "by no operator, no longer by counted/0, priced/0, priced/1"),
    ],
    ids=["a source with new readers alone, perhaps renamed ones", "one more", "one less"],
)
def test_another_number_of_sources_is_refused_with_who_reads_the_new_ones(
    now: graph.Graph, told: str
) -> None:
    if not told:
        restoring.require_sources(restored(BEFORE), now)
        return
    with pytest.raises(errors.RestoreBlocked, match=told):
        restoring.require_sources(restored(BEFORE), now)


def test_snapshots_of_older_versions_and_those_without_a_position_are_not_looked_at() -> None:
    now = declared("matched:o,p", order="po")
    restoring.require_sources(restored(BEFORE, source_readers=()), now)
    restoring.require_sources(restored(BEFORE, source_position=None), now)
    restoring.require_sources(restored(BEFORE, source_position=inline_file(b"")), now)
    restoring.require_sources(RestoredSnapshot(RestorePlan("empty", "")), now)


def test_several_frames_of_one_input_are_as_many_sources() -> None:
    found = graph.Graph()
    found.add_sources([graph.Source(frame=1), graph.Source(frame=2)])  # type: ignore[arg-type]
    assert found.source_readers() == ((), ())
    assert BEFORE.source_readers() == (
        ("matched/0", "counted/0", "priced/0"),
        ("matched/1",),
        ("priced/1",),
    )
