"""Key groups of keys that are Python objects: remembered once, and a commit asks for those of its own keys alone."""

from __future__ import annotations

from sparkstate.backends.base import NamespacedCell
from sparkstate.backends.hashmap.key_groups import KeyGroupsOfKeys


class Counted(str):
    """A key that counts how often any of its kind is looked for."""

    looks = 0

    def __hash__(self) -> int:
        Counted.looks += 1
        return super().__hash__()


def test_keys_keep_their_first_key_group_with_and_without_namespaces():
    groups = KeyGroupsOfKeys()
    for cells in (["a", NamespacedCell("b", 1)], ["a", "c"], [NamespacedCell("a", 2)], []):
        groups.add(dict.fromkeys(cells).keys(), {"a": 1, "b": 2, "c": 3})
    assert groups.by_key == {"a": 1, "b": 2, "c": 3}


def test_a_commit_of_one_key_does_not_look_at_all_keys():
    groups, kgs = KeyGroupsOfKeys(), {Counted(number): number for number in range(1000)}
    groups.add(kgs.keys(), kgs)
    for cells in ({Counted(7): None}, {Counted(7): None, Counted("new"): None}):
        before = Counted.looks
        groups.add(cells.keys(), dict.fromkeys(cells, 0))
        assert Counted.looks - before < 20
    assert groups.by_key[Counted("new")] == 0
    assert len(groups.by_key) == 1001
