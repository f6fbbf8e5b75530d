"""Reading Spark plans: the event time of a source, sources that cannot work, key columns, Arrow schemas."""

from __future__ import annotations

import base64
import datetime
import decimal
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from py4j.java_gateway import get_field
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from sparkstate import columns, errors
from sparkstate.functions import OutputTag
from sparkstate.serde.types import TypeInformation, Types
from sparkstate.spark import graph, source_limits

_STATEFUL = re.compile(
    r"^(Aggregate|Deduplicate|DeduplicateWithinWatermark|TransformWithState|FlatMapGroupsWithState|"
    r"FlatMapGroupsIn\w+WithState|TransformWithStateIn\w+|GlobalLimit|Limit)$"
)
_REFUSED_SOURCES = {
    "rate": "it has no bound per epoch: use 'rate-micro-batch' with rowsPerBatch",
    "socket": "it cannot be read again after a failure: use Kafka or files",
}
_RELATIONS = ("StreamingRelation", "StreamingRelationV2")
KAFKA_PARTITION = ("topic", "partition")
"""The columns of a Kafka source that tell a row's partition."""


def nodes(frame: DataFrame) -> Iterator[Any]:
    """Every node of the analysed plan (py4j objects)."""
    pending = [frame._jdf.queryExecution().analyzed()]
    while pending:
        node = pending.pop()
        yield node
        children = node.children()
        pending.extend(children.apply(i) for i in range(children.size()))


def watermark_of(frame: DataFrame) -> tuple[str | None, int]:
    """Column and delay (ms) of ``withWatermark`` on the frame; (None, 0) if there is none."""
    for node in nodes(frame):
        if node.nodeName() == "EventTimeWatermark":
            column = str(node.eventTime().name())
            if column not in frame.columns:
                raise errors.SpecInvalid(
                    f"withWatermark was set on {column!r}, which the DataFrame no longer has ({frame.columns}); "
                    "keep the column or say keyed(…, event_time=…, delay=…)"
                )
            interval = node.delay()
            # Public fields of CalendarInterval; py4j takes a plain attribute for a method.
            months, days, microseconds = (
                get_field(interval, name) for name in ("months", "days", "microseconds")
            )
            return column, (months * 31 + days) * 86_400_000 + microseconds // 1000
    return None, 0


def check_event_time(struct: T.StructType, column: str, call: str) -> None:
    """Event time is a column of the stream: a timestamp, or a long of milliseconds. Errors name the ``call``."""
    if column not in struct.names:
        raise errors.SpecInvalid(f"{call}(event_time={column!r}): give one of the columns {struct.names}")
    kind = struct[column].dataType
    if not isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.LongType)):
        raise errors.SpecInvalid(
            f"{call}(event_time={column!r}): the column is {kind.simpleString()}; it must be a timestamp, or a bigint "
            "of milliseconds"
        )


def check_partition_columns(frame: DataFrame, names: Sequence[str], call: str) -> None:
    """The columns of ``watermark_partition``: there, and of types that a checkpoint can name a part by."""
    for name in names:
        if name not in frame.columns:
            raise errors.SpecInvalid(
                f"{call}(watermark_partition=…): the DataFrame has no column {name!r}; give some of {frame.columns}"
            )
        kind = frame.schema[name].dataType
        if not isinstance(kind, (T.StringType, T.ByteType, T.ShortType, T.IntegerType, T.LongType)):
            raise errors.SpecInvalid(
                f"{call}(watermark_partition=…): column {name!r} is {kind.simpleString()}; it must be a string or a "
                "whole number"
            )


def has_kafka_partitions(frame: DataFrame) -> bool:
    """Whether the frame's columns ``topic`` and ``partition`` are those of a Kafka source beneath it, unchanged."""
    ours = set(_attributes(frame._jdf.queryExecution().analyzed()))
    theirs = [a for node in _kafka_relations(frame) for a in _attributes(node) if a[0] in KAFKA_PARTITION]
    return bool(theirs) and ours.issuperset(theirs)


def reads_kafka(frame: DataFrame) -> bool:
    """Whether a Kafka source is beneath it."""
    return any(True for _ in _kafka_relations(frame))


