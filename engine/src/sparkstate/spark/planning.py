"""From the declared graph to the plans of slots: operator specs with Arrow schemas and key types."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from sparkstate import columns, errors
from sparkstate.checkpoint.key_columns import KeyColumn
from sparkstate.functions import OutputTag
from sparkstate.operators import kinds
from sparkstate.operators.spec import KeyedSpec
from sparkstate.operators.state import asked_keys
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots.plan import SinkPlan
from sparkstate.spark import graph, plans, shipping
from sparkstate.storage import naming


def operator_specs(declared: graph.Graph) -> tuple[KeyedSpec, ...]:
    """One spec per operator, upstream first (declaration order is topological)."""
    return tuple(_spec(declared, operator) for operator in declared.operators.values())


def _spec(declared: graph.Graph, operator: graph.Operator) -> KeyedSpec:
    struct = plans.input_type(declared, operator)
    key_types = [plans.key_type(name, struct[name].dataType) for name in operator.keys]
    has_time = any(each.has_event_time for each in operator.inputs)
    keys = shipping.key_columns(operator, struct)
    return kinds.spec(
        operator.function,
        uid=operator.uid,
        row_columns=(
            *(struct.names if operator.shipped is None else operator.shipped),
            *(name for name, _ in operator.computed),
        ),
        combined_columns=() if operator.combining is None else (*keys, *operator.combining.columns),
        key_columns=keys,
        key_type=_key_type(key_types),
        event_time_column=columns.TIMESTAMP if has_time else None,
        output_schema=plans.arrow_schema(plans.output_type(declared, operator.uid, None)),
        side_schemas={
            tag: _side_schema(declared, operator.uid, tag) for tag in sorted(operator.side_outputs)
        },
        on_error=operator.on_error,
        error_tag=operator.error_tag.tag_id if operator.error_tag is not None else "errors",
        late_tag=_id(operator.late_tag),
        sort_by_event_time=operator.sort_by_event_time,
        emit_timestamps=declared.feeds_an_operator(operator.uid, None),
        **_second(declared, operator),
    )


def _side_schema(declared: graph.Graph, uid: str, tag: str) -> pa.Schema:
    struct = plans.output_type(declared, uid, tag)
    return plans.arrow_schema(
        plans.with_timestamp(struct) if declared.feeds_an_operator(uid, tag) else struct
    )


def key_columns(declared: graph.Graph) -> dict[str, tuple[KeyColumn, ...]]:
    """By uid the columns of an operator's key, as its rows are hashed; those of two inputs have the same types."""
    found = {}
    for uid, operator in declared.operators.items():
        struct = plans.input_type(declared, operator) if operator.keys else None
        if struct is not None:
            found[uid] = tuple(
                KeyColumn(name=name, type=struct[name].dataType.simpleString()) for name in operator.keys
            )
    return found


def key_of(declared: graph.Graph, operator: graph.Operator, given: Any) -> tuple[Any, ...]:
    """A key that was asked for in JSON, a list for several columns, as a value for each column. Raises
    ``SerializationError``, which names the column, its type and an example."""
    struct = plans.input_type(declared, operator)
    values = given if isinstance(given, list) else [given]
    if len(values) != len(operator.keys):
        raise errors.SerializationError(
            f"the key {given!r} has {len(values)} part(s); the operator is keyed by {list(operator.keys)}"
        )
    return tuple(
        _key_of_column(name, struct[name].dataType, value)
        for name, value in zip(operator.keys, values, strict=True)
    )


def _key_of_column(name: str, kind: T.DataType, given: Any) -> Any:
    try:
        value = asked_keys.key_of(plans.key_type(name, kind), given)
    except errors.SerializationError as error:
        raise errors.SerializationError(f"key column {name!r} is {kind.simpleString()}: {error}") from error
    # A key of 32 bits has lost digits before it came to the slot.
    return ctypes.c_float(value).value if isinstance(kind, T.FloatType) and value is not None else value


def _key_type(of_columns: Sequence[TypeInformation]) -> TypeInformation:
    if not of_columns:
        return Types.LONG()  # of no column: rows without keys have no state by key, and any type does
    return of_columns[0] if len(of_columns) == 1 else Types.TUPLE(list(of_columns))


def _second(declared: graph.Graph, operator: graph.Operator) -> dict[str, Any]:
    """The fields of a spec that are about a second input."""
    second = operator.second
    if second is None:
        return {}
    names = plans.stream_type(declared, second.upstream, second.source).names
    found: dict[str, Any] = {
        "second_columns": tuple(names),
        "second_late_tag": _id(operator.second_late_tag),
        "second_error_tag": _id(operator.second_error_tag) or "errors2",
    }
    return found | {"states": operator.broadcast_states} if second.is_broadcast else found


def _id(tag: OutputTag | None) -> str | None:
    return None if tag is None else tag.tag_id


def sink_plans(declared: graph.Graph) -> tuple[SinkPlan, ...]:
    """The sinks that run in the slots. A relative path is taken from the driver's folder; slots work elsewhere."""
    return tuple(
        SinkPlan(
            uid=node.uid,
            operator=node.operator,
            tag=node.tag,
            sink=replace(node.sink, path=naming.normalise_url(node.sink.path)),
        )
        for node in declared.sinks
        if isinstance(node.sink, FileSink)
    )


def check_files(declared: graph.Graph) -> None:
    """Raise ``SpecInvalid`` for an output that the files of its sink cannot hold."""
    for node in declared.sinks:
        if isinstance(node.sink, FileSink):
            node.sink.check(
                plans.arrow_schema(plans.output_type(declared, node.operator, node.tag)), node.uid
            )
