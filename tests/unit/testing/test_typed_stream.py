"""The calls of a job's keyed stream without Spark: their functions in the harness, on both backends, and refusals."""

from __future__ import annotations

import datetime
import decimal
import doctest
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.repository import tree

from sparkstate import OutputTag, ProcessJoinFunction, Types, errors, testing
from sparkstate.functions import KeyedFunction
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.testing import KeyedCoProcessHarness, KeyedProcessHarness, TypedStream, typed_stream
from sparkstate.windows import CountEvictor, EventTimeSessionWindows, SlidingEventTimeWindows
from sparkstate.windows import TumblingEventTimeWindows as Tumbling

PAYMENT = {"user": Types.STRING(), "id": Types.LONG(), "amount": Types.LONG(), "method": Types.STRING()}
LATE = OutputTag("late")
BACKENDS = ("hashmap", "rocksdb")


def stream_of(columns: dict[str, TypeInformation], keys: str | list[str] = "user") -> TypedStream:
    return testing.keyed(Types.ROW_NAMED(list(columns), list(columns.values())), keys)


def harness(
    stream: TypedStream, function: KeyedFunction, backend: str, **options: Any
) -> KeyedProcessHarness:
    return KeyedProcessHarness(function, key=stream.key, key_type=stream.key_type, backend=backend, **options)


def payment(user: str, number: int, amount: int | None, method: str | None = "card") -> dict[str, Any]:
    return {"user": user, "id": number, "amount": amount, "method": method}


def moment(milliseconds: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=milliseconds)


def rows(found: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, found), key=str)


def test_the_example_in_its_documentation_is_true() -> None:
    result = doctest.testmod(typed_stream)
    assert (result.attempted, result.failed) == (3, 0)