def _kafka_relations(frame: DataFrame) -> Iterator[Any]:
    for node in nodes(frame):
        if node.getClass().getSimpleName() == "StreamingRelationV2" and str(node.sourceName()) == "kafka":
            yield node


def _attributes(node: Any) -> Iterator[tuple[str, int]]:
    """Name and id of what a plan's node puts out; the id changes with any change of the column."""
    output = node.output()
    for place in range(output.size()):
        attribute = output.apply(place)
        yield str(attribute.name()), int(attribute.exprId().id())


def source_formats(frame: DataFrame) -> tuple[str, ...]:
    """The formats that the frame reads, such as ``kafka``: each once, in the order of the plan. Options and paths are
    left out, because they may hold credentials."""
    relations = (n for n in nodes(frame) if n.getClass().getSimpleName() in _RELATIONS)
    return tuple(dict.fromkeys(_format(str(node.sourceName())) for node in relations))


def source_uses(frame: DataFrame) -> tuple[str, ...]:
    """The format of each streaming source that the frame reads, one for each line of offsets that Spark writes, in that
    order. A source that is read twice has two."""

    def found(node: Any) -> Iterator[str]:
        if node.getClass().getSimpleName() in _RELATIONS:
            yield _format(str(node.sourceName()))
        children = node.children()
        for at in range(children.size()):
            yield from found(children.apply(at))

    return tuple(found(frame._jdf.queryExecution().analyzed()))


def check_source(frame: DataFrame, call: str = "keyed") -> None:
    """Refuse a source that would lose or repeat rows, with a sentence that names the ``call``."""
    if not isinstance(frame, DataFrame) or not hasattr(frame, "_jdf"):
        raise errors.SpecInvalid(
            f"sparkstate.{call} got {type(frame).__name__}; it needs a streaming DataFrame of a classic session "
            "(Spark Connect cannot reach the executors' slots)"
        )
    if not frame.isStreaming:
        raise errors.SpecInvalid(f"sparkstate.{call} got a batch DataFrame; read it with spark.readStream")
    for name in frame.columns:
        if name.startswith(columns.PREFIX):
            raise errors.SpecInvalid(f"column {name!r}: names starting with {columns.PREFIX!r} are reserved")
    for node in nodes(frame):
        name = str(node.nodeName())
        if _STATEFUL.match(name) and node.isStreaming():
            raise errors.SpecInvalid(
                f"the input of sparkstate.{call} holds Spark's own stateful operator {name}; its state would not be in "
                "our checkpoints: do that step in a KeyedProcessFunction"
            )
        if name == "Sort" and node.isStreaming():
            raise errors.SpecInvalid(
                f"the input of sparkstate.{call} is ordered, and Spark cannot sort a stream: take orderBy, sort or "
                "sortWithinPartitions out; process(…, sort_by_event_time=True) sorts a key's rows in each epoch"
            )
        if name == "Join" and all(node.children().apply(i).isStreaming() for i in range(2)):
            raise errors.SpecInvalid(
                f"the input of sparkstate.{call} holds a stream-stream join; join in a KeyedProcessFunction"
            )
        if node.getClass().getSimpleName() in _RELATIONS:
            _check_relation(node)


def _check_relation(node: Any) -> None:
    source = str(node.sourceName())
    if node.getClass().getSimpleName() == "StreamingRelationV2":
        provider, options = source, dict(node.extraOptions().asCaseSensitiveMap())
    else:
        provider, options = str(node.dataSource().className()), _scala_map(node.dataSource().options())
    lowered = {key.lower(): str(value) for key, value in options.items()}
    short = _format(source)
    if short in _REFUSED_SOURCES:
        raise errors.SpecInvalid(f"source {short!r} is refused: {_REFUSED_SOURCES[short]}")
    if lowered.get("cleansource", "off").lower() != "off":
        raise errors.SpecInvalid(
            f"source option cleanSource={lowered['cleansource']!r} frees files when Spark commits, before our "
            "checkpoint does: rows would be lost after a failure; leave it off and clean up by age"
        )
    if not source_limits.is_bounded(short, options):
        raise errors.SpecInvalid(
            f"source {source!r} has no bound per epoch, so the first epoch after an outage could not fit; "
            f"{source_limits.remedy(short, provider, options)}"
        )


