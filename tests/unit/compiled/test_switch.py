"""When the engine takes the compiled record path, and for which operators."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from support.operators import driven as ops

from sparkstate.functions import KeyedProcessFunction
from sparkstate.operators import compiled
from sparkstate.operators.keyed.keyed_operator import KeyedOperator
from sparkstate.operators.state import handles
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.state.ttl_options import Time


@pytest.fixture(autouse=True)
def looked_for_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    compiled._load.cache_clear()
    yield
    compiled._load.cache_clear()


def package(interface: int) -> ModuleType:
    made: Any = ModuleType("sparkstate_compiled")
    made.INTERFACE, made.__path__ = interface, []
    return made  # type: ignore[no-any-return]


def test_without_the_extension_the_path_is_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sparkstate_compiled", None)
    assert (compiled.records(), compiled.status()) == (None, "not installed")
    operator = ops.make_operator(Sum())
    assert isinstance(operator, KeyedOperator)
    assert ops.rows_of(ops.run(operator, ("a", 1, 5), ("a", 2, 6))) == [("a", 1), ("a", 3)]


def test_an_extension_of_another_engine_is_left_alone_and_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "sparkstate_compiled", package(compiled.INTERFACE + 1))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert compiled.records() is None
            assert compiled.status() == "built for another version"
    assert [record.message.split(";")[0] for record in caplog.records] == [
        "the compiled record path is built for another version"
    ]


def test_an_extension_that_cannot_be_loaded_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "sparkstate_compiled", package(compiled.INTERFACE))
    monkeypatch.setitem(sys.modules, "sparkstate_compiled.records", None)
    assert compiled.records() is None
    assert compiled.status().startswith("cannot be loaded: ")
    assert len(caplog.records) == 1


def test_a_variable_turns_it_off_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(compiled.VARIABLE, "0")
    assert (compiled.records(), compiled.status()) == (None, "turned off by SPARKSTATE_COMPILED=0")
    assert not caplog.records


class Sum(KeyedProcessFunction):
    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.small = ctx.get_state(ValueStateDescriptor("small", Types.INT()))
        expiring = ValueStateDescriptor("expiring", Types.LONG())
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.expiring = ctx.get_state(expiring)
        self.most = ctx.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value.amount)
        yield value.user, self.total.value()


def made(**options: Any) -> Any:
    options = {"key_columns": ("amount",), "key_type": Types.LONG(), **options}
    return ops.make_operator(Sum(), **options)


def test_only_lasting_long_states_of_whole_number_keys_are_read_in_c() -> None:
    pytest.importorskip(
        "sparkstate_compiled.records", reason="sparkstate-compiled is not built: `make compiled`"
    )

    def in_c(operator: Any) -> list[str]:
        states = vars(operator.spec.function.author_object)
        return [name for name, state in states.items() if hasattr(state, "attach")]

    assert in_c(made()) == ["total"]
    total = made().spec.function.author_object.total
    assert isinstance(total, handles.LongValueStateHandle)
    for others in (
        {"key_columns": ("user",), "key_type": Types.STRING()},
        {"key_columns": ("user", "amount"), "key_type": Types.TUPLE([Types.STRING(), Types.LONG()])},
        {"on_error": "side-output"},
        {"emit_timestamps": True},
    ):
        assert in_c(made(**others)) == []


def test_outside_of_records_a_state_in_c_is_refused_as_any_other() -> None:
    pytest.importorskip(
        "sparkstate_compiled.records", reason="sparkstate-compiled is not built: `make compiled`"
    )

    def refusals(operator: Any) -> list[tuple[type, str]]:
        total = operator.spec.function.author_object.total
        calls: tuple[Callable[[], Any], ...] = (
            total.value,
            total.clear,
            lambda: total.update(1),
            lambda: total.update("x"),
            lambda: total.set_current_namespace("n"),
        )
        found = []
        for call in calls:
            with pytest.raises(Exception, match="no key is set") as caught:
                call()
            found.append((type(caught.value), str(caught.value)))
        total.set_current_namespace(None)
        return found

    operators = []
    for value in ("1", "0"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(compiled.VARIABLE, value)
            operators.append(made())
    first, second = map(refusals, operators)
    assert first == second
    for operator in operators:
        operator.close()
    assert list(map(refusals, operators)) == [first, second]
