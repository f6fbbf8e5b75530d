"""The condition ``MemoryPressure``: what it says, how often it is written, and when it ends."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.scene.decisions import NOW, job, look, pod, running_status

from sparkstate_operator import actions, observed
from sparkstate_operator.decide import memory_pressure

MIB = 2**20
FULL: dict[str, Any] = {
    "slot": 1,
    "operator": "judged",
    "state": "rules",
    "used_bytes": 26 * MIB,
    "limit_bytes": 32 * MIB,
    "since_ms": 5,
    "seen_ms": 5,
}


def says(notice: Any, phase: str = "RUNNING") -> observed.Report:
    return observed.Report({"phase": phase, "operator_state_notice": notice})


def seen(report: observed.Report | None, status: Any = None, **more: Any) -> observed.ObservedState:
    known = job(status or running_status())
    return observed.ObservedState(known, NOW, drivers=(pod(),), report=report, **more)


def pressure(decision: actions.Decision) -> dict[str, Any] | None:
    found = [one for one in decision.status["conditions"] if one["type"] == "MemoryPressure"]
    return found[0] if found else None


def test_little_room_for_operator_state_is_a_condition_and_an_event_with_field_value_and_remedy() -> None:
    decision = look(seen(says(FULL)))
    found = pressure(decision)
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "OperatorStateNearLimit")
    assert found["message"] == (
        "operator state takes 80 % or more of spec.operatorStateMemoryPerSlot (32Mi) in slot 1; most of it is state "
        "'rules' of operator 'judged'. A job that needs more than the limit ends with OperatorStateTooLarge: raise "
        "spec.operatorStateMemoryPerSlot, for example to 64Mi, or keep these values in keyed state"
    )
    assert [(note.reason, note.warning) for note in decision.notes] == [("OperatorStateNearLimit", True)]
    others = {one["type"]: one["status"] for one in decision.status["conditions"]}
    assert (others["Ready"], others["Degraded"]) == ("True", "False"), "everything still runs"


def test_it_is_written_again_only_at_the_next_ten_percent_and_told_as_an_event_once() -> None:
    first = look(seen(says(FULL)))
    in_another_slot = {**FULL, "slot": 0, "state": "buffer", "used_bytes": 28 * MIB}
    again = look(seen(says(in_another_slot), first.status))
    assert again.status == first.status and not again.notes
    fuller = look(seen(says({**FULL, "used_bytes": 30 * MIB}), first.status))
    found = pressure(fuller)
    assert found is not None and found["message"].startswith("operator state takes 90 % or more of")
    assert not fuller.notes


def test_it_ends_with_the_drivers_word_and_stays_while_the_driver_does_not_answer() -> None:
    first = look(seen(says(FULL)))
    silent = look(seen(None, first.status))
    assert pressure(silent) == pressure(first)
    assert pressure(look(seen(says(None), first.status))) is None
    assert pressure(look(seen(observed.Report({"phase": "RUNNING"}), first.status))) is None


def test_it_does_not_outlive_its_driver() -> None:
    first = look(seen(says(FULL)))
    ended = dataclasses.replace(seen(None, first.status), drivers=(pod(phase="Failed", ready=False),))
    decision = look(ended)
    assert decision.status["phase"] != "Running"
    assert pressure(decision) is None


def test_a_report_is_worth_a_look_when_it_begins_rises_by_ten_percent_or_ends() -> None:
    def news(**changed: Any) -> Any:
        return says({**FULL, **changed}).news.state

    none = says(None).news.state
    assert len({none, news(), news(used_bytes=30 * MIB)}) == 3
    assert news() == news(used_bytes=28 * MIB, slot=0, state="buffer", seen_ms=9)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {**FULL, "limit_bytes": 0},
        {**FULL, "used_bytes": -7, "limit_bytes": -1},
        {**FULL, "used_bytes": 2**62},
        {**FULL, "operator": "o" * 9_000, "state": None, "slot": None},
    ],
    ids=["empty", "no-limit", "negative", "huge", "long"],
)
def test_whatever_a_driver_says_of_it_the_status_can_be_written(odd: Any) -> None:
    found = pressure(look(seen(says(odd))))
    assert (found is None) == (odd == {})
    if found is not None:
        assert len(found["message"]) < 1_000
        assert f"({memory_pressure.FIELD})" not in found["message"]
