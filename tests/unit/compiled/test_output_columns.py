"""Output columns built in C are those that Arrow makes of the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate.functions import OutputTag
from sparkstate.operators.rows import arrow_rows
from sparkstate.serde.row import Row, row_class

records: Any = pytest.importorskip(
    "sparkstate_compiled.records", reason="sparkstate-compiled is not built: `make compiled`"
)
PAIR = row_class(("k", "n"))

TYPES = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
}
PLAIN = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "double": st.floats() | st.integers(-(2**53), 2**53),
    "bool": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
}
odd = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.text(),
    st.binary(max_size=3),
    st.sampled_from(
        [np.int64(3), np.float64(2.5), np.bool_(True), np.str_("x"), OutputTag("t"), (), [], {}, "\ud800"]
    ),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Schema, list[Any]]:
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4))
    plain = st.tuples(*(PLAIN[name] | st.none() for name in names))
    strange = st.tuples(*(PLAIN[name] | st.none() | odd for name in names))
    others = (
        strange.map(list)
        | st.dictionaries(st.text(max_size=1), odd)
        | strange.map(Row)
        | strange.map(lambda r: (*r, 1))
    )
    rows = draw(st.lists(plain | plain | strange | others | odd, max_size=60))
    return pa.schema([(f"c{place}", TYPES[name]) for place, name in enumerate(names)]), rows


@given(tables())
def test_columns_built_in_c_are_those_of_arrow(table: tuple[pa.Schema, list[Any]]) -> None:
    schema, rows = table
    output = records.Output([records.KINDS[str(field.type)] for field in schema], Row)
    for _ in range(2):  # finishing begins anew
        taken = [row for row in rows if output.put(row)]
        assert output.count == len(taken)
        count, buffers = output.count, output.finish()
        made = pa.RecordBatch.from_arrays(
            [
                pa.Array.from_buffers(
                    field.type, count, [None if b is None else pa.py_buffer(b) for b in each]
                )
                for field, each in zip(schema, buffers, strict=True)
            ],
            schema=schema,
        )
        made.validate(full=True)
        # NaN differs from itself, and Arrow's own bytes are compared: -0.0 is not 0.0 either.
        assert repr(made.to_pylist()) == repr(arrow_rows.to_batch(taken, schema).to_pylist())


@pytest.mark.parametrize("name", TYPES)
def test_a_plain_value_of_its_type_is_always_taken(name: str) -> None:
    @given(st.lists(PLAIN[name] | st.none(), max_size=40))
    def check(values: list[Any]) -> None:
        output = records.Output([records.KINDS[name]], PAIR)
        assert all(output.put((value,)) for value in values)
        assert output.count == len(values)

    check()


def test_rows_of_the_input_are_taken_and_other_subclasses_are_not() -> None:
    class Own(tuple[Any, ...]):
        def __iter__(self) -> Any:
            return iter(("a", 2))

    output = records.Output([records.KINDS["string"], records.KINDS["int64"]], PAIR)
    assert output.put(PAIR(("a", 1)))
    assert not output.put(Own(("a", 1)))
    assert not output.put(["a", 1])
    # What is more than a tuple is no class of rows.
    own = records.Output([records.KINDS["string"], records.KINDS["int64"]], Own)
    assert not own.put(Own(("a", 1)))
    with pytest.raises(ValueError, match="at least one column"):
        records.Output([], PAIR)


def test_many_values_of_each_kind_survive_the_growth_of_the_buffers() -> None:
    kinds = [records.KINDS[name] for name in TYPES]
    schema = pa.schema(list(TYPES.items()))
    rows = [(n, n, float(n), n % 2 == 0, "x" * (n % 50)) if n % 97 else (None,) * 5 for n in range(100_000)]
    output = records.Output(kinds, PAIR)
    assert all(map(output.put, rows))
    arrays = [
        pa.Array.from_buffers(field.type, len(rows), [None if b is None else pa.py_buffer(b) for b in each])
        for field, each in zip(schema, output.finish(), strict=True)
    ]
    assert pa.RecordBatch.from_arrays(arrays, schema=schema).equals(arrow_rows.to_batch(rows, schema))
