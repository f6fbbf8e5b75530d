"""Every rule of schema evolution, in states of every kind, on both backends: state survives a changed type."""

from __future__ import annotations

import datetime
import enum
import os
import random

import pyarrow as pa
import pytest
from support.backends import keeper
from support.backends.evolving import shown
from support.backends.life import BACKENDS, KEYS, Engine, Model, key_group

from sparkstate import errors
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Shade(enum.Enum):
    PINK = 0
    RED = 1
    GREEN = 2


KEY = KEYS["numbers"][1]
PLACES = (None, "window", 7)
"""Namespaces."""
LONG, INT, TEXT = Types.LONG(), Types.INT(), Types.STRING()


def row(names, *kinds, **said):
    return Types.ROW_NAMED(names.split(), list(kinds), **said)


CASES = [
    pytest.param(INT, LONG, -5, -5, id="longer-number"),
    pytest.param(INT, Types.DOUBLE(), 3, 3.0, id="number-to-double"),
    pytest.param(LONG, Types.BIG_INT(), 2**63 - 1, 2**63 - 1, id="number-to-big"),
    pytest.param(Types.FLOAT(), Types.DOUBLE(), 0.1, 0.1, id="float-to-double"),
    pytest.param(
        Types.SQL_DATE(),
        Types.SQL_TIMESTAMP(),
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29),
        id="date-to-timestamp",
    ),
    pytest.param(Types.ROW([TEXT, INT]), row("a b", TEXT, LONG), ("x", 1), ("x", 1), id="names-by-place"),
    pytest.param(
        row("a", TEXT), row("b", TEXT, aliases={"b": "a"}), ("x",), ("x",), id="renamed"
    ),
    pytest.param(row("a", TEXT), row("b a", LONG, TEXT), ("x",), (None, "x"), id="added"),
    pytest.param(
        row("a", TEXT), row("a b", TEXT, Types.LIST(INT), defaults={"b": [4]}), ("x",), ("x", [4]),
        id="added-with-a-default-that-makes-it-mutable",
    ),
    pytest.param(row("a b", TEXT, LONG), row("b", LONG), ("x", 1), (1,), id="dropped"),
    pytest.param(row("a b", TEXT, LONG), row("b a", LONG, TEXT), ("x", 1), (1, "x"), id="reordered"),
    pytest.param(Types.ENUM(Color), Types.ENUM(Shade), Color.GREEN, Shade.GREEN, id="constants-added-in-front"),
    pytest.param(
        Types.ENUM(Color), Types.ENUM("GREEN", "CRIMSON", aliases={"CRIMSON": "RED"}), Color.RED, "CRIMSON",
        id="constant-renamed-and-moved",
    ),
    pytest.param(
        Types.ENUM(Shade), Types.ENUM(Color, default=Color.GREEN), Shade.PINK, Color.GREEN,
        id="constant-dropped-with-a-default",
    ),
    pytest.param(Types.ENUM("RED", "GREEN"), TEXT, "GREEN", "GREEN", id="enum-to-text"),
    pytest.param(
        row("a b", Types.ENUM(Color), Types.MAP(Types.ENUM(Color), LONG)),
        row("a b", Types.ENUM(Shade), Types.MAP(Types.ENUM(Shade), LONG)),
        (Color.RED, {Color.GREEN: 1}),
        (Shade.RED, {Shade.GREEN: 1}),
        id="enums-in-a-row-and-in-keys",
    ),
    pytest.param(
        Types.LIST(row("a", TEXT)), Types.LIST(row("a b", TEXT, INT)), [("x",)], [("x", None)], id="in-a-list"
    ),
    pytest.param(
        Types.MAP(TEXT, row("a", INT)), Types.MAP(TEXT, row("a", Types.DOUBLE())), {"k": (1,), "l": None},
        {"k": (1.0,), "l": None}, id="in-a-map",
    ),
]  # fmt: skip