def _format(source: str) -> str:
    """The format in the name that Spark gives a relation."""
    return "file" if source.lower().startswith("filesource") else source.split(" ", maxsplit=1)[0].lower()


def _scala_map(options: Any) -> dict[str, str]:
    iterator = options.iterator()
    result = {}
    while iterator.hasNext():
        pair = iterator.next()
        result[str(pair._1())] = str(pair._2())
    return result


def canonical_key(name: str, kind: T.DataType, column: Column | None = None) -> Column:
    """The key column with one representation per value: ``-0.0`` is ``0.0``, every NaN the same. ``column`` is where
    it lies, if not under its name."""
    column = F.col(columns.quoted(name)) if column is None else column
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        zero, nan = F.lit(0.0).cast(kind), F.lit(float("nan")).cast(kind)
        return F.when(F.isnan(column), nan).when(column == zero, zero).otherwise(column)
    return column


def key_type(name: str, kind: T.DataType) -> TypeInformation:
    """The key's type in the slots. Only types with one binary form per value are keys."""
    simple: dict[type[T.DataType], TypeInformation] = {
        T.BooleanType: Types.BOOLEAN(),
        T.ByteType: Types.LONG(),
        T.ShortType: Types.LONG(),
        T.IntegerType: Types.LONG(),
        T.LongType: Types.LONG(),
        T.FloatType: Types.DOUBLE(),
        T.DoubleType: Types.DOUBLE(),
        T.DecimalType: Types.BIG_DEC(),
        T.DateType: Types.SQL_DATE(),
        T.TimestampType: Types.INSTANT(),
        T.TimestampNTZType: Types.SQL_TIMESTAMP(),
        T.BinaryType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    }
    if isinstance(kind, T.StringType):
        if getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
            raise errors.SpecInvalid(
                f"key column {name!r} has the collation {kind.collation}; equal keys would differ in their bytes: "
                "key by collate(…, 'UTF8_BINARY') of a normalised column"
            )
        return Types.STRING()
    try:
        return simple[type(kind)]
    except KeyError:
        raise errors.SpecInvalid(
            f"key column {name!r} is {kind.simpleString()}; keys are strings, numbers, booleans, dates, timestamps, "
            "decimals or binary"
        ) from None


def key_group(keys: list[Column], max_parallelism: int) -> Column:
    """``pmod(xxhash64(canonical key columns), max parallelism)``: the one place where key groups are computed."""
    return F.pmod(F.xxhash64(*keys), F.lit(max_parallelism)).cast("int")


def slot_of(key_group_column: Column, max_parallelism: int, shards: int, slots: int) -> Column:
    """The slot that owns a key group, by the arithmetic of ``keygroups.KeySpace``."""
    shard = F.floor(key_group_column.cast("long") * shards / max_parallelism)
    return F.floor(shard * slots / shards).cast("int")


def event_time_ms(column: str | Column, kind: T.DataType) -> Column:
    """Event time as milliseconds since the Unix epoch."""
    given = F.col(columns.quoted(column)) if isinstance(column, str) else column
    return given if isinstance(kind, T.LongType) else F.unix_millis(given.cast("timestamp"))


def schema_of(ddl: str, what: str) -> T.StructType:
    """Parse a DDL schema string. ``what`` names the argument in an error."""
    if not isinstance(ddl, str):
        raise errors.SpecInvalid(f"{what} is {ddl!r}; write columns: 'name string, total long'")
    return _parsed(ddl, what)


@functools.lru_cache(maxsize=256)
def _parsed(ddl: str, what: str) -> T.StructType:
    """Remembered, because every epoch asks and the parser is the JVM's."""
    try:
        parsed = T.StructType.fromDDL(ddl)
    except Exception as error:
        # The message of a parser begins with an empty line.
        told = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise errors.SpecInvalid(
            f"{what} is {ddl!r}, which Spark cannot parse: {told} Write columns: 'name string, total long'"
        ) from error
    if not isinstance(parsed, T.StructType) or not parsed.fields:
        raise errors.SpecInvalid(f"{what} is {ddl!r}; write columns: 'name string, total long'")
    names = parsed.fieldNames()
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise errors.SpecInvalid(
            f"{what} is {ddl!r}, which has the column {twice[0]!r} more than once; give each a name of its own"
        )
    return parsed


