"""Values of many namespaces, read and written in one call per state: a dict by key and namespace, in every layout."""

from __future__ import annotations

import enum

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkstate import errors
from sparkstate.backends.hashmap.column_table import HashMapColumnTable
from sparkstate.backends.rocksdb.buffered_values import BufferedValueTable
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness

KEYS = {"numbers": (0, -7, 2**63 - 1, None), "text": ("a", "b", "", None)}
KEY_TYPES = {"numbers": Types.LONG(), "text": Types.STRING()}
VALUES = {
    "long": (Types.LONG(), lambda number: number),
    "double": (Types.DOUBLE(), lambda number: number / 2),
    "string": (Types.STRING(), str),
    "list": (Types.LIST(Types.LONG()), lambda number: [number]),
}
SPACES = (0, 1, -(2**63), 2**63 - 1)


class PerBatch(KeyedBatchFunction):
    """Each row writes one value, or clears it (``number`` is null). It yields what all namespaces held before."""

    def __init__(self, declared, make):
        self.declared, self.make = declared, make

    def open(self, ctx):
        self.state = ctx.get_state(ValueStateDescriptor("value", self.declared), in_namespaces=True)

    def process_batch(self, batch, keys, ctx):
        places = np.repeat(np.arange(len(keys)), len(SPACES))
        spaces = np.tile(np.array(SPACES), len(keys))
        before = self.state.get(keys.select(places), namespaces=spaces)
        assert before.type == self.state.get(keys.select([]), namespaces=[]).type
        self.write(batch, keys)
        yield pa.record_batch({"k": keys.values.take(pa.array(places)), "space": spaces, "value": before})

    def write(self, batch, keys):
        last = {}
        rows = zip(keys.codes, batch["space"].to_pylist(), batch["number"].to_pylist(), strict=True)
        for code, space, number in rows:
            last[int(code), SPACES[space]] = number
        pairs = keys.select([code for code, _ in last])
        spaces = pa.array([space for _, space in last])
        made = [None if number is None else self.make(number) for number in last.values()]
        self.state.update(
            pairs, pa.array(made), mask=pa.array([m is not None for m in made]), namespaces=spaces
        )
        self.state.clear(pairs, mask=pa.array([m is None for m in made]), namespaces=spaces)


class PerRecord(KeyedProcessFunction):
    """The same for each row, by the current namespace."""

    def __init__(self, declared, make):
        self.declared, self.make = declared, make

    def open(self, ctx):
        self.state = ctx.get_state(ValueStateDescriptor("value", self.declared))

    def process_element(self, value, ctx):
        self.state.set_current_namespace(SPACES[value.space])
        if value.number is None:
            self.state.clear()
        else:
            self.state.update(self.make(value.number))


def harness(kind, function, backend):
    return KeyedProcessHarness(function, key=lambda row: row.k, key_type=KEY_TYPES[kind], backend=backend)


ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.none() | st.integers(-9, 9)), min_size=1, max_size=9
)
LIVES = st.lists(
    st.tuples(ROWS, st.sampled_from(["stays", "hashmap", "rocksdb", "hashmap by record"])), max_size=6
)


@pytest.mark.parametrize("value", list(VALUES))
@pytest.mark.parametrize("kind", list(KEYS))
@settings(max_examples=8, deadline=None)
@given(life=LIVES)
def test_many_namespaces_at_once_are_a_dict(kind, value, life):
    declared, make = VALUES[value]
    kept: dict[tuple[object, int], object] = {}
    opened, by_record = harness(kind, PerBatch(declared, make), "hashmap"), False
    try:
        for rows, change in life:
            opened.clear_output()
            opened.process_elements(
                [({"k": KEYS[kind][key], "space": space, "number": number}, 0) for key, space, number in rows]
            )
            for row in opened.output():
                assert row.value == kept.get((row.k, row.space))
            for key, space, number in rows:
                kept[KEYS[kind][key], SPACES[space]] = None if number is None else make(number)
            for (key, space), stored in kept.items():
                assert opened.state("value", key, space) == stored
            if change != "stays":
                snapshot = opened.snapshot()
                opened.close()
                by_record = "record" in change
                function = (PerRecord if by_record else PerBatch)(declared, make)
                opened = harness(kind, function, change.split()[0])
                opened.restore(snapshot)
    finally:
        opened.close()


class Period(enum.IntEnum):
    DAY = 1
    WEEK = 7