@pytest.mark.parametrize(
    ("page", "marks"),
    [
        ("window-aggregates.md", ["testing.keyed("]),
        ("two-inputs.md", ["testing.keyed("]),
        ("two-inputs.md", ["class Limits(", "    Limits(), key="]),
        ("schema-evolution.md", ["after.restore("]),
    ],
)
def test_the_code_of_the_page_works(page: str, marks: list[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (tree.ROOT / "docs" / page).read_text(), re.DOTALL)
    names: dict[str, Any] = {"Shown": ClickedPage}
    for mark in marks:
        (code,) = (block for block in blocks if mark in block)
        exec(compile(code, page, "exec"), names)
    assert "assert" in code


class ClickedPage(ProcessJoinFunction):
    """``Shown`` of the page."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield left.user, right.page, ctx.get_timestamp()


GIVEN = [payment("ann", 1, 5), payment("bob", 2, 9, "cash"), payment("ann", 3, 2, "cash")]
Declare = Callable[[TypedStream], KeyedFunction]
SHORT: dict[str, tuple[Declare, list[tuple[Any, ...]]]] = {
    "map": (lambda s: s.map(lambda row: (row.id, row.amount * 2)), [(1, 10), (2, 18), (3, 4)]),
    "flat_map": (lambda s: s.flat_map(lambda row: [(row.id,)] * (row.amount // 4)), [(1,), (2,), (2,)]),
    "filter": (
        lambda s: s.filter(lambda row: row.amount < 9), [("ann", 1, 5, "card"), ("ann", 3, 2, "cash")],
    ),
    "reduce": (
        lambda s: s.reduce(lambda one, two: (one.user, two.id, one.amount + two.amount, two.method)),
        [("ann", 1, 5, "card"), ("ann", 3, 7, "cash"), ("bob", 2, 9, "cash")],
    ),
    "sum": (
        lambda s: s.sum("amount"), [("ann", 1, 5, "card"), ("ann", 1, 7, "card"), ("bob", 2, 9, "cash")],
    ),
    "sum by place": (
        lambda s: s.sum(2, on_error="side-output"),
        [("ann", 1, 5, "card"), ("ann", 1, 7, "card"), ("bob", 2, 9, "cash")],
    ),
    "min": (
        lambda s: s.min("amount"), [("ann", 1, 2, "card"), ("ann", 1, 5, "card"), ("bob", 2, 9, "cash")],
    ),
    "max": (
        lambda s: s.max("method"), [("ann", 1, 5, "card"), ("ann", 1, 5, "cash"), ("bob", 2, 9, "cash")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("declare", "expected"), SHORT.values(), ids=SHORT)
def test_the_short_methods_give_the_functions_of_a_job(
    declare: Declare, expected: list[tuple[Any, ...]], backend: str
) -> None:
    payments = stream_of(PAYMENT)
    with harness(payments, declare(payments), backend) as driven:
        driven.process_elements([(row, None) for row in GIVEN[:2]])
        driven.restore(driven.snapshot())
        driven.process_element(GIVEN[2])
        assert rows(driven.output()) == expected


DEC = decimal.Decimal
FOUND_BY_VALUES: dict[str, tuple[TypeInformation, list[Any]]] = {
    "text": (Types.STRING(), ["x", None, "y"]),
    "nulls first": (Types.STRING(), [None, "x", None]),
    "decimals": (Types.BIG_DEC(), [DEC("1.25"), DEC(2), None]),
    "whole decimals first": (Types.BIG_DEC(), [DEC(2), DEC("1.25"), None]),
    "lists": (Types.BASIC_ARRAY(Types.LONG()), [[7], [], None]),
    "lists of nulls": (Types.BASIC_ARRAY(Types.STRING()), [[], ["x", None], [None]]),
    "rows": (Types.ROW_NAMED(["x"], [Types.LONG()]), [{"x": 1}, {"x": None}, None]),
}
"""Types and values of a column, of which the harness finds another Arrow type in each epoch."""


@pytest.mark.parametrize("how", ["sum", "min", "max"])
@pytest.mark.parametrize("fields", FOUND_BY_VALUES.values(), ids=FOUND_BY_VALUES)
def test_rolling_values_keep_the_first_row_whatever_type_the_values_seem_to_have(
    how: str, fields: Any
) -> None:
    kind, values = fields
    stream = stream_of({"user": Types.STRING(), "amount": Types.LONG(), "other": kind})
    with harness(stream, getattr(stream, how)("amount"), "hashmap") as driven:
        wanted = []
        for number, value in enumerate(values):
            new = f"new {number}"
            driven.process_elements(
                [({"user": user, "amount": 1, "other": value}, None) for user in ("ann", new)]
            )
            wanted += [("ann", values[0]), (new, value)]
        assert [(row[0], as_given(row[2])) for row in driven.output()] == wanted


def as_given(value: Any) -> Any:
    return value.asDict() if hasattr(value, "asDict") else value


@pytest.mark.parametrize(("how", "wanted"), [("sum", [2, 3.5, 3.5, 0.5]), ("min", [2, 1.5, 1.5, -3])])
def test_floats_may_be_written_as_whole_numbers(how: str, wanted: list[float]) -> None:
    stream = stream_of({"user": Types.STRING(), "amount": Types.DOUBLE()})
    with harness(stream, getattr(stream, how)("amount"), "hashmap") as driven:
        for amount in (2, 1.5, None, -3):
            driven.process_element({"user": "ann", "amount": amount})
        assert [row[1] for row in driven.output()] == wanted


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_key_of_several_columns_may_have_a_null_as_in_a_job(backend: str) -> None:
    payments = stream_of(PAYMENT, ["user", "method"])
    function = payments.window(Tumbling.of(100)).agg(total="sum(amount)")
    with harness(payments, function, backend) as opened:
        given = [payment("ann", 1, 5, None), payment("ann", 2, 6, None), payment("ann", 3, 7)]
        opened.process_elements([(row, 1) for row in given], 200)
        assert rows(opened.output()) == [
            ("ann", "card", moment(0), moment(100), 7),
            ("ann", None, moment(0), moment(100), 11),
        ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_aggregates_of_windows_are_put_out_and_late_rows_aside(backend: str) -> None:
    payments = stream_of(PAYMENT)
    function = (
        payments.window(SlidingEventTimeWindows.of(200, 100))
        .allowed_lateness(50)
        .side_output_late_data(LATE)
        .agg(total="sum(amount)", payments="count(*)", newest="last(method)")
    )
    with harness(payments, function, backend) as driven:
        driven.process_elements([(payment("ann", 1, 5), 120), (payment("ann", 2, 7, "cash"), 210)], 199)
        assert rows(driven.output()) == [("ann", moment(0), moment(200), 5, 1, "card")]
        driven.clear_output()
        driven.process_element(
            payment("ann", 3, 1), 10
        )  # behind the watermark; its window takes it all the same
        assert rows(driven.output()) == [("ann", moment(0), moment(200), 6, 2, "card")]
        driven.clear_output()
        driven.restore(driven.snapshot())
        driven.process_watermark(260)
        driven.process_element(payment("ann", 4, 100), 20)
        assert rows(driven.side_output(LATE)) == [("ann", 4, 100, "card")]
        driven.end_input()
        assert rows(driven.output()) == [
            ("ann", moment(100), moment(300), 12, 2, "cash"),
            ("ann", moment(200), moment(400), 7, 1, "cash"),
        ]
        assert driven.num_event_timers() == 0


VALUES = [("a", 3), ("b", None), (None, 5), ("a", 4)]
"""Methods and amounts of the rows of a window, in the order of their times."""
RESULTS: dict[str, Any] = {
    "count(*)": 4,
    "count(1)": 4,
    "count(amount)": 3,
    "sum(amount)": 12,
    "SUM( `amount` )": 12,
    "avg(amount)": 4.0,
    "mean(amount)": 4.0,
    "min(amount)": 3,
    "max(method)": "b",
    "first(method)": "a",
    "last(method)": "a",
    "last(amount)": 4,
    "first(method, true)": "a",
    "approx_count_distinct(method)": 2,
    "approx_count_distinct(amount, 0.1)": 3,
    "stddev_pop(amount)": pytest.approx((2 / 3) ** 0.5),
    "var_pop(amount)": pytest.approx(2 / 3),
    "stddev(amount)": pytest.approx(1.0),
    "stddev_samp(amount)": pytest.approx(1.0),
    "variance(amount)": pytest.approx(1.0),
    "var_samp(amount)": pytest.approx(1.0),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_text_means_what_sql_means(backend: str) -> None:
    payments = stream_of(PAYMENT)
    names = {f"r{number}": text for number, text in enumerate(RESULTS)}
    function = payments.window(Tumbling.of(100)).agg(**names)
    with harness(payments, function, backend) as driven:
        given = [(payment("ann", at, amount, method), at) for at, (method, amount) in enumerate(VALUES)]
        driven.process_elements(given, 99)
        (row,) = driven.output()
        found = dict(zip(RESULTS, tuple(row)[3:], strict=True))
        assert found == RESULTS


def test_nulls_are_first_and_last_values_unless_they_are_ignored() -> None:
    payments = stream_of(PAYMENT)
    function = payments.window(Tumbling.of(100)).agg(
        a="first(amount)",
        b="first(amount, TRUE)",
        c="last(method)",
        d="last(method,true)",
        e="last(method, false)",
    )
    with harness(payments, function, "hashmap") as driven:
        given = [(None, None), (7, "card"), (8, None)]
        driven.process_elements([(payment("ann", 0, a, m), at) for at, (a, m) in enumerate(given)], 99)
        assert rows(driven.output()) == [("ann", moment(0), moment(100), None, 7, None, "card", None)]


def test_decimals_have_the_digits_of_sparks_default() -> None:
    prices = stream_of({"user": Types.STRING(), "a price": Types.BIG_DEC()})
    function = prices.window(Tumbling.of(100)).agg(paid="sum(`a price`)", mean="avg(`a price`)")
    with harness(prices, function, "hashmap") as driven:
        given = [decimal.Decimal("1.50"), decimal.Decimal("0.55")]
        driven.process_elements([({"user": "ann", "a price": each}, 1) for each in given], 99)
        (row,) = driven.output()
        assert tuple(row)[3:] == (decimal.Decimal("2.05"), decimal.Decimal("1.025"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_of_several_columns_are_columns_of_the_result(backend: str) -> None:
    payments = stream_of(PAYMENT, ["user", "method"])
    assert payments.key_type.describe() == "TUPLE<STRING,STRING>"
    function = payments.window(Tumbling.of(100)).agg(total="sum(amount)")
    with harness(payments, function, backend) as driven:
        driven.process_elements([(row, 1) for row in GIVEN], 99)
        bounds = moment(0), moment(100)
        assert rows(driven.output()) == [
            ("ann", "card", *bounds, 5), ("ann", "cash", *bounds, 2), ("bob", "cash", *bounds, 9),
        ]  # fmt: skip


class Shown(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield left.id, right.page, ctx.get_timestamp()


VIEW = {"page": Types.STRING(), "viewer": Types.STRING()}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_join_takes_pairs_within_its_bounds_and_puts_late_rows_aside(backend: str) -> None:
    payments, views = stream_of(PAYMENT), stream_of(VIEW, "viewer")
    function = (
        payments.interval_join(views)
        .between("-20 ms", 10)
        .upper_bound_exclusive()
        .side_output_right_late_data(LATE)
        .process(Shown())
    )
    with KeyedCoProcessHarness(
        function, key=payments.key, second_key=views.key, key_type=payments.key_type, backend=backend
    ) as driven:
        driven.process_element1(payment("ann", 1, 5), 100)
        for at in (79, 80, 109, 110):
            driven.process_element2({"page": f"p{at}", "viewer": "ann"}, at)
        driven.process_element2({"page": "other", "viewer": "bob"}, 100)
        assert rows(driven.output()) == [(1, "p109", 109), (1, "p80", 100)]
        driven.process_watermark(131)
        driven.process_element2({"page": "late", "viewer": "ann"}, 100)
        assert rows(driven.side_output(LATE)) == [("late", "ann")]
        driven.end_input()
        assert driven.num_event_timers() == 0


def test_a_join_takes_rows_of_ordinary_times_whatever_its_bounds() -> None:
    payments, views = stream_of(PAYMENT), stream_of(VIEW, "viewer")
    joined = payments.interval_join(views).between(-(2**62), 2**62).process(Shown())
    with KeyedCoProcessHarness(
        joined, key=payments.key, second_key=views.key, key_type=payments.key_type
    ) as driven:
        driven.process_element1(payment("ann", 1, 5), 1_800_000_000_000)
        driven.process_element2({"page": "p", "viewer": "ann"}, -1)
        assert rows(driven.output()) == [(1, "p", 1_800_000_000_000)]


def agg(**texts: Any) -> Callable[[TypedStream], Any]:
    return lambda s: s.window(Tumbling.of(5)).agg(**texts)


REFUSED: dict[str, tuple[Callable[[TypedStream], Any], str]] = {
    "no row type": (lambda s: testing.keyed(Types.LONG(), "user"), r"row_type=….* give Types.ROW_NAMED"),
    "a row without names": (
        lambda s: testing.keyed(Types.ROW([Types.LONG()]), "user"), "give Types.ROW_NAMED",
    ),
    "no key": (lambda s: testing.keyed(s.row_type, []), r"keyed\(keys=\[\]\): give one or some"),
    "unknown key": (lambda s: testing.keyed(s.row_type, "name"), r"keys='name'.*\['user', 'id'"),
    "map": (lambda s: s.map(5), r"map\(5\): pass a function, or a MapFunction object"),
    "class": (lambda s: s.reduce(int), "reduce.*or a ReduceFunction object"),
    "key": (lambda s: s.sum("user"), r"sum\('user'\): 'user' is a key column; give another"),
    "column": (lambda s: s.max("v"), r"max\('v'\): there is no such column; .*'amount'"),
    "text": (lambda s: s.sum("method"), r"sum\('method'\): column 'method' is STRING; give a column of numbers"),
    "lists": (
        lambda s: stream_of({"user": Types.STRING(), "l": Types.LIST(Types.LONG())}).min("l"),
        r"min\('l'\): column 'l' is LIST<LONG>; give a column of numbers, strings",
    ),
    "assigner": (lambda s: s.window(5), "pass a WindowAssigner"),
    "dynamic gaps": (
        lambda s: s.window(EventTimeSessionWindows.with_dynamic_gap(len)).agg(n="count(*)"),
        r"agg\(…\): the windows are .*EventTimeSessionWindows.with_gap.*use aggregate",
    ),
    "evictor": (
        lambda s: s.window(Tumbling.of(5)).evictor(CountEvictor.of(1)).agg(n="count(*)"),
        r"evictor\(.*\) is not possible with it",
    ),
    "no aggregate": (agg(), "give at least one aggregate"),
    "no text": (agg(n=5), r"agg\(n=5\): write one aggregate of one column"),
    "an expression": (agg(n="sum(amount * 2)"), "write one aggregate of one column"),
    "an unknown aggregate": (agg(n="median(amount)"), "median is not possible in a window; use approx_count"),
    "an unknown column": (agg(n="sum(price)"), r"agg\(n='sum\(price\)'\): the rows have no column 'price'"),
    "a sum of all": (agg(n="sum(*)"), r"only count\(\*\) is possible of whole rows"),
    "a sum of texts": (agg(n="sum(method)"), "values of type string cannot be summed; give a column"),
    "a deviation of texts": (agg(n="stddev(method)"), "values of type string cannot be summed"),
    "two arguments": (agg(n="sum(amount, 2)"), "it takes a column alone; leave '2' out"),
    "no truth": (agg(n="first(amount, 2)"), "'2'; write true or false"),
    "no number": (agg(n="approx_count_distinct(amount, low)"), "'low'; write a number"),
    "a wide deviation": (agg(n="approx_count_distinct(amount, 0.5)"), r"agg\(n=.*must lie between"),
    "a taken name": (agg(window_end="count(*)"), "a column 'window_end' by itself; give another"),
    "a list": (
        lambda s: stream_of({"user": Types.STRING(), "l": Types.LIST(Types.LONG())})
        .window(Tumbling.of(5)).agg(n="first(l)"),
        "values of type LIST<LONG> are not possible in a window",
    ),
    "join": (lambda s: s.interval_join("views"), r"interval_join\('views'\): pass a stream"),
    "other keys": (
        lambda s: s.interval_join(stream_of(PAYMENT, "id")),
        "keys of the first stream are STRING, those of the second LONG; give both",
    ),
    "bounds": (lambda s: s.interval_join(s).between(5, 1), r"between\(5, 1\): the lower bound lies above"),
    "a far bound": (
        lambda s: s.interval_join(s).between(0, 2**62 + 1), r"between\(upper\) is 4611686018427387905, .* give less",
    ),
    "late": (
        lambda s: s.interval_join(s).between(0, 1).side_output_left_late_data("late"),
        r"side_output_left_late_data\(…\) is 'late'; pass an OutputTag",
    ),
    "pairs": (
        lambda s: s.interval_join(s).between(0, 1).process(Shown), "is not a ProcessJoinFunction object; create",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("attempt", "told"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused_with_the_remedy(
    attempt: Callable[[TypedStream], Any], told: str
) -> None:
    with pytest.raises(errors.SpecInvalid, match=told):
        attempt(stream_of(PAYMENT))
