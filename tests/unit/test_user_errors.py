"""The line at fault in an error of the user's code, and the stack for a log."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkstate import errors, user_errors
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.connected_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from sparkstate.testing import (
    BroadcastHarness,
    KeyedBroadcastHarness,
    KeyedCoProcessHarness,
    KeyedProcessHarness,
)

HERE = Path(__file__).name
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
BY_WORD: dict[str, Any] = {"key": lambda row: row.word, "key_type": Types.STRING()}


class Failing(KeyedProcessFunction):
    """Raises in the step ``at``."""

    def __init__(self, at: str) -> None:
        self.at = at

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        if self.at == "open":
            raise ValueError("no luck")

    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(10)
        if self.at == "process_element":
            raise ValueError("no luck")

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "fires"
        if self.at == "on_timer":
            raise ValueError("no luck")

    def finish(self) -> Iterator[Any]:
        yield "ends"
        if self.at == "finish":
            raise ValueError("no luck")

    def close(self) -> None:
        if self.at == "close":
            raise ValueError("no luck")


@pytest.mark.parametrize("at", ["open", "process_element", "on_timer", "finish", "close"])
def test_an_error_in_any_step_of_a_function_names_its_line(at: str) -> None:
    def live() -> None:
        with KeyedProcessHarness(Failing(at), **BY_WORD) as harness:
            harness.process_element({"word": "a"}, 1)
            harness.process_watermark(10)
            harness.end_input()

    with pytest.raises(errors.UserCodeError, match=rf"no luck \({line_in(at)}\)$"):
        live()


def line_in(function: str) -> str:
    return rf"[\w/]*{HERE}:\d+ in {function}"


class Pair(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> None:
        raise ValueError("no luck")


class Rules(KeyedBroadcastProcessFunction):
    def process_broadcast_element(self, row: Any, ctx: Any) -> None:
        raise ValueError("no luck")


class Unkeyed(BroadcastProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> None:
        raise ValueError("no luck")


class Batches(KeyedBatchFunction):
    def process_batch(self, rows: pa.RecordBatch, keys: Any, ctx: Any) -> Iterator[Any]:
        raise ValueError("no luck")
        yield rows


def of_a_pair() -> None:
    with KeyedCoProcessHarness(Pair(), **BY_WORD) as made:
        made.process_element1({"word": "a"})


def of_a_broadcast_row() -> None:
    with KeyedBroadcastHarness(Rules(), RULES, **BY_WORD) as made:
        made.process_broadcast_element({"rule": "a"})


def of_a_row_without_a_key() -> None:
    with BroadcastHarness(Unkeyed(), RULES) as made:
        made.process_element({"word": "a"})


def of_a_batch() -> None:
    with KeyedProcessHarness(Batches(), **BY_WORD) as made:
        made.process_element({"word": "a"})


@pytest.mark.parametrize("live", [of_a_pair, of_a_broadcast_row, of_a_row_without_a_key, of_a_batch])
def test_an_error_of_any_kind_of_function_names_its_line(live: Callable[[], None]) -> None:
    with pytest.raises(errors.UserCodeError, match=rf"no luck \({line_in('process_')}\w+\)"):
        live()


class Wrong(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.total.update("a text")


def test_a_value_of_a_wrong_type_names_the_line_that_writes_it_and_not_the_one_that_refuses_it() -> None:
    with (
        KeyedProcessHarness(Wrong(), **BY_WORD) as harness,
        pytest.raises(errors.UserCodeError, match=rf"SerializationError: .*\({line_in('process_element')}\)"),
    ):
        harness.process_element({"word": "a"})


def raised_by(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


def test_an_error_in_a_library_names_the_line_that_called_it() -> None:
    error = raised_by(lambda: json.loads("{"))
    assert user_errors.line_of(error).startswith(f" ({'tests/unit/' if '.' in __name__ else ''}{HERE}:")
    assert user_errors.describe(error).startswith("JSONDecodeError: Expecting")
    assert user_errors.line_of(raised_by(lambda: pa.array([1, "a"]))).endswith(" in <lambda>)")


def test_an_error_without_a_line_of_the_users_has_none() -> None:
    assert user_errors.describe(KeyError("limit")) == "KeyError: 'limit'"
    assert user_errors.line_of(raised_in_ours()) == ""


def raised_in_ours() -> BaseException:
    """Without the frame of this test, as the engine's own work has none of the user's."""
    error = raised_by(lambda: Types.ROW_NAMED(["a"], []))
    assert error.__traceback__ is not None
    stack = error.__traceback__
    while stack.tb_frame.f_globals["__name__"].partition(".")[0] != "sparkstate":
        assert stack.tb_next is not None
        stack = stack.tb_next
    return error.with_traceback(stack)


@pytest.mark.parametrize("folder", ["jobs", "lib/python3/site-packages"], ids=["beside the job", "installed"])
def test_a_file_of_a_package_is_named_with_its_folders(folder: str) -> None:
    module: dict[str, Any] = {"__name__": "shop.rules"}
    code = "import json\n\ndef read(text):\n    return json.loads(text)['limit']\n"
    exec(compile(code, f"/srv/{folder}/shop/rules.py", "exec"), module)
    error = raised_by(lambda: module["read"]("{}"))
    assert error.__traceback__ is not None and error.__traceback__.tb_next is not None
    without_the_test = error.with_traceback(error.__traceback__.tb_next.tb_next)
    assert user_errors.describe(without_the_test) == "KeyError: 'limit' (shop/rules.py:4 in read)"


@pytest.mark.parametrize("file", ["<stdin>", "<string>", "<command-4127>"])
def test_code_that_was_typed_is_the_users_and_the_generated_methods_beside_it_are_not(file: str) -> None:
    module: dict[str, Any] = {"__name__": "__main__"}
    code = "import dataclasses\n@dataclasses.dataclass(order=True)\nclass Limit:\n    value: object\n"
    exec(compile(f"{code}def least(a, b):\n    return min(Limit(a), Limit(b))\n", file, "exec"), module)
    error = raised_by(lambda: module["least"](1, None))
    assert user_errors.line_of(error) == f" ({file}:6 in least)"
    assert not user_errors.is_raised_by_us(error)


@dataclasses.dataclass
class Limit:
    value: int

    def __post_init__(self) -> None:
        try:
            raise ConnectionError("postgres://user:secret@db")
        except ConnectionError as error:
            raise ValueError("no limit") from error


def test_a_stack_shows_the_lines_of_every_error_and_the_text_of_the_last_alone() -> None:
    told = user_errors.stack_of(raised_by(lambda: Limit(1)))
    assert told.endswith('raise ValueError("no limit") from error\nValueError: no limit')
    assert "ConnectionError\n\nwhich led to:" in told
    assert told.count("in __post_init__") == 2


def test_a_stack_without_an_end_is_shown_in_part() -> None:
    def again() -> None:
        again()

    assert len(user_errors.stack_of(raised_by(again))) < 10_000
