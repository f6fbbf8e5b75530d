"""Reads PySpark's aggregates: ``agg(F.sum("v").alias("total"))`` as sparkstate's own aggregates of windows.

Spark analyses the aggregates as it would for ``groupBy(keys).agg(…)``, so names, types and casts of the results are
Spark's. Then the analysed plan is read. An expression within an aggregate, such as ``a * 2`` in ``F.sum(a * 2)``, is
computed in Spark before the rows go to the slots, from its SQL text. That text is analysed again and
compared, so an expression that has no such text is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from sparkstate import columns, errors
from sparkstate.aggregates import aggregate
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.aggregate import Aggregate
from sparkstate.aggregates.deviations import Deviation
from sparkstate.aggregates.distinct import DistinctCount
from sparkstate.aggregates.ends import EndValue
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.sliced_rows import END, START
from sparkstate.aggregates.sums import Average, Count, Sum

_ALIASES: Final = ("avg", "mean", "sum")
"""The names of sums and averages; others of their class have other rules, such as ``try_sum``."""


@dataclass(frozen=True)
class Computed:
    """A column that Spark computes before rows are shipped: SQL text over the stream's columns."""

    name: str
    sql: str


@dataclass(frozen=True)
class Aggregation:
    """The aggregates of one call of ``agg``."""

    outputs: tuple[Output, ...]
    computed: tuple[Computed, ...]
    result: T.StructType
    """Key columns, ``window_start``, ``window_end``, results."""


def read(
    frame: DataFrame, keys: Sequence[str], exprs: Sequence[Column | Mapping[str, str]], uid: str
) -> Aggregation:
    """The aggregates over a frame with the stream's columns. Raises ``SpecInvalid`` for all that cannot be done."""
    where = f"agg(…) of {uid!r}"
    analysed, struct = _analysed(frame, keys, exprs, where)
    _check_names(struct.names, where)
    reader = _Reader(frame, where)
    found = analysed.aggregateExpressions()
    outputs = [reader.output(found.apply(i), struct.fields[i]) for i in range(len(keys), found.size())]
    bounds = [T.StructField(name, T.TimestampType(), False) for name in (START, END)]
    result = T.StructType([*struct.fields[: len(keys)], *bounds, *struct.fields[len(keys) :]])
    return Aggregation(tuple(outputs), tuple(reader.computed.values()), result)


def _analysed(
    frame: DataFrame, keys: Sequence[str], exprs: Sequence[Any], where: str
) -> tuple[Any, T.StructType]:
    if not exprs:
        raise errors.SpecInvalid(f'{where}: give at least one aggregate, such as F.sum("v").alias("total")')
    is_map = len(exprs) == 1 and isinstance(exprs[0], Mapping)
    for each in exprs:
        is_pair = is_map and bool(each) and all(isinstance(t, str) for pair in each.items() for t in pair)
        if not is_pair and not isinstance(each, Column):
            raise errors.SpecInvalid(
                f'{where}: {each!r} is not an aggregate; give Columns, such as F.sum("v").alias("total"), or one dict, '
                'such as {"v": "sum"}'
            )
    try:
        grouped = frame.groupBy(*(columns.quoted(key) for key in keys))
        made = grouped.agg(dict(exprs[0])) if is_map else grouped.agg(*exprs)
        return made._jdf.queryExecution().analyzed(), made.schema
    except PySparkException as error:
        raise errors.SpecInvalid(f"{where}: {str(error).splitlines()[0]}") from error


def _check_names(names: Sequence[str], where: str) -> None:
    given = [*names, START, END]
    for name in given:
        # Spark compares names without their case.
        if sum(other.lower() == name.lower() for other in given) > 1:
            raise errors.SpecInvalid(
                f"{where}: two columns of the result are called {name!r}; give one another name by .alias(…)"
            )
        if name.startswith(columns.PREFIX):
            raise errors.SpecInvalid(
                f"{where}: a column of the result is called {name!r}; names starting with {columns.PREFIX!r} are "
                "reserved: give it another name by .alias(…)"
            )


