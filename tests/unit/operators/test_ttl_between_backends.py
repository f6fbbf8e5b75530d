"""State that expires and whose type changes, from backend to backend by savepoints and through rescales."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from support.backends import keeper
from support.backends.own_backends import MemoryBackend

from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.testing import KeyedProcessHarness

ALL = ["hashmap", "rocksdb", MemoryBackend]
HOUR = StateTtlConfig.new_builder("1 hour").build()
DAY = StateTtlConfig.new_builder("1 day").build()
INT, LONG, DOUBLE = Types.INT(), Types.LONG(), Types.DOUBLE()
KEYS = range(20)


def made(function: Any, backend: Any, parallelism: int) -> KeyedProcessHarness:
    return KeyedProcessHarness(
        function,
        key=lambda row: row[0] if isinstance(row, tuple) else row.k,
        key_type=LONG,
        backend=backend,
        shards=4,
        parallelism=parallelism,
    )


def put(harness: KeyedProcessHarness, place: Any, value: Any) -> None:
    for key in KEYS:
        for name in ("value", "list", "map", "last", "number"):
            harness.process_element((key, place, *keeper.write(name, value(key, name))))


def seen(harness: KeyedProcessHarness, name: str, key: int, place: Any) -> Any:
    found = harness.state(name, key, place)
    return {"list": lambda: found, "map": lambda: found.get("entry")}.get(name, lambda: found)()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(one, other, marks=[pytest.mark.extra] if one is other else [])
        for one in ALL
        for other in ALL
    ],
)
def test_a_savepoint_goes_on_in_any_backend_with_another_type_and_time_to_live(
    first: Any, second: Any
) -> None:
    types = [INT, LONG]
    kinds = [
        Types.ROW_NAMED(["a"], [INT]),
        Types.ROW_NAMED(["a", "b"], [DOUBLE, LONG], defaults={"b": 3}),
    ]
    for ttls in ([HOUR, HOUR], [None, HOUR], [HOUR, None], [HOUR, DAY]):
        with made(keeper.Keeper(kinds[0], types[0], ttls[0]), first, 1) as before:
            put(before, None, lambda key, name: key if name == "number" else (key,))
            before.set_processing_time(1_000)
            put(before, "window", lambda key, name: key if name == "number" else (key,))
            taken = before.snapshot()
        with made(keeper.Keeper(kinds[1], types[1], ttls[1]), second, 1) as after:
            after.restore(taken, parallelism=3)
            for key, place in itertools.product(KEYS, (None, "window")):
                row = (float(key), 3)
                assert seen(after, "value", key, place) == seen(after, "last", key, place) == row
                assert seen(after, "list", key, place) == [row]
                assert seen(after, "map", key, place) == row
                assert seen(after, "number", key, place) == key
            after.set_processing_time(3_600_000)
            after.set_processing_time(3_600_000)
            lives = {"first": ttls[1] in (None, DAY) or ttls[0] is None, "window": True}
            again = after.snapshot()
            after.restore(again, parallelism=2)
            for key in KEYS:
                assert (seen(after, "number", key, None) == key) is lives["first"]
                assert seen(after, "number", key, "window") == key


class Counting(KeyedBatchFunction):
    """Keeps the last number of each key, and yields the one before."""

    def __init__(self, number: Any, ttl: StateTtlConfig | None) -> None:
        self.number, self.ttl = number, ttl

    def open(self, ctx: Any) -> None:
        descriptor = ValueStateDescriptor("number", self.number)
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        self.count = ctx.get_state(descriptor)

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Any:
        found = self.count.get(keys).to_pylist()
        yield pa.record_batch({"found": [repr(each) for each in found]})
        self.count.update(keys, pa.array([7] * len(found)))


@pytest.mark.parametrize("second", ALL)
@pytest.mark.parametrize("first", ALL)
def test_numbers_in_columns_become_wider_and_take_up_a_time_to_live(first: Any, second: Any) -> None:
    def push(harness: KeyedProcessHarness, *keys: int) -> list[str]:
        harness.clear_output()
        harness.process_elements([({"k": key}, 0) for key in keys])
        return sorted(row.found for row in harness.output())

    lives = [(INT, None), (LONG, HOUR), (LONG, None), (Types.BIG_INT(), HOUR)]
    double = [(INT, HOUR), (DOUBLE, HOUR), (DOUBLE, None), (DOUBLE, DAY)]
    for versions, shown in ((lives, ["7", "7", "7", "Decimal('7')"]), (double, ["7", "7.0", "7.0", "7.0"])):
        taken = None
        for number, (version, backend) in enumerate(
            zip(versions, itertools.cycle([first, second]), strict=False)
        ):
            with made(Counting(*version), backend, 1) as harness:
                if taken is not None:
                    harness.restore(taken, parallelism=1 + number % 2)
                wanted = ["None"] if number == 0 else [shown[number]]
                assert push(harness, 1) == wanted
                assert push(harness, 1, 2 + number) == sorted([shown[number], "None"])
                taken = harness.snapshot()
