"""Chapter "sharing": the stores of one slot have a factory in common, and nothing else."""

from __future__ import annotations

from sparkstate.backends.base import TableSpec
from sparkstate.conformance.kit import ALL_GROUPS, KEYS, VALUES, Kit, changes, content, equal, fill, table
from sparkstate.keygroups import KeyGroupRange


def check_stores_of_one_factory_are_apart(kit: Kit) -> None:
    """A store is untouched when another store of the same factory commits, is snapshot, or is closed."""
    first, second = kit.stores(KeyGroupRange(0, 63), KeyGroupRange(64, 127))
    empty = content(second)
    fill_a = changes(values={"a": 1})
    first.commit(fill_a, KEYS)
    equal(content(second), empty, "the content of a store after another one's commit")
    second.commit(changes(values={"z": 2}), KEYS)
    target = kit.store()
    kit.copy(first, target, in_canonical=True)
    equal(table(target, VALUES).get(127, "z"), None, "another store's value in a snapshot")
    equal(table(target, VALUES).get(0, "a"), 1, "a value in a snapshot")
    kit.close_store(first)
    equal(table(second, VALUES).get(127, "z"), 2, "a value after another store was closed")


def check_key_groups_of_a_store_are_as_it_was_told(kit: Kit) -> None:
    """``shard`` and ``key_groups`` are those that ``create`` was called with."""
    ranges = (KeyGroupRange(0, 0), KeyGroupRange(1, 126), KeyGroupRange(127, 127))
    for shard, (store, wanted) in enumerate(zip(kit.stores(*ranges), ranges, strict=True)):
        equal(store.shard, shard, "the number of a shard")
        equal(store.key_groups, wanted, f"the key groups of shard {shard}")


def check_operators_with_equal_names_and_keys_are_apart(kit: Kit) -> None:
    """States of two operators are apart, even if they have one name and their keys are equal."""
    store = kit.store()
    other = TableSpec("other operator", VALUES.name, VALUES.kind, VALUES.key_type, VALUES.value_type)
    store.table(other)
    store.commit(changes(values={"a": 1}), KEYS)
    equal(table(store, other).get(0, "a"), None, "the value of another operator")


def check_empty_stores_can_be_snapshot_and_restored(kit: Kit) -> None:
    """A snapshot without a row, or without a table, gives an empty store."""
    for with_tables in (False, True):
        store, empty = kit.store(), content(kit.store())
        if with_tables:
            content(store)
        for in_canonical in (True, False):
            restored = kit.store(key_groups=ALL_GROUPS)
            kit.copy(store, restored, in_canonical=in_canonical)
            equal(content(restored), empty, "a store restored from an empty one")


def check_figures_are_numbers_by_name(kit: Kit) -> None:
    """``memory`` and ``metrics`` of a factory are mappings from names to numbers, before and after there are stores."""
    factory = kit.make_factory(kit.folder())
    for _ in range(2):
        for name, value in {**factory.memory(), **factory.metrics()}.items():
            if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, int | float):
                raise AssertionError(
                    f"a figure is {value!r} by the name {name!r}; it must be a number by a text"
                )
        store = factory.create(0, ALL_GROUPS, kit.folder())
        fill(store)
        store.close()
    factory.close()


def check_a_store_works_on_after_it_was_told_to_quiesce(kit: Kit) -> None:
    """``quiesce`` ends background work, and nothing else; a released snapshot may never have been read."""
    store = kit.store()
    fill(store)
    wanted = content(store)
    store.quiesce()
    with kit.snapshot(store, in_canonical=False):
        pass
    equal(content(store), wanted, "the content after quiesce()")
    restored = kit.store()
    kit.copy(store, restored, in_canonical=True)
    equal(content(restored), wanted, "a store restored from a quiesced one")