@pytest.fixture
def engines(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # hundreds of small files
    made = {backend: Engine(backend, tmp_path / backend) for backend in BACKENDS}
    for engine in made.values():
        engine.keys = "numbers"
    yield made
    for engine in made.values():
        engine.close()


def run(engine, kind, taken=None, slots=2):
    """A life with this type."""
    number = kind if kind.describe() in ("INT", "LONG", "DOUBLE", "FLOAT", "BIG_INT") else LONG
    engine.make_function = lambda: keeper.Keeper(kind, number)
    engine.start(slots, taken)
    return [name for name in keeper.STATES if name != "number" or number is kind]


def put(engine, epoch, names, value, places=PLACES, key=KEY):
    elements = [(key, place, *keeper.write(name, value)) for name in names for place in places]
    engine.epoch(epoch, elements, 0, 0, True)


def read(engine, name, place, key=KEY):
    found = engine.slot_of(key).operator.read_value(name, key, place, key_group(key))
    if name == "list":
        return shown(found)
    if name == "map":
        return shown(found["entry"])
    return shown(found[1] if name == "folded" else found)


def wanted(name, value):
    return shown([value] if name == "list" else value)


@pytest.mark.parametrize(
    ("backend", "in_canonical"),
    [
        pytest.param(name, kind == "savepoint", id=f"{name}-{kind}", marks=marks)
        for name in BACKENDS
        for kind in ("checkpoint", "savepoint")
        for marks in [[] if (kind == "savepoint") == (name == BACKENDS[-1]) else [pytest.mark.extra]]
    ],
)
@pytest.mark.parametrize(("before", "now", "value", "becomes"), CASES)
def test_values_of_every_kind_of_state_come_back_in_the_new_type(
    engines, backend, before, now, value, becomes, in_canonical
):
    engine = engines[backend]
    names = run(engine, before)
    put(engine, 1, names, value)
    run(engine, now, engine.snapshot(in_canonical, Model())(), slots=3)
    for name in names:
        for place in PLACES:
            assert read(engine, name, place) == wanted(name, becomes)
    put(engine, 2, names, becomes, places=("other",))
    # A second life, from state that is half migrated, and a third, in the other format.
    for second in (in_canonical, not in_canonical):
        run(engine, now, engine.snapshot(second, Model())(), slots=1)
        for name in names:
            for place in (*PLACES, "other"):
                assert read(engine, name, place) == wanted(name, becomes)


@pytest.mark.skipif(len(BACKENDS) < 2, reason="rocksdict is not installed")
@pytest.mark.parametrize("source", BACKENDS)
@pytest.mark.parametrize(("before", "now", "value", "becomes"), CASES)
def test_a_savepoint_of_half_migrated_state_is_read_by_the_other_backend(
    engines, source, before, now, value, becomes
):
    engine = engines[source]
    (other,) = (each for name, each in engines.items() if name != source)
    names = run(engine, before)
    put(engine, 1, names, value)
    run(engine, now, engine.snapshot(False, Model())())
    put(engine, 2, names, becomes, places=("other",))
    run(other, now, engine.snapshot(True, Model())())
    for name in names:
        for place in (*PLACES, "other"):
            assert read(other, name, place) == wanted(name, becomes)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_value_goes_through_every_change_since_it_was_written(engines, backend):
    """Also one that a later version would do otherwise: the dropped field does not come back, the default stays."""
    engine = engines[backend]
    versions = [
        row("a b", TEXT, INT),
        row("a c", TEXT, INT, defaults={"c": 7}, dropped=["b"]),
        row("c a b", LONG, TEXT, INT, defaults={"c": 8, "b": 9}),
        row("total b", Types.BIG_INT(), LONG, aliases={"total": "c"}, dropped=["a"]),
    ]
    values = [("x", 1), ("x", 2), (3, "x", 4), (5, 6)]
    wanted_at_last = [(7, 9), (2, 9), (3, 4), (5, 6)]
    taken = None
    for epoch, (kind, value) in enumerate(zip(versions, values, strict=True), 1):
        names = run(engine, kind, taken, slots=1 + epoch % 3)
        put(engine, epoch, names, value, places=(f"version {epoch}",))
        taken = engine.snapshot(False, Model())()
    for in_canonical in (False, True):
        for epoch, value in enumerate(wanted_at_last, 1):
            for name in names:
                assert read(engine, name, f"version {epoch}") == wanted(name, value)
        run(engine, versions[-1], engine.snapshot(in_canonical, Model())())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_list_and_a_map_hold_values_of_several_versions(engines, backend):
    engine = engines[backend]
    names = ["list", "map"]
    run(engine, row("a", INT))
    put(engine, 1, names, (1,))
    run(engine, row("a b", INT, INT), engine.snapshot(False, Model())())
    engine.epoch(
        2, [(KEY, None, "list", "add", ((2, 2),)), (KEY, None, "map", "put", ("second", (2, 2)))], 0, 0, True
    )
    operator = engine.slot_of(KEY).operator
    assert operator.read_value("list", KEY, None, key_group(KEY)) == [(1, None), (2, 2)]
    assert operator.read_value("map", KEY, None, key_group(KEY)) == {"entry": (1, None), "second": (2, 2)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_refused_type_leaves_the_checkpoint_usable_by_the_code_of_before(engines, backend):
    engine = engines[backend]
    names = run(engine, row("a b", TEXT, LONG))
    put(engine, 1, names, ("x", 1))
    taken = engine.snapshot(False, Model())()
    with pytest.raises(
        errors.StateMigrationError, match="at b, was LONG when it was stored and is now STRING"
    ):
        run(engine, row("a b", TEXT, TEXT), taken)
    run(engine, row("a b", TEXT, LONG), taken)
    assert read(engine, "value", None) == shown(("x", 1))


def test_on_rocksdb_a_migration_uploads_no_file_again(engines):
    """Values are migrated when they are read: the files of before are files of the next checkpoint."""
    engine = engines.get("rocksdb") or pytest.skip("rocksdict is not installed")
    names = run(engine, row("a", TEXT))
    for key in KEYS["numbers"]:
        put(engine, 1, names, (random.Random(1).randbytes(4000).hex(),), key=key)
    taken = engine.snapshot(False, Model())()
    whole = engine.uploaded
    run(engine, row("a b", TEXT, LONG), taken)
    engine.uploaded = 0
    engine.snapshot(False, Model())()
    assert engine.uploaded < whole / 4


class Grouped(KeyedBatchFunction):
    """A function on batches that counts in a row and in a number, and yields what was there."""

    def __init__(self, kind, number):
        self.kind, self.number = kind, number

    def open(self, ctx):
        self.row = ctx.get_state(ValueStateDescriptor("row", self.kind))
        self.count = ctx.get_state(ValueStateDescriptor("count", self.number))

    def process_batch(self, batch, keys, ctx):
        rows, counts = self.row.get(keys).to_pylist(), self.count.get(keys).to_pylist()
        yield pa.record_batch(
            {"rows": [repr(row) for row in rows], "counts": [repr(count) for count in counts]}
        )
        names = self.kind.names
        self.row.update(keys, pa.array([dict.fromkeys(names, 5)] * len(rows)))
        self.count.update(keys, pa.array([7] * len(rows)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_on_batches_reads_arrays_of_the_new_types(backend):
    before, now = row("a", INT), row("b a", LONG, Types.DOUBLE(), defaults={"b": 1})

    def harness(kind, number):
        return KeyedProcessHarness(
            Grouped(kind, number), key=lambda row: row.k, key_type=LONG, backend=backend
        )

    def push(job, *keys):
        job.clear_output()
        job.process_elements([({"k": key}, 0) for key in keys])
        return [tuple(row) for row in job.output()]

    with harness(before, INT) as first, harness(now, Types.DOUBLE()) as second:
        assert push(first, 1, 2) == [("None", "None")] * 2
        second.restore(first.snapshot())
        old, fresh = ("{'b': 1, 'a': 5.0}", "7.0"), ("None", "None")
        assert sorted(push(second, 1, 3)) == sorted([old, fresh])
        assert sorted(push(second, 1, 2)) == sorted([("{'b': 5, 'a': 5.0}", "7.0"), old])
