"""A restore refuses key columns that Spark hashes otherwise than those by which the state was stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as T
from support.storage.checkpoints import inline_shard, metadata

from sparkstate import errors
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.compatibility import differences
from sparkstate.driver import restoring
from sparkstate.functions import KeyedProcessFunction
from sparkstate.handles import StateMeta
from sparkstate.spark import graph, planning


def declared(kind: T.DataType, uid: str = "clicks", keys: tuple[str, ...] = ("user",)) -> graph.Graph:
    """One operator over an input whose column ``user`` has the type."""
    found = graph.Graph()
    schema = T.StructType([T.StructField("user", kind)])
    found.add_sources([graph.Source(frame=SimpleNamespace(schema=schema))])  # type: ignore[arg-type]
    found.add(
        graph.Operator(
            uid=uid,
            function=KeyedProcessFunction(),
            keys=keys,
            upstream=None,
            event_time=None,
            output_schema="user string",
        )
    )
    return found


def state(uid: str, key_type: str = "LONG", kind: str = "value") -> StateMeta:
    value_type = "LONG" if kind == "value" else ""
    return StateMeta(
        uid=uid, name=kind, kind=kind, key_type=key_type, namespace_type="", value_type=value_type
    )


def restored(before: graph.Graph, **changes: Any) -> RestoredSnapshot:
    fields = {"key_columns": planning.key_columns(before), "states": (state("clicks"),)} | changes
    return RestoredSnapshot(
        RestorePlan("checkpoint", "", "s3://b/chk-1"), metadata((inline_shard(0),), **fields)
    )


BEFORE = declared(T.IntegerType())
WIDER = declared(T.LongType())


def test_a_key_that_hashes_otherwise_is_refused_with_operator_column_and_types() -> None:
    with pytest.raises(errors.StateMigrationError) as refused:
        restoring.require_keys(restored(BEFORE), WIDER)
    told = str(refused.value)
    assert "operator 'clicks' whose type of key column 'user' was int and is now bigint" in told
    assert "Cast the column to int" in told


def test_types_of_one_hash_and_the_same_type_are_restored() -> None:
    restoring.require_keys(restored(BEFORE), BEFORE)
    restoring.require_keys(restored(BEFORE), declared(T.ByteType()))
    restoring.require_keys(RestoredSnapshot(RestorePlan("empty", "")), BEFORE)


@pytest.mark.parametrize(
    "snapshot",
    [
        restored(BEFORE, key_columns={}),
        restored(BEFORE, states=()),
        restored(BEFORE, states=(state("clicks", key_type=""),)),
        restored(declared(T.IntegerType(), uid="gone")),
    ],
    ids=["an older version's", "nothing stored", "operator state alone", "of another operator"],
)
def test_snapshots_without_state_by_such_a_key_are_not_compared(snapshot: RestoredSnapshot) -> None:
    restoring.require_keys(snapshot, WIDER)


def test_an_operator_without_keys_has_no_key_columns() -> None:
    assert planning.key_columns(declared(T.IntegerType(), keys=())) == {}


@pytest.mark.parametrize("columns", [planning.key_columns(BEFORE), {}], ids=["of now", "an older version's"])
def test_timers_of_an_operator_without_keys_are_refused_and_its_other_state_is_not(columns: Any) -> None:
    unkeyed = declared(T.IntegerType(), keys=())
    values, timers = state("clicks"), state("clicks", kind="processing-timers")
    restoring.require_keys(restored(BEFORE, key_columns=columns, states=(values,)), unkeyed)
    with_timers = restored(BEFORE, key_columns=columns, states=(values, timers))
    restoring.require_keys(with_timers, BEFORE)
    told = r"'clicks' whose key type was LONG and is now none; timers that it has left would never fire\. Key its "
    with pytest.raises(errors.StateMigrationError, match=told):
        restoring.require_keys(with_timers, unkeyed)


def test_a_check_of_an_older_snapshot_says_what_it_cannot_see() -> None:
    (notice,) = differences.key_notices({"TUPLE<STRING,LONG>", ""})
    assert "int in place of bigint" in notice
    assert differences.key_notices({"STRING", ""}) == ()
