"""Sparing Spark the weighing of Arrow batches where it cannot matter (RFC 0061).

Spark ends a batch for Python at ``maxRecordsPerBatch`` rows, or at ``maxBytesPerBatch`` bytes if these come first. For
the bytes it weighs the whole batch again with each row, a quarter of what the JVM does to bring a row of two
longs to Python. Rows of a fixed width have a greatest weight. Where even the largest batch of them stays below the
bytes, weighing ends no batch, so it is turned off. No batch changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from sparkstate.spark import graph, plans

BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
UNWEIGHED: Final = 2**31 - 1
"""Of ``BYTES``: the value at which Spark does not weigh."""
_WIDTHS: Final[dict[type[T.DataType], int]] = {
    T.NullType: 1,
    T.BooleanType: 1,
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 4,
    T.FloatType: 4,
    T.DateType: 4,
    T.LongType: 8,
    T.DoubleType: 8,
    T.TimestampType: 8,
    T.TimestampNTZType: 8,
    T.DayTimeIntervalType: 8,
    T.DecimalType: 16,
}
_VALIDITY: Final = 1
"""Bytes that a value takes beside its own: an eighth would do."""
_HIDDEN: Final = 128
"""Bytes of a row that its frame does not show: the hidden columns of an operator that selects its own."""


def is_idle(rows: DataFrame, declared: graph.Graph, *, is_selected: bool) -> bool:
    """Whether weighing can end no batch of the query with these ``rows``, so that :func:`turn_off` changes none.

    ``is_selected``: the rows have the columns that tasks ship. Where Python takes part in the query itself, the rows on
    the way to it are not known here, and the answer is no.
    """
    operators = declared.operators.values()
    width = _width(rows.schema.fields)
    # An operator's own columns are unknown, and so are another operator's rows, which a second try joins to these.
    unknown = any(each.computed or each.is_mixed for each in operators)
    if width is None or (not is_selected and unknown):
        return False
    if not is_selected:
        width *= 2  # keys are shipped a second time where their canonical form is another
    width += _HIDDEN + sum(map(_width_of_parts, operators))
    return fits(rows.sparkSession, width) and not _has_python(rows)


def turn_off(session: SparkSession) -> None:
    """Let Spark weigh no batch of the plans that ``session`` makes later."""
    session.conf.set(BYTES, str(UNWEIGHED))


def session_of_outputs(session: SparkSession, declared: graph.Graph) -> SparkSession:
    """The session in which operators read the outputs of others: a copy of ``session`` that weighs no batch, where
    weighing could end none; otherwise ``session`` itself, in which sinks read."""
    behind = [each for each in declared.operators.values() if any(one.upstream for one in each.inputs)]
    if not behind or not all(_is_idle_behind(session, declared, each) for each in behind):
        return session
    copy = session._jsparkSession.cloneSession()
    made = SparkSession(session.sparkContext, jsparkSession=copy)
    turn_off(made)
    return made


def _is_idle_behind(session: SparkSession, declared: graph.Graph, operator: graph.Operator) -> bool:
    """The same for one operator behind others. A second try would join its rows to those of an input of the job."""
    if operator.computed or operator.is_mixed:
        return False
    structs = [plans.stream_type(declared, each.upstream, each.source) for each in operator.inputs]
    width = _width([field for struct in structs for field in struct.fields])
    return width is not None and fits(session, 2 * width + _HIDDEN + _width_of_parts(operator))


def _width_of_parts(operator: graph.Operator) -> int:
    """Bytes of the parts of accumulators in a combined row."""
    parts = 0 if operator.combining is None else len(operator.combining.parts)
    return parts * (_WIDTHS[T.DecimalType] + _VALIDITY)


def width_of(kind: T.DataType) -> int | None:
    """The greatest number of bytes of a value in an Arrow batch; None: it has no bound."""
    found = _width(kind.fields) if isinstance(kind, T.StructType) else _WIDTHS.get(type(kind))
    return None if found is None else found + _VALIDITY


def _width(fields: Sequence[T.StructField]) -> int | None:
    widths = [width_of(field.dataType) for field in fields]
    known = [width for width in widths if width is not None]
    return sum(known) if len(known) == len(widths) else None


def fits(session: SparkSession, width: int) -> bool:
    """Whether a batch with as many rows of this width as the session allows stays below its limit of bytes."""
    conf = session._jsparkSession.sessionState().conf()  # which reads units such as 64m
    records = int(conf.arrowMaxRecordsPerBatch())
    return records > 0 and records * width < int(conf.arrowMaxBytesPerBatch())


def _has_python(rows: DataFrame) -> bool:
    """Whether Python takes part in the query, by a function on columns, on batches or, perhaps, by one that makes
    tables: Spark counts these among its generators, such as ``explode``, and tells them from others by no pattern."""
    patterns = rows.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    plan = rows._jdf.queryExecution().analyzed()
    return any(plan.containsPattern(each) for each in (patterns.PYTHON_UDF(), patterns.GENERATOR()))
