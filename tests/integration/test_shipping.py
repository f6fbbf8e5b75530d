"""The columns that tasks ship of each row, selected by Spark: every way in which an operator gets its inputs."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.spark import spark_session

from sparkstate import KeyedCoProcessFunction, KeyedProcessFunction, OutputTag, columns
from sparkstate.spark import graph, planning, shipping

pytestmark = pytest.mark.spark
GROUPS = [3, 70]
"""A key group of each of two slots."""
A = [(1.0, "x", 10), (-0.0, "y", 20)]
B = [(0.0, 30), (2.0, None)]


def declare() -> tuple[graph.Graph, DataFrame]:
    """Two inputs with columns of their own, and their union as a query makes it."""
    session = spark_session.get()
    frames = [
        session.createDataFrame(A, "k double, text string, at bigint"),
        session.createDataFrame(B, "name double, at bigint"),
    ]
    declared = graph.Graph()
    for frame in frames:
        declared.add_sources([graph.Source(frame=frame, event_time="at")])
    parts = [
        source.frame.select(*shipping.of_source(declared, source)).withColumn(columns.SOURCE, F.lit(number))
        for number, source in enumerate(declared.sources)
    ]
    return declared, reduce(DataFrame.union, parts)


def operator(
    first: tuple[str, int] = ("k", 0), second: graph.Input | None = None, upstream: Any = None
) -> graph.Operator:
    return graph.Operator(
        uid="op",
        function=KeyedCoProcessFunction(),
        keys=(first[0],),
        upstream=upstream,
        source=first[1],
        event_time=None if upstream else "at",
        output_schema="k double, text string, at bigint",
        second=second,
    )


OF_B = graph.Input(keys=("name",), upstream=None, event_time="at", source=1)


def rows(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.select(*[f"`{name}`" for name in names]).collect()), key=str)


def ship(declared: graph.Graph, made: graph.Operator) -> shipping.Shipping:
    return shipping.Shipping(declared, made, 128, GROUPS)


ALONE = (
    columns.of_input(0, "text"),
    columns.of_input(1, "name"),
    columns.INPUT,
    columns.SOURCE,
    columns.TIMESTAMP,
)


def test_an_operator_with_one_of_two_inputs_gets_its_rows_alone() -> None:
    declared, frame = declare()
    shipped = ship(declared, operator()).of_epoch(frame)
    assert rows(shipped, "text", columns.SOURCE, columns.TIMESTAMP) == [("x", 0, 10), ("y", 0, 20)]
    of_b = ship(declared, operator(("name", 1))).of_epoch(frame)
    assert rows(of_b, "name", columns.SOURCE) == [(0.0, 1), (2.0, 1)]


def test_both_inputs_come_in_one_selection_with_equal_key_groups_for_equal_keys() -> None:
    declared, frame = declare()
    shipped = ship(declared, operator(second=OF_B)).of_epoch(frame)
    assert rows(shipped, *ALONE) == sorted(
        [("x", None, 0, 0, 10), ("y", None, 0, 0, 20), (None, 0.0, 1, 1, 30), (None, 2.0, 1, 1, None)],
        key=str,
    )
    groups = {
        (row[columns.INPUT], row[f"{columns.KEY_PREFIX}0"]): row[columns.KEY_GROUP]
        for row in shipped.collect()
    }
    assert groups[0, 0.0] == groups[1, 0.0]
    assert len(set(groups.values())) == 3


def test_an_input_connected_with_itself_comes_twice() -> None:
    session = spark_session.get()
    frame = session.createDataFrame(A, "k double, text string, at bigint")
    declared = graph.Graph()
    declared.add_sources([graph.Source(frame=frame, event_time="at")])
    again = graph.Input(keys=("k",), upstream=None, event_time=None)
    shipped = ship(declared, operator(second=again)).of_epoch(frame)
    assert rows(
        shipped, columns.of_input(0, "text"), columns.of_input(1, "text"), columns.TIMESTAMP
    ) == sorted([("x", None, 10), ("y", None, 20), (None, "x", None), (None, "y", None)], key=str)


def test_rows_of_a_side_output_keep_the_event_time_with_which_they_come() -> None:
    declared, _ = declare()
    declared.add(replace(operator(), function=KeyedProcessFunction()))
    declared.operators["op"].side_outputs["side"] = OutputTag("side", "name double, at bigint")
    frame = spark_session.get().createDataFrame(B, "name double, at bigint")
    output = {0: frame.withColumn(columns.TIMESTAMP, F.lit(5).cast("long"))}
    alone = replace(operator(("name", 0), upstream=("op", "side")), uid="next")
    assert rows(ship(declared, alone).of_outputs(output), "name", columns.TIMESTAMP) == [(0.0, 5), (2.0, 5)]
    connected = replace(alone, second=graph.Input(keys=("name",), upstream=("op", "side"), event_time="at"))
    shipped = ship(declared, connected).of_outputs({**output, 1: output[0]})
    assert rows(shipped, columns.TIMESTAMP) == [(30,), (5,), (5,), (None,)]
    declared.add(replace(alone, function=KeyedProcessFunction()))
    of_op = planning.operator_specs(declared)[0]
    assert of_op.side_schemas["side"].names == ["name", "at", columns.TIMESTAMP]
    assert not of_op.emit_timestamps


def test_rows_of_an_output_have_the_columns_of_those_of_a_source() -> None:
    declared, frame = declare()
    declared.add(operator())
    made = operator(upstream=("op", None), second=OF_B)
    output = spark_session.get().createDataFrame(A, "k double, text string, at bigint")
    shipped = ship(declared, made)
    of_output = shipped.of_outputs({0: output.withColumn(columns.TIMESTAMP, F.lit(5).cast("long"))})
    of_source = shipped.of_epoch(frame)
    assert [(f.name, f.dataType) for f in of_output.schema] == [
        (f.name, f.dataType) for f in of_source.schema
    ]
    together = of_source.union(of_output)
    assert rows(together, *ALONE) == sorted(
        [("x", None, 0, None, 5), ("y", None, 0, None, 5), (None, 0.0, 1, 1, 30), (None, 2.0, 1, 1, None)],
        key=str,
    )


def test_broadcast_rows_go_to_every_slot_with_one_order_and_keyed_rows_to_one() -> None:
    declared, frame = declare()
    rules = graph.Input(keys=(), upstream=None, event_time="at", source=1, is_broadcast=True)
    shipped = ship(declared, operator(second=rules)).of_epoch(frame.repartition(3)).collect()
    keyed = [row for row in shipped if row[columns.INPUT] == 0]
    assert sorted(row[columns.of_input(0, "text")] for row in keyed) == ["x", "y"]
    orders = {
        group: {
            row[columns.of_input(1, "name")]: row[columns.ORDER]
            for row in shipped
            if row[columns.INPUT] == 1 and row[columns.KEY_GROUP] == group
        }
        for group in GROUPS
    }
    assert set(orders[3]) == {0.0, 2.0}
    assert orders[3] == orders[70]
    assert len(set(orders[3].values())) == 2
    assert len(shipped) == 2 + 2 * len(GROUPS)


@pytest.mark.parametrize("count", [1, 2], ids=["one input", "two inputs"])
def test_columns_may_have_any_characters_in_their_names(count: int) -> None:
    session = spark_session.get()
    names = ("k`", "`a`b`", "a.b", "at ``")
    frames = [session.createDataFrame([("x", 1, 2, 3)], schema=list(names)) for _ in range(count)]
    declared = graph.Graph()
    for frame in frames:
        declared.add_sources([graph.Source(frame=frame, event_time=names[3])])
    made = replace(operator((names[0], 0)), event_time=names[3])
    if count == 2:
        made.second = graph.Input(keys=(names[0],), upstream=None, event_time=names[3], source=1)
    shipped = [
        ship(declared, made).of_epoch(
            source.frame.select(*shipping.of_source(declared, source)).withColumn(
                columns.SOURCE, F.lit(number)
            )
        )
        for number, source in enumerate(declared.sources)
    ]
    for number, each in enumerate(shipped):
        (row,) = each.collect()
        found = [row[name if count == 1 else columns.of_input(number, name)] for name in names]
        assert (found, row[columns.TIMESTAMP]) == (["x", 1, 2, 3], 3)


def test_the_query_selects_for_an_operator_that_reads_the_only_input_alone() -> None:
    session = spark_session.get()
    frame = session.createDataFrame(A, "k double, text string, at bigint")
    declared = graph.Graph()
    declared.add_sources([graph.Source(frame=frame, event_time="at")])
    declared.operators["op"] = made = operator()
    declared.operators["behind"] = replace(operator(upstream=("op", None)), uid="behind")
    selected = frame.select(*shipping.in_query(declared, 128))
    wanted = ship(declared, made).of_epoch(frame)
    assert selected.columns == wanted.columns
    assert sorted(selected.collect()) == sorted(wanted.collect())


def test_operators_that_share_the_rows_of_an_epoch_select_their_own() -> None:
    declared, _ = declare()
    declared.operators["op"] = operator()
    assert not shipping.in_query(declared, 128), "two inputs"
    frame = spark_session.get().createDataFrame(A, "k double, text string, at bigint")
    declared = graph.Graph()
    declared.add_sources([graph.Source(frame=frame, event_time="at")])
    declared.operators["op"] = operator(second=graph.Input(keys=("k",), upstream=None, event_time=None))
    assert not shipping.in_query(declared, 128), "one input, connected with itself"
    declared.operators["op"] = operator()
    assert shipping.in_query(declared, 128)
    declared.operators["other"] = replace(operator(), uid="other")
    assert not shipping.in_query(declared, 128), "two readers"
