"""A spill whose values come in the order of their keys, or nearly, beside a dict of what there has to be."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.backends import cells
from support.backends.ordered import SPEC, Spilled, cell_of, groups_of, row_order
from support.backends.spilled import KEY_SPACE
from support.faults import tried
from support.machine import volumes

from sparkstate import errors
from sparkstate.backends.base import DELETED, TableChanges
from sparkstate.backends.rocksdb import layout, ordered_rows
from sparkstate.settings import MIB

KEYS = st.integers(-40, 40)
SPACES = st.sampled_from([None, None, None, 0, "n"])
VALUES = st.text(max_size=3) | st.just(DELETED)


CELLS = st.builds(cell_of, KEYS, SPACES)


class Life(RuleBasedStateMachine):
    folder: Path
    lives = iter(range(1_000_000))

    @initialize(waiting=st.sampled_from([1000, 1]), file_bytes=st.sampled_from([64 << 20, 0]))
    def start(self, waiting, file_bytes):
        ordered_rows._MOST_WAITING, ordered_rows._FILE_BYTES = waiting, file_bytes
        self.spilled = Spilled(self.folder / str(next(Life.lives)))
        self.behind = sorted({cell_of(key, None) for key in range(-40, 41)}, key=row_order)

    @rule(added=st.dictionaries(CELLS, VALUES, min_size=1, max_size=8))
    def add_anything(self, added):
        self.spilled.add(added)

    @rule(added=st.dictionaries(KEYS, VALUES, max_size=8))
    def add_any_longs(self, added):
        self.spilled.add_longs(added)

    @rule(count=st.integers(1, 30), again=st.booleans(), data=st.data())
    def add_longs_behind(self, count, again, data):
        keys, self.behind = self.behind[:count], self.behind[count - again :]
        self.spilled.add_longs({key: data.draw(VALUES) for key in keys})

    @rule(count=st.integers(1, 30), again=st.booleans(), data=st.data())
    def add_behind(self, count, again, data):
        """The next keys in order, as an operator does; the last key once more, which the last addition had."""
        keys, self.behind = self.behind[:count], self.behind[count - again :]
        added = {cell_of(key, data.draw(SPACES)): data.draw(VALUES) for key in keys}
        if added:
            self.spilled.add(added)

    @rule(asked=st.lists(CELLS, min_size=1, max_size=8))
    def read(self, asked):
        spilled = self.spilled
        table = spilled.spill.table(SPEC)
        spilled.look(lambda _: table, spilled.given, asked)
        spilled.look_ahead(asked)

    @rule(count=st.integers(1, 81), spaces=st.sampled_from([(None,), (None, 0, "n"), ("n", None)]))
    def read_behind(self, count, spaces):
        """What is read ahead in an epoch in order, one by one and at once."""
        if self.behind:
            self.spilled.look(lambda _: self.spilled.spill.table(SPEC), self.spilled.given, self.behind[:3])
            self.spilled.look_ahead([cell_of(key, space) for key in self.behind[:count] for space in spaces])

    @rule()
    def commit(self):
        self.spilled.commit()
        self.start_anew()

    @rule()
    def give_up(self):
        self.spilled.spill.close()
        self.spilled.begin()
        self.start_anew()

    def start_anew(self):
        self.behind = sorted(range(-40, 41), key=row_order)
        every = [cell_of(key, space) for key in range(-40, 41) for space in (None, 0, "n")]
        self.spilled.look(
            lambda group: self.spilled.stores[self.spilled.shard_of[group]].table(SPEC),
            self.spilled.state,
            every,
        )

    @precondition(lambda self: self.spilled.state)
    @rule(canonical=st.booleans(), merged=st.booleans())
    def restore(self, canonical, merged):
        """A snapshot has what was committed, whether its files were given to the store or written by it."""
        spilled = self.spilled
        spilled.spill.close()
        folder = spilled.folder / f"restored-{next(spilled.numbers)}"
        for shard, store in list(spilled.stores.items()):
            if merged and store.database() is not None:
                for family in store.database().families().values():
                    family.compact()
            taken = folder / f"snapshot-{shard}"
            taken.mkdir(parents=True)
            snapshot = store.prepare_snapshot(1, taken, canonical=canonical)
            restored = spilled.factory.create(
                shard, KEY_SPACE.key_groups_of_shard(shard), folder / str(shard)
            )
            restored.restore({file.name: file.path for file in snapshot.files()}, snapshot.format)
            snapshot.release()
            store.close()
            spilled.stores[shard] = restored
        spilled.begin()
        self.start_anew()

    def teardown(self):
        if hasattr(self, "spilled"):
            self.spilled.close()


def test_a_random_life_leaves_what_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(ordered_rows, "_MOST_WAITING", 1000)
    monkeypatch.setattr(ordered_rows, "_FILE_BYTES", 64 << 20)
    Life.folder = tmp_path
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=tried(40),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.fixture
def spilled(tmp_path):
    made = Spilled(tmp_path)
    yield made
    made.close()


def in_order(count: int, first: int = 0) -> list[int]:
    return sorted(range(first, first + count), key=row_order)


def test_rows_in_order_are_never_looked_for_and_end_in_the_stores_as_they_are(spilled):
    keys = in_order(400)
    for at in range(0, 400, 50):
        spilled.look(lambda _: spilled.spill.table(SPEC), spilled.given, keys[at : at + 50])
        spilled.add({key: str(key) for key in keys[at : at + 50]})
    assert not spilled.ordered.is_sealed
    assert list(spilled.spill.table(SPEC).family.iterate()) == []
    files = [path for paths in spilled.ordered.files.values() for path in paths]
    inodes = {path.stat().st_ino for path in files}
    spilled.spill.commit()
    assert not any(path.exists() for path in files)
    stored = {
        path.stat().st_ino
        for store in spilled.stores.values()
        for path in store.database().path.glob("*.sst")
    }
    assert inodes <= stored


def test_arrays_are_written_in_the_order_of_their_rows_and_several_parts(spilled):
    keys = in_order(5_000)
    spilled.add_longs({key: str(key) for key in reversed(keys[:2_500])})
    assert spilled.spill.database() is None
    spilled.add_longs({key: DELETED if key % 3 else str(key) for key in keys[2_500:]})
    assert not spilled.ordered.is_sealed
    spilled.commit()
    for group_keys in (keys[:2_500], keys[2_500:]):
        spilled.look(
            lambda group: spilled.stores[spilled.shard_of[group]].table(SPEC), spilled.state, group_keys
        )


def test_an_array_with_a_value_that_is_too_long_names_its_key(tmp_path):
    spilled = Spilled(tmp_path)
    try:
        spilled.spill.table(SPEC)._row_limit = 100
        with pytest.raises(
            errors.StateError, match=r"state 'name' of operator 'op', key 7: an encoded value has"
        ):
            spilled.add_longs({3: "short", 7: "x" * 200})
    finally:
        spilled.close()


def test_the_last_key_may_come_again_and_ends_no_order(spilled):
    keys = in_order(100)
    spilled.add(dict.fromkeys(keys[:50], "first"))
    spilled.add(dict.fromkeys(keys[49:], "again"))
    assert not spilled.ordered.is_sealed
    spilled.look(lambda _: spilled.spill.table(SPEC), spilled.given, keys[-1:])
    spilled.commit()
    table = spilled.stores[spilled.shard_of[cells.group_of(keys[49])]].table(SPEC)
    assert table.get(cells.group_of(keys[49]), keys[49]) == "again"


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_what_waits_and_what_is_committed_is_read_ahead_together(spilled, at_once):
    """The rows of the last key wait. All others are in the stores, of which there are two."""
    keys = in_order(100)
    spilled.add(dict.fromkeys(keys[::3], "committed"))
    spilled.commit()
    last = [cell_of(keys[20], space) for space in (None, 0, "n")]
    spilled.add({**dict.fromkeys(keys[:20], "added"), **dict.fromkeys(last[:2], "waits"), last[2]: DELETED})
    asked = [*last, *keys[21:]]
    for start in range(0, len(asked), at_once):
        spilled.look_ahead(asked[start : start + at_once])
        spilled.look_ahead(asked[start : start + at_once][::-1])
    assert not spilled.ordered.is_sealed


def test_rows_of_every_kind_are_read_together_once_the_order_has_ended(spilled):
    keys = in_order(100)
    spilled.add(dict.fromkeys(keys[::3], "committed"))
    spilled.commit()
    spilled.add({key: DELETED if key % 7 == 0 else str(key) for key in keys[::2]})
    spilled.add({key: DELETED if key % 5 == 0 else "out of order" for key in keys[:50:4]})
    assert spilled.ordered.is_sealed
    spilled.look_ahead(keys)
    spilled.look_ahead(keys[::-1])


def test_stores_take_no_change_any_more_after_files_were_given_to_only_some_of_them(spilled):
    spilled.add({key: str(key) for key in in_order(200)})
    spilled.spill.commit()
    spilled.spill.close()
    spilled.begin()
    spilled.add(dict.fromkeys(in_order(200), "new"))
    spilled.spill.table(SPEC).seal(spilled.ordered)
    spilled.ordered.files[1][0].unlink()
    with pytest.raises(errors.SparkstateError):
        spilled.spill.commit()
    for store in spilled.stores.values():
        with pytest.raises(errors.StorageError, match="restore from the last checkpoint"):
            store.commit([TableChanges(SPEC, values={1: "x"})], groups_of({1: "x"}))


def test_a_spill_that_was_given_up_makes_no_folder_again(spilled):
    keys = in_order(100)
    spilled.add(dict.fromkeys(keys[:50], "first"))
    ordered, folder = spilled.ordered, spilled.ordered._directory
    spilled.spill.close()
    row = layout.RowCodec(SPEC).row
    with pytest.raises(errors.StateError, match="given up"):
        ordered.add([row(cells.group_of(key), key) for key in keys[50:]], [b"x"] * 50)
    assert not folder.exists()


def test_a_full_disk_is_named_with_the_remedy(tmp_path):
    with volumes.mounted(tmp_path / "volume", size="4m") as volume:
        spilled = Spilled(volume.path)
        try:
            spilled.add({key: str(key) for key in in_order(100)})
            volume.fill()
            with pytest.raises(errors.StorageError, match=r"writing the state in .*is full.*localStorage"):
                spilled.add(dict.fromkeys(sorted(range(1_000, 60_000), key=row_order), "x" * 100))
            volume.free()
        finally:
            spilled.close()


def test_an_epoch_whose_rows_could_not_be_written_for_a_moment_is_not_committed(spilled):
    """A user's function may catch the error of a read that writes rows first. Without these rows, the commit would be
    one of a part of the epoch."""
    keys = in_order(100)
    spilled.add(dict.fromkeys(keys[:1], "first"))
    ordered = spilled.ordered
    ordered._directory.write_text("in the way of the folder")
    with pytest.raises(errors.StorageError):
        spilled.add(dict.fromkeys(keys[1:50], "second"))
    ordered._directory.unlink()
    with pytest.raises(errors.StorageError, match="failed half-way"):
        spilled.add(dict.fromkeys(keys[50:], "third"))
    with pytest.raises(errors.StorageError, match="failed half-way"):
        spilled.spill.commit()


def inodes(paths: Iterable[Path]) -> set[int]:
    return {path.stat().st_ino for path in paths}


def test_files_that_have_to_be_read_are_not_copied(spilled):
    """RocksDB copies with the interpreter lock held: the slot gave no sign of life for 11 s with 512 MB."""
    keys = in_order(400)
    spilled.add(dict.fromkeys(keys, "first"))
    spilled.commit()
    spilled.add({key: str(key) for key in keys})
    spilled.look(lambda _: spilled.spill.table(SPEC), spilled.given, keys)
    files = [path for paths in spilled.ordered.files.values() for path in paths]
    seen, before = inodes(files), [path.read_bytes() for path in files]
    assert seen
    assert seen <= inodes(spilled.spill.database().path.glob("*.sst"))
    spilled.spill.commit()
    stored = [path for store in spilled.stores.values() for path in store.database().path.glob("*.sst")]
    given = [path.read_bytes() for path in stored if path.stat().st_ino in seen]
    assert sorted(given) == sorted(before)
    spilled.spill.close()
    spilled.look(lambda group: spilled.stores[spilled.shard_of[group]].table(SPEC), spilled.given, keys)


def test_files_are_given_to_stores_on_another_device(tmp_path):
    with volumes.mounted(tmp_path / "volume", size="16m") as volume:
        spilled = Spilled(tmp_path / "here", stores=volume.path)
        try:
            keys = in_order(400)
            for value in ("first", "second"):
                spilled.add(dict.fromkeys(keys, value))
                spilled.look(lambda _: spilled.spill.table(SPEC), spilled.given, keys[:1])
                spilled.commit()
            spilled.look(
                lambda group: spilled.stores[spilled.shard_of[group]].table(SPEC), spilled.state, keys
            )
            assert [path for path in volume.path.rglob("*") if path.name.startswith("ordered")] == []
        finally:
            spilled.close()


def test_large_rows_of_the_last_key_wait_for_no_more_than_a_mebibyte(spilled):
    for number in range(100):
        spilled.add({cell_of(7, number): "x" * 50_000})
        assert sum(map(len, spilled.ordered._waiting.values())) <= MIB
    assert not spilled.ordered.is_sealed
    spilled.look(lambda _: spilled.spill.table(SPEC), spilled.given, list(spilled.given))
    spilled.commit()
    spilled.look(
        lambda group: spilled.stores[spilled.shard_of[group]].table(SPEC), spilled.state, list(spilled.state)
    )


def test_one_row_may_be_larger_and_come_again(spilled):
    spilled.add({7: "x" * 2 * MIB})
    spilled.add({7: "y" * 2 * MIB})
    assert not spilled.ordered.is_sealed
    spilled.look(lambda _: spilled.spill.table(SPEC), spilled.given, [7])
