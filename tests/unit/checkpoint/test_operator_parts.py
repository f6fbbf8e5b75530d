"""The file of a slot's operator state: read as it was written, or refused by name; and what each slot gets of it."""

from __future__ import annotations

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from sparkstate import errors
from sparkstate.checkpoint import operator_parts
from sparkstate.checkpoint.operator_parts import OperatorPart, StoredState
from sparkstate.log import framing


def state(mode: str = "split", *values: bytes, **more: object) -> StoredState:
    fields = {"uid": "op", "name": "s", "mode": mode, "value_type": "LONG", "values": values}
    return msgspec.convert(fields | more, StoredState)


def part(*states: StoredState, slot: int = 0, slots: int = 1) -> OperatorPart:
    return OperatorPart(slot=slot, slots=slots, states=states)


FULL = part(
    state("split", b"\x00\x01", b"\x00\x02"),
    state("union", b"\x00\x03", name="u"),
    state("broadcast", b"\x00\x04", b"", name="b", key_type="STRING", keys=(b"\x01a\0\0", b"\x01b\0\0")),
    slot=1,
    slots=3,
)


def test_what_is_written_is_read_and_the_bytes_are_those_of_the_documented_format() -> None:
    data = operator_parts.encode(FULL)
    assert operator_parts.decode(data, "file") == FULL
    assert (data[:4], data[4:6]) == (b"SSOS", b"\x00\x01")
    plain = msgspec.msgpack.decode(data[framing.HEAD_SIZE :])
    assert plain["states"][2] == {
        "uid": "op",
        "name": "b",
        "mode": "broadcast",
        "value_type": "LONG",
        "key_type": "STRING",
        "values": [b"\x00\x04", b""],
        "keys": [b"\x01a\0\0", b"\x01b\0\0"],
        "kept": False,
    }


def test_a_byte_that_was_changed_or_cut_off_anywhere_is_noticed() -> None:
    data = operator_parts.encode(FULL)
    for position in range(len(data)):
        if position not in (6, 7):  # reserved
            damaged = bytearray(data)
            damaged[position] ^= 0xFF
            with pytest.raises((errors.CorruptData, errors.UnknownFormat), match="the file"):
                operator_parts.decode(bytes(damaged), "the file")
        with pytest.raises(errors.CorruptData, match="the file"):
            operator_parts.decode(data[:position], "the file")


def test_a_later_version_is_no_damage() -> None:
    data = bytearray(operator_parts.encode(FULL))
    data[5] = operator_parts.VERSION + 1
    with pytest.raises(errors.UnknownFormat, match="a newer one"):
        operator_parts.decode(bytes(data), "file")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        pytest.param(part(slot=2, slots=2), "of slot 2 of 2", id="slot"),
        pytest.param(part(state(), state()), "has a state twice", id="twice"),
        pytest.param(part(state("union"), state(value_type="INT")), "has a state twice", id="two-modes"),
        pytest.param(part(state("split", kept=True)), "is split and marked as kept", id="kept"),
        pytest.param(part(state(name="")), "a name of 0 characters", id="name"),
        pytest.param(part(state(value_type="LONGS")), "a type that cannot be read", id="type"),
        pytest.param(part(state("broadcast")), "broadcast and has the key type none", id="no-key-type"),
        pytest.param(part(state(key_type="LONG")), "split and has the key type LONG", id="key-type"),
        pytest.param(
            part(state("broadcast", key_type="LIST<LONG>")),
            "key type LIST<LONG>, which cannot be",
            id="no-key",
        ),
        pytest.param(
            part(state("broadcast", b"", key_type="LONG")), "0 keys for 1 values", id="missing-keys"
        ),
        pytest.param(part(state("union", b"\0\1", b"")), "an element without a value", id="empty"),
        pytest.param(part(state(value_type="LIST<" * 100_000)), "cannot be read", id="deep"),
    ],
)
def test_a_part_that_contradicts_itself_is_refused(wrong: OperatorPart, problem: str) -> None:
    with pytest.raises(errors.CorruptData, match=problem):
        operator_parts.decode(operator_parts.encode(wrong), "file")


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
NEARLY = st.fixed_dictionaries(
    {"slot": st.integers(-1, 2) | ANYTHING, "slots": st.integers(-1, 2) | ANYTHING},
    optional={
        "states": st.lists(
            st.fixed_dictionaries(
                {"uid": st.text(max_size=2), "name": st.text(max_size=2) | ANYTHING},
                optional={
                    "mode": st.sampled_from(["split", "union", "broadcast", "other"]),
                    "value_type": st.sampled_from(
                        ["LONG", "LIST<LONG", "", "MAP<LONG>", 'ROW<"a":LONG>', "ROW<>"]
                    )
                    | st.text(max_size=9),
                    "key_type": st.sampled_from(["", "LONG", "LIST<LONG>", "TUPLE<>"]),
                    "values": st.lists(st.binary(max_size=3), max_size=3) | ANYTHING,
                    "keys": st.lists(st.binary(max_size=3), max_size=3) | ANYTHING,
                    "kept": st.booleans() | ANYTHING,
                },
            ),
            max_size=2,
        )
    },
)