def ddl_of(struct: T.StructType) -> str:
    """The DDL string of a schema: the inverse of :func:`schema_of`."""
    quoted = (field.name.replace("`", "``") for field in struct)
    return ", ".join(
        f"`{name}` {field.dataType.simpleString()}" for name, field in zip(quoted, struct, strict=True)
    )


def arrow_schema(struct: T.StructType) -> pa.Schema:
    """Arrow schema of a Spark schema; timestamps in UTC."""
    return to_arrow_schema(struct, timezone="UTC")


def input_type(declared: graph.Graph, operator: graph.Operator) -> T.StructType:
    """The columns that the rows of an operator's first input have."""
    return stream_type(declared, operator.upstream, operator.source)


def stream_type(
    declared: graph.Graph, upstream: tuple[str, str | None] | None, source: int = 0
) -> T.StructType:
    """The columns of an operator's output; without one, of an input of the job."""
    if upstream is None:
        return declared.sources_of(source)[0][1].frame.schema
    return output_type(declared, *upstream)


def output_type(declared: graph.Graph, uid: str, tag: str | None) -> T.StructType:
    """The columns of an operator's main or side output."""
    operator = declared.operators[uid]
    if tag is None:
        return schema_of(operator.output_schema, f"output_schema of {uid!r}")
    declared_tag = operator.side_outputs.get(tag)
    if declared_tag is not None and declared_tag.schema is not None:
        return schema_of(declared_tag.schema, f"schema of side output {tag!r} of {uid!r}")
    second = operator.second
    of_second = _is(operator.second_late_tag, tag) or _is(operator.second_error_tag, tag)
    if second is not None and of_second:
        rows = stream_type(declared, second.upstream, second.source)
    else:
        rows = input_type(declared, operator)
    if _is(operator.error_tag, tag) or _is(operator.second_error_tag, tag):
        return _with_error(rows, uid)
    return rows


def _with_error(rows: T.StructType, uid: str) -> T.StructType:
    # Spark reads no file in which two names differ by case alone, and JSON keeps one of two columns.
    taken = next((name for name in rows.fieldNames() if name.lower() == columns.ERROR), None)
    if taken is not None:
        raise errors.SpecInvalid(
            f"operator {uid!r}: its input has a column {taken!r}, and the output of rejected rows puts the error's "
            f"text into a column {columns.ERROR!r} beside it; rename the input's column before keyed, for example "
            f"df.withColumnRenamed({taken!r}, 'failure')"
        )
    return T.StructType([*rows.fields, T.StructField(columns.ERROR, T.StringType())])


def _is(tag: OutputTag | None, tag_id: str) -> bool:
    return tag is not None and tag.tag_id == tag_id


def with_timestamp(struct: T.StructType) -> T.StructType:
    """The columns of an output that feeds another operator: the hidden timestamp comes last."""
    return T.StructType([*struct.fields, T.StructField(columns.TIMESTAMP, T.LongType())])


def key_group_of(
    session: SparkSession, struct: T.StructType, keys: Sequence[str], key: Sequence[Any], max_parallelism: int
) -> int:
    """The key group of one key, given as a value for each column, computed by Spark as always."""
    literals = [
        _literal(value, struct[name].dataType).alias(name) for name, value in zip(keys, key, strict=True)
    ]
    one = session.range(1).select(*literals)
    canonical = [canonical_key(name, struct[name].dataType) for name in keys]
    row = one.select(key_group(canonical, max_parallelism).alias("g")).first()
    assert row is not None
    return int(row.g)


def _literal(value: Any, kind: T.DataType) -> Column:
    """Times, decimals and bytes go as text: py4j would take a time for one of this machine's zone."""
    if isinstance(value, bytes):
        return F.unbase64(F.lit(base64.b64encode(value).decode("ascii")))
    if isinstance(value, datetime.date):
        value = value.isoformat()
    elif isinstance(value, decimal.Decimal):
        value = format(value, "f")
    return F.lit(value).cast(kind)
