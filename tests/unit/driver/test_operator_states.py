"""Operator state as the driver shows it: over all slots, and with a word when little room is left."""

from __future__ import annotations

from sparkstate.control import documents
from sparkstate.control.documents import OperatorStateSize, SlotMemory
from sparkstate.driver import operator_states
from sparkstate.slots import protocol

MIB = 1 << 20


def size(
    state: str, kind: str, elements: int, size_bytes: int, operator: str = "judged"
) -> OperatorStateSize:
    return OperatorStateSize(
        operator=operator, state=state, kind=kind, elements=elements, size_bytes=size_bytes
    )


def slot(*sizes: OperatorStateSize, limit: int | None = 32 * MIB, index: int = 0) -> documents.SlotStatus:
    used = sum(one.size_bytes for one in sizes)
    memory = SlotMemory(operator_state=used, operator_state_limit=limit)
    return documents.SlotStatus(index=index, memory=memory, operator_states=sizes)


def test_a_slots_answer_becomes_its_documents() -> None:
    told = protocol.OperatorStateSize(
        operator="judged", state="rules", mode="broadcast", elements=3, size_bytes=9
    )
    reply = protocol.SlotStatus(
        slot=0, pid=7, shards=(0,), state_bytes=9, state_rows=1, rss_bytes=10, memory={}, metrics={},
        operator_states=(told,),
    )  # fmt: skip
    assert operator_states.of_slot(reply) == (size("rules", "broadcast", 3, 9),)


def test_lists_add_up_and_a_map_that_every_slot_has_is_counted_once() -> None:
    found = operator_states.over_slots(
        "judged",
        [
            size("rules", "broadcast", 3, 100),
            size("buffer", "split", 5, 70),
            size("rules", "broadcast", 3, 120),
            size("buffer", "split", 2, 30),
            size("rules", "broadcast", 8, 1, operator="other"),
        ],
    )
    assert [(one.name, one.elements, one.size_bytes, one.largest_bytes) for one in found] == [
        ("rules", 3, 220, 120),
        ("buffer", 7, 100, 70),
    ]


def test_a_slot_with_little_room_left_is_told_once_and_names_the_largest_state() -> None:
    nearly = slot(size("small", "split", 1, MIB), size("rules", "broadcast", 9, 25 * MIB))
    told = operator_states.notice([slot(size("rules", "broadcast", 9, MIB)), nearly])
    assert told is not None
    assert "more than 80 % of operatorStateMemoryPerSlot (32 MiB)" in told
    assert "'rules' of operator 'judged'" in told
    more = slot(size("small", "split", 2, 2 * MIB), size("rules", "broadcast", 11, 26 * MIB))
    assert operator_states.notice([more]) == told


def test_without_pressure_or_without_a_limit_nothing_is_said() -> None:
    assert operator_states.notice([]) is None
    assert operator_states.notice([slot(size("rules", "broadcast", 9, 25 * MIB))]) is None
    unbounded = [slot(size("rules", "broadcast", 9, 90 * MIB), limit=None)]
    assert operator_states.notice(unbounded) is operator_states.current(None, unbounded, 7) is None


def filled(mebibytes: int, index: int = 0, state: str = "rules") -> documents.SlotStatus:
    return slot(size(state, "broadcast", 9, mebibytes * MIB), index=index)


def test_the_notice_for_programs_has_the_figures_of_the_fullest_slot_since_it_began() -> None:
    assert operator_states.current(None, [filled(25)], 1_000) is None
    first = operator_states.current(None, [filled(26), filled(28, 1, "buffer")], 1_000)
    assert first is not None
    assert (first.slot, first.operator, first.state) == (1, "judged", "buffer")
    assert (first.used_bytes, first.limit_bytes) == (28 * MIB, 32 * MIB)
    assert (first.since_ms, first.seen_ms) == (1_000, 1_000)
    less = operator_states.current(first, [filled(27), filled(3, 1, "buffer")], 2_000)
    assert less == first.model_copy(update={"seen_ms": 2_000})
    more = operator_states.current(less, [filled(31)], 3_000)
    assert more is not None
    assert (more.slot, more.state, more.used_bytes, more.since_ms) == (0, "rules", 31 * MIB, 1_000)


def test_a_buffer_that_fills_and_empties_gives_one_notice_which_ends_in_time() -> None:
    begun = operator_states.current(None, [filled(30)], 1_000)
    quiet = 1_000 + operator_states.HOLDS_MS
    assert operator_states.current(begun, [filled(1)], quiet - 1) == begun
    assert operator_states.current(begun, [filled(1)], quiet) is None
    again = operator_states.current(begun, [filled(29)], quiet - 1)
    assert operator_states.current(again, [], quiet) == again