@given(payload=NEARLY | ANYTHING)
def test_whatever_the_payload_is_it_is_read_or_refused_as_damage(payload: object) -> None:
    data = framing.frame(operator_parts.MAGIC, operator_parts.VERSION, msgspec.msgpack.encode(payload))
    try:
        found = operator_parts.decode(data, "the file")
    except errors.CorruptData as error:
        told = str(error)
    else:
        told = "the file"
        assert operator_parts.decode(operator_parts.encode(found), "the file") == found
    assert told.startswith("the file")


def test_parts_of_another_snapshot_or_of_another_slot_are_refused() -> None:
    mine = [part(state(), slot=slot, slots=2) for slot in range(2)]
    operator_parts.check_together(mine, ["a", "b"])
    with pytest.raises(
        errors.CorruptData, match="b is the operator state of slot 0 of 2, not of slot 1 of 2"
    ):
        operator_parts.check_together([mine[0], mine[0]], ["a", "b"])
    with pytest.raises(
        errors.CorruptData, match="a is the operator state of slot 0 of 2, not of slot 0 of 1"
    ):
        operator_parts.check_together(mine[:1], ["a"])
    one, other = (
        part(state("union", value_type=kind), slot=slot, slots=2) for slot, kind in enumerate(["LONG", "INT"])
    )
    told = "b has state 's' of operator 'op' as union of INT, another slot's file as union of LONG"
    with pytest.raises(errors.CorruptData, match=told):
        operator_parts.check_together([one, other], ["a", "b"])
    with pytest.raises(errors.CorruptData, match="as split, another slot's file as union of LONG"):
        operator_parts.check_together([one, part(state(), slot=1, slots=2)], ["a", "b"])


def test_with_as_many_slots_each_keeps_its_own_elements() -> None:
    parts = [part(state("split", bytes([slot])), slot=slot, slots=3) for slot in range(3)]
    assert [operator_parts.dealt_to(slot, 3, parts)[0].values for slot in range(3)] == [
        (b"\x00",),
        (b"\x01",),
        (b"\x02",),
    ]


def test_with_other_slots_elements_are_dealt_out_in_turn_and_a_slot_may_get_none() -> None:
    parts = [part(state("split", b"a", b"b"), slot=0, slots=2), part(state("split", b"c"), slot=1, slots=2)]
    assert [operator_parts.dealt_to(slot, 4, parts)[0].values for slot in range(4)] == [
        (b"a",),
        (b"b",),
        (b"c",),
        (),
    ]
    assert operator_parts.dealt_to(0, 1, parts)[0].values == (b"a", b"b", b"c")


def test_every_slot_gets_all_of_a_union_and_the_whole_broadcast_state() -> None:
    broadcast = state("broadcast", b"v", name="b", key_type="LONG", keys=(b"k",))
    parts = [
        part(state("union", b"a"), broadcast, slot=0, slots=2),
        part(state("union", b"b"), slot=1, slots=2),
    ]
    for slots in (1, 2, 3):
        for slot in range(slots):
            dealt = {each.name: each for each in operator_parts.dealt_to(slot, slots, parts)}
            assert dealt["s"].values == (b"a", b"b")
            assert dealt["b"] == broadcast


def test_a_part_without_the_mark_of_kept_lists_is_one_of_an_older_version() -> None:
    plain = {"uid": "op", "name": "s", "mode": "union", "value_type": "LONG", "values": [b"a"]}
    payload = msgspec.msgpack.encode({"slot": 0, "slots": 1, "states": [plain]})
    data = framing.frame(operator_parts.MAGIC, operator_parts.VERSION, payload)
    assert operator_parts.decode(data, "file") == part(state("union", b"a"))


def test_a_list_that_some_slots_do_not_declare_may_have_several_types_which_stay_apart() -> None:
    parts = [
        part(state("split", b"a", b"b"), slot=0, slots=2),
        part(state("split", b"c", b"d", b"e", value_type="INT"), slot=1, slots=2),
    ]
    operator_parts.check_together(parts, ["a", "b"])
    assert [operator_parts.dealt_to(slot, 2, parts) for slot in range(2)] == [each.states for each in parts]
    alone = operator_parts.dealt_to(0, 1, parts)
    assert alone == (*parts[0].states, *parts[1].states)
    assert operator_parts.decode(operator_parts.encode(part(*alone)), "file").states == alone
    assert [operator_parts.dealt_to(slot, 3, parts) for slot in (0, 1)] == [
        (state("split", b"a"), state("split", b"d", value_type="INT")),
        (state("split", b"b"), state("split", b"e", value_type="INT")),
    ]


def test_a_kept_union_gives_way_to_that_of_a_slot_which_declares_it() -> None:
    kept = part(state("union", b"a", kept=True), slot=0, slots=2)
    declared = part(state("union", b"a", b"b", value_type="INT"), slot=1, slots=2)
    operator_parts.check_together([kept, declared], ["a", "b"])
    for slot in range(2):
        assert operator_parts.dealt_to(slot, 2, [kept, declared]) == declared.states
        assert operator_parts.dealt_to(slot, 2, [kept, part(slot=1, slots=2)]) == (state("union", b"a"),)
    emptied = part(state("union"), slot=1, slots=2)
    assert operator_parts.dealt_to(0, 1, [kept, emptied]) == (state("union"),)
