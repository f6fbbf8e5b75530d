"""The memory of operator state: how large a state counts, and what is refused before the slot's memory is gone."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import errors
from sparkstate.operators.state.operator_handles import Changes
from sparkstate.operators.state.operator_state_memory import OperatorStateMemory
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
BUFFER = ListStateDescriptor("buffer", Types.STRING())
KIB = 1024
TEXT = "x" * KIB


def sizes(memory: OperatorStateMemory) -> dict[str, tuple[int, int]]:
    """Elements and bytes, by ``operator/state``."""
    return {f"{one.operator}/{one.state}": (one.elements, one.size_bytes) for one in memory.sizes()}


@given(
    st.lists(
        st.lists(
            st.one_of(
                st.tuples(st.sampled_from("abcdef"), st.none() | st.text(max_size=50)),
                st.just(("remove", "a")),
                st.just(("clear", "")),
            ),
            max_size=8,
        ),
        max_size=6,
    )
)
def test_a_map_weighs_what_a_fresh_one_with_its_entries_weighs(epochs: list[list[tuple[str, Any]]]) -> None:
    memory, again = OperatorStateMemory(), OperatorStateMemory()
    states = OperatorStates("op", memory=memory)
    rules = states.get_broadcast_state(RULES)
    for epoch in epochs:
        with states.at_once():
            for key, value in epoch:
                if key == "clear":
                    rules.clear()
                elif key == "remove":
                    rules.remove(value)
                else:
                    rules.put(key, value)
    fresh = OperatorStates("op", memory=again)
    with fresh.at_once():
        copy = fresh.get_broadcast_state(RULES)
        found = states.read("rules")
        assert isinstance(found, dict)
        copy.put_all(found)
    if epochs:
        assert sizes(memory) == sizes(again)


@pytest.mark.parametrize("kind", ["map", "list"])
def test_the_estimate_is_near_the_memory_that_python_takes(kind: str) -> None:
    memory = OperatorStateMemory()
    states = OperatorStates("op", memory=memory)
    rules, buffer = states.get_broadcast_state(RULES), states.get_list_state(BUFFER)
    tracemalloc.start()
    try:
        with states.at_once():
            for number in range(20_000):
                if kind == "map":
                    rules.put(f"key {number}", f"value {number}" * 5)
                else:
                    buffer.add(f"value {number}" * 5)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    told = sum(size for _, size in sizes(memory).values())
    assert 0.7 * taken < told < 1.5 * taken


def test_more_than_the_slot_has_room_for_is_refused_with_all_that_helps() -> None:
    memory = OperatorStateMemory(limit_bytes=1024 * KIB)
    OperatorStates("other", memory=memory)
    states = OperatorStates("judged", memory=memory)
    rules = states.get_broadcast_state(RULES)
    with states.at_once():
        rules.put("small", TEXT)
    with pytest.raises(errors.OperatorStateTooLarge) as raised, states.at_once():
        rules.put_all({str(number): TEXT for number in range(1024)})
    told = str(raised.value)
    for part in (
        "operator 'judged': operator state 'rules' would take 1.2 MiB",
        "spec.operatorStateMemoryPerSlot is 1.0 MiB",
        "the last checkpoint has the state",
        "Raise operatorStateMemoryPerSlot to 2Mi or more",
        "keyed state",
    ):
        assert part in told
    assert states.read("rules") == {"small": TEXT}  # as before


def test_the_states_of_all_operators_of_a_slot_share_its_memory() -> None:
    memory = OperatorStateMemory(limit_bytes=1024 * KIB)
    first, second = OperatorStates("first", memory=memory), OperatorStates("second", memory=memory)
    for states in (first, second):
        buffer = states.get_list_state(BUFFER)
        with states.at_once():
            buffer.update([TEXT] * 400)
    told = r"'buffer'.*all operator state of the slot"
    with pytest.raises(errors.OperatorStateTooLarge, match=told), second.at_once():
        second.get_list_state(BUFFER).add_all([TEXT] * 300)


def test_a_list_that_is_written_anew_for_each_checkpoint_counts_once() -> None:
    memory = OperatorStateMemory(limit_bytes=1024 * KIB)
    states = OperatorStates("op", memory=memory)
    buffer, rules = states.get_list_state(BUFFER), states.get_broadcast_state(RULES)
    for _ in range(3):
        with states.at_once():
            buffer.update([TEXT] * 400)
            rules.put_all({str(number): TEXT for number in range(400)})
    elements, size = sizes(memory)["op/buffer"]
    assert elements == 400
    assert 400 * KIB < size < 500 * KIB


def test_changes_of_an_epoch_are_refused_before_it_commits() -> None:
    states = OperatorStates("op", memory=OperatorStateMemory(limit_bytes=100 * KIB))
    rules = states.get_broadcast_state(RULES)
    changes: Changes = {}
    states.bind(changes)
    rules.put_all({str(number): TEXT for number in range(50)})
    states.require_room(changes)
    rules.put_all({str(number): TEXT for number in range(200)})
    with pytest.raises(errors.OperatorStateTooLarge, match=r"'rules' would take 0\.2 MiB"):
        states.require_room(changes)


@pytest.mark.parametrize("place", [0, 1, -1])
def test_one_large_value_among_many_small_ones_counts_once(place: int) -> None:
    values = ["small"] * 5_000
    values[place] = "x" * 600 * KIB
    memory = OperatorStateMemory(limit_bytes=3072 * KIB)
    states = OperatorStates("op", memory=memory)
    rules, buffer = states.get_broadcast_state(RULES), states.get_list_state(BUFFER)
    for state_put in (
        lambda: rules.put_all({str(number): value for number, value in enumerate(values)}),
        lambda: buffer.add_all(values),
    ):
        changes: Changes = {}
        states.bind(changes)
        state_put()
        states.require_room(changes)
        states.require_room(changes, is_end=True)
        states.commit(changes)
    counted = {name: size for name, (_, size) in sizes(memory).items()}
    assert 1000 * KIB < counted["op/rules"] < 1900 * KIB
    assert 800 * KIB < counted["op/buffer"] < 1000 * KIB


def test_large_values_amid_small_ones_are_refused_at_the_end_of_the_epoch() -> None:
    states = OperatorStates("op", memory=OperatorStateMemory(limit_bytes=2048 * KIB))
    rules = states.get_broadcast_state(RULES)
    changes: Changes = {}
    states.bind(changes)
    rules.put_all({str(number): "x" * (600 * KIB if 100 <= number < 105 else 5) for number in range(300)})
    with pytest.raises(errors.OperatorStateTooLarge, match=r"'rules' would take 3\.0 MiB"):
        states.require_room(changes, is_end=True)


def test_lists_whose_elements_take_turns_in_size_are_weighed_as_they_are() -> None:
    memory = OperatorStateMemory()
    states = OperatorStates("op", memory=memory)
    buffer = states.get_list_state(BUFFER)
    with states.at_once():
        buffer.add_all(["", TEXT] * 640)
    _, size = sizes(memory)["op/buffer"]
    assert 640 * KIB < size < 800 * KIB


def test_operators_whose_epochs_grow_together_share_the_memory_too() -> None:
    memory = OperatorStateMemory(limit_bytes=1024 * KIB)
    both = [OperatorStates(uid, memory=memory) for uid in ("first", "second")]
    open_: list[Changes] = [{}, {}]
    for states, changes in zip(both, open_, strict=True):
        buffer = states.get_list_state(BUFFER)
        states.bind(changes)
        buffer.add_all([TEXT] * 600)
    both[0].require_room(open_[0], is_end=True)
    with pytest.raises(errors.OperatorStateTooLarge, match=r"all operator state of the slot 1\.2 MiB"):
        both[1].require_room(open_[1], is_end=True)


def test_restored_state_counts_whether_it_is_declared_or_not() -> None:
    states = OperatorStates("op")
    with states.at_once():
        states.get_list_state(BUFFER).update([TEXT] * 100)
        states.get_broadcast_state(RULES).put("a", TEXT)
    stored = tuple(image.encode() for image in states.images(is_first=True))
    memory = OperatorStateMemory(limit_bytes=1024 * KIB)
    again = OperatorStates("op", stored, memory)
    with again.at_once():
        again.get_broadcast_state(RULES)
    told = sizes(memory)
    assert told["op/buffer"][0] == 100
    assert told["op/buffer"][1] > 100 * KIB
    assert told["op/rules"][0] == 1
    small = OperatorStates("op", stored, OperatorStateMemory(limit_bytes=50 * KIB))
    with pytest.raises(errors.OperatorStateTooLarge, match="'buffer'"), small.at_once():
        pass