class _Reader:
    """Reads the aggregates of one call, and collects what has to be computed before."""

    def __init__(self, frame: DataFrame, where: str) -> None:
        self._frame = frame
        self._where = where
        self.computed: dict[str, Computed] = {}
        """By SQL text."""

    def output(self, named: Any, field: T.StructField) -> Output:
        """One column of the result."""
        where = f"{self._where}, column {field.name!r}"
        expression = named.children().apply(0) if _class(named) == "Alias" else named
        if _class(expression) != "AggregateExpression":
            raise errors.SpecInvalid(
                f"{where}: it is not an aggregate by itself; give aggregates alone, and compute with their results in "
                "a sink or a next operator"
            )
        function = expression.aggregateFunction()
        name = str(function.prettyName())
        if expression.isDistinct() or expression.filter().isDefined():
            what = "DISTINCT" if expression.isDistinct() else "FILTER"
            raise errors.SpecInvalid(
                f"{where}: {name} with {what} is not possible in a window; "
                + (
                    "approx_count_distinct counts distinct values"
                    if what == "DISTINCT"
                    else "use F.when inside it"
                )
            )
        make = _AGGREGATES.get(_class(function))
        if make is None or (_class(function) in ("Sum", "Average") and name not in _ALIASES):
            raise errors.SpecInvalid(
                f"{where}: {name} is not possible in a window; the aggregates are sum, count, min, max, avg, first, "
                "last, stddev, stddev_samp, stddev_pop, variance, var_samp, var_pop and approx_count_distinct"
            )
        if _class(function) == "Count" and _counts_rows(function):
            return Output(field.name, "count", Count(of_rows=True), None, definition="count(*)")
        column, kind = self._input(function, name, where)
        try:
            made = make(function, kind, to_arrow_type(field.dataType, timezone="UTC"), _is_ansi(self._frame))
            for part in made.parts:
                assert part.type.describe()
        except errors.SpecInvalid as error:
            raise errors.SpecInvalid(f"{where}: {error}") from None
        state = _KINDS.get(_class(function), name)
        argument = _unqualified(function.children().apply(0))
        return Output(field.name, state, made, column, kind, f"{state}({argument}{made.options})")

    def _input(self, function: Any, name: str, where: str) -> tuple[str, pa.DataType]:
        """The column of an aggregate's values, and its type."""
        if name == "count" and function.children().size() != 1:
            raise errors.SpecInvalid(
                f"{where}: count of several columns is not possible in a window; count one, or all rows by "
                'F.count("*")'
            )
        child = function.children().apply(0)
        declared = T._parse_datatype_json_string(child.dataType().json())
        if getattr(declared, "collation", "UTF8_BINARY") != "UTF8_BINARY":
            raise errors.SpecInvalid(
                f"{where}: its values have the collation {declared.collation}, in which other texts are equal and in "
                "another order; aggregate collate(…, 'UTF8_BINARY') of the column"
            )
        try:
            kind = to_arrow_type(declared, timezone="UTC")
            aggregate.state_type(kind)
        except (PySparkException, errors.SpecInvalid):
            raise errors.SpecInvalid(
                f"{where}: {name} of {declared.simpleString()} values is not possible in a window; they are numbers, "
                "strings, booleans, dates, timestamps, decimals or binary"
            ) from None
        if _class(child) == "AttributeReference":
            return self._own_name(str(child.name())), kind
        return self._compute(child, where), kind

    def _own_name(self, name: str) -> str:
        """A column's name in the frame. Spark has it as the aggregate wrote it, which may differ in upper and lower
        case; slots and Arrow compare it exactly."""
        names = self._frame.columns
        return name if name in names else next((each for each in names if each.lower() == name.lower()), name)

    def _compute(self, child: Any, where: str) -> str:
        sql = _unqualified(child)
        found = self.computed.get(sql)
        if found is None:
            self._check_text(child, sql, where)
            found = self.computed[sql] = Computed(f"{columns.PREFIX}value_{len(self.computed)}", sql)
        return found.name

    def _check_text(self, child: Any, sql: str, where: str) -> None:
        """Whether an expression's SQL text means the expression."""
        try:
            plan = self._frame.select(F.expr(sql).alias("v"))._jdf.queryExecution().analyzed()
            is_same = plan.projectList().apply(0).children().apply(0).semanticEquals(child)
        except PySparkException:
            is_same = False
        if not is_same:
            raise errors.SpecInvalid(
                f"{where}: {sql} cannot be computed before rows go to the slots; make it a column of the DataFrame by "
                "withColumn before keyed(…), and aggregate that"
            )


def _unqualified(expression: Any) -> str:
    """Its SQL text, in which columns are without the name of a table or an alias: the rows of an epoch have none."""
    sql = str(expression.sql())
    found = expression.references().toSeq()
    names = {str(each.sql()): str(each.name()) for each in (found.apply(i) for i in range(found.size()))}
    for text in sorted(names, key=len, reverse=True):
        quoted = columns.quoted(names[text])
        if text not in (quoted, names[text]):
            sql = sql.replace(text, quoted)
    return sql


def _class(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _counts_rows(function: Any) -> bool:
    """``count(*)``, which Spark reads as the count of a literal."""
    children = [function.children().apply(i) for i in range(function.children().size())]
    return all(_class(child) == "Literal" and child.value() is not None for child in children)


def _is_ansi(frame: DataFrame) -> bool:
    return (frame.sparkSession.conf.get("spark.sql.ansi.enabled") or "").lower() == "true"


_Make = Callable[[Any, pa.DataType, pa.DataType, bool], Aggregate]
_AGGREGATES: Final[dict[str, _Make]] = {
    "Count": lambda function, kind, result, ansi: Count(),
    "Sum": lambda function, kind, result, ansi: Sum(_summable(result), ansi),
    "Average": lambda function, kind, result, ansi: Average(_summable(result), ansi),
    "Min": lambda function, kind, result, ansi: Extreme(kind, is_greatest=False),
    "Max": lambda function, kind, result, ansi: Extreme(kind, is_greatest=True),
    "First": lambda function, kind, result, ansi: EndValue(kind, False, bool(function.ignoreNulls())),
    "Last": lambda function, kind, result, ansi: EndValue(kind, True, bool(function.ignoreNulls())),
    "StddevSamp": lambda function, kind, result, ansi: Deviation(is_sample=True, is_root=True),
    "StddevPop": lambda function, kind, result, ansi: Deviation(is_sample=False, is_root=True),
    "VarianceSamp": lambda function, kind, result, ansi: Deviation(is_sample=True, is_root=False),
    "VariancePop": lambda function, kind, result, ansi: Deviation(is_sample=False, is_root=False),
    "HyperLogLogPlusPlus": lambda function, kind, result, ansi: DistinctCount(float(function.relativeSD())),
}
"""By Spark's class. Each is given the function, the types of its values and its result, and whether ANSI mode is on."""
_KINDS: Final = {"StddevSamp": "stddev", "VarianceSamp": "variance", "Average": "avg"}
"""Names of states; functions that Spark gives several names have one here."""


def _summable(kind: pa.DataType) -> pa.DataType:
    if not (pa.types.is_int64(kind) or pa.types.is_float64(kind) or pa.types.is_decimal(kind)):
        raise errors.SpecInvalid(f"values of type {kind} cannot be summed in a window")
    return kind