class ByPeriod(KeyedBatchFunction):
    """Writes one namespace by its number, and another one as the current one; yields what both had."""

    def open(self, ctx):
        self.state = ctx.get_state(ValueStateDescriptor("value", Types.LONG()))

    def process_batch(self, batch, keys, ctx):
        found = {}
        for period in Period:
            self.state.set_current_namespace(period)
            found[period.name] = self.state.get(keys, default=0)
        self.state.update(keys, batch["number"])
        self.state.set_current_namespace(None)
        self.state.update(keys, batch["number"], namespaces=np.full(len(keys), Period.DAY))
        self.state.set_current_namespace(Period.DAY)
        yield pa.record_batch({**found, "now": self.state.get(keys)})


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", list(KEYS))
def test_a_namespace_that_is_a_member_of_an_enum_is_its_number(kind, backend):
    with harness(kind, ByPeriod(), backend) as opened:
        for number in (1, 2, 3):
            opened.process_element({"k": KEYS[kind][0], "number": number}, 0)
        assert [tuple(row) for row in opened.output()] == [(0, 0, 1), (1, 1, 2), (2, 2, 3)]
        assert (
            opened.state("value", KEYS[kind][0], 7) == opened.state("value", KEYS[kind][0], Period.DAY) == 3
        )


class Wrong(KeyedBatchFunction):
    def __init__(self, use):
        self.use = use

    def open(self, ctx):
        self.state = ctx.get_state(ValueStateDescriptor("value", Types.LONG()), in_namespaces=True)

    def process_batch(self, batch, keys, ctx):
        self.use(self.state, keys)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda state, keys: state.get(keys), "give each call namespaces="),
        (lambda state, keys: state.get(keys, namespaces=[1, 2]), "one per key is needed"),
        (lambda state, keys: state.get(keys, namespaces=[None]), "namespaces are whole numbers"),
        (lambda state, keys: state.update(keys, [1], namespaces=["a"]), "namespaces are whole numbers"),
        (lambda state, keys: state.get(keys.select([0, 0]), namespaces=[1]), "one per key is needed"),
    ],
    ids=["none", "too many", "null", "text", "one for two"],
)
@pytest.mark.parametrize("kind", list(KEYS))
def test_namespaces_that_are_no_numbers_are_refused(kind, use, message):
    with harness(kind, Wrong(use), "hashmap") as opened, pytest.raises(errors.UserCodeError, match=message):
        opened.process_element({"k": KEYS[kind][0]}, 0)


def test_keys_of_an_older_call_cannot_be_selected_from():
    kept = []

    def use(state, keys):
        kept.append(keys)
        state.get(kept[0].select([0]), namespaces=[1])

    with harness("numbers", Wrong(use), "hashmap") as opened:
        opened.process_element({"k": 1}, 0)
        with pytest.raises(errors.UserCodeError, match="not those of the call at hand"):
            opened.process_element({"k": 1}, 0)


class Asked(KeyedBatchFunction):
    """Writes the row's number in the namespace ``writes``; yields what the namespaces of ``READS`` held before."""

    READS = (5, 9)

    def open(self, ctx):
        self.state = ctx.get_state(ValueStateDescriptor("value", Types.LONG()), in_namespaces=True)

    def process_batch(self, batch, keys, ctx):
        found = {f"at{space}": self.state.get(keys, namespaces=[space] * len(keys)) for space in self.READS}
        yield pa.record_batch(found)
        self.state.update(keys, batch["number"], namespaces=batch["writes"])


@pytest.fixture
def looked_for(monkeypatch):
    """The namespaces that committed tables of both backends were asked for."""
    noted = []
    for table in (HashMapColumnTable, BufferedValueTable):
        monkeypatch.setattr(table, "get_columns", noting(table.get_columns, noted))
    return noted


def noting(get_columns, noted):
    def noted_get_columns(table, key_groups, keys):
        if keys.dtype.names is not None:
            noted.extend(keys["space"].tolist())
        return get_columns(table, key_groups, keys)

    return noted_get_columns


def pushed(opened, writes, number):
    """The values that were there."""
    opened.clear_output()
    opened.process_element({"k": 1, "writes": writes, "number": number}, 0)
    (row,) = opened.output()
    return tuple(row)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_namespace_beyond_all_committed_ones_is_not_looked_for(backend, looked_for):
    with harness("numbers", Asked(), backend) as opened:
        assert pushed(opened, 5, 1) == (None, None)
        assert looked_for == [], "the tables are new"
        assert pushed(opened, 4, 2) == (1, None)
        assert looked_for == [5]
        assert pushed(opened, 9, 3) == (1, None)
        assert pushed(opened, 9, 4) == (1, 3)
        assert looked_for == [5, 5, 5, 9]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_after_a_restore_any_namespace_may_be_there(backend, looked_for):
    with harness("numbers", Asked(), backend) as opened:
        pushed(opened, 9, 1)
        snapshot = opened.snapshot()
    with harness("numbers", Asked(), backend) as again:
        again.restore(snapshot)
        assert pushed(again, 5, 2) == (None, 1)
        assert pushed(again, 5, 3) == (2, 1)
        assert set(looked_for) == {5, 9}
