"""Key groups, shards, slots: every key group has one shard, every shard one slot, however they are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import errors, keygroups
from sparkstate.keygroups import KeySpace


@pytest.mark.parametrize(
    ("parallelism", "max_parallelism", "expected"),
    [(1, 128, 16), (2, 128, 16), (5, 128, 32), (100, 256, 256)],
)
def test_the_default_number_of_shards_leaves_room_to_grow(
    parallelism: int, max_parallelism: int, expected: int
) -> None:
    assert keygroups.default_shards(parallelism, max_parallelism) == expected


def test_a_new_job_has_flinks_key_groups_and_the_shards_that_it_names() -> None:
    assert keygroups.of_new_job(2, None, None) == KeySpace(128, 16)
    assert keygroups.of_new_job(2, None, 128) == KeySpace(128, 128)
    assert keygroups.of_new_job(2, 200, 200) == KeySpace(200, 200)
    with pytest.raises(errors.SpecInvalid, match=r"spec\.shards: .* has 128 .* at least 200 \(it is 200\)"):
        keygroups.of_new_job(2, None, 200)


@st.composite
def key_spaces(draw: st.DrawFn) -> tuple[KeySpace, int]:
    """A key space, and a number of slots that it allows."""
    groups = draw(st.integers(1, 400) | st.just(keygroups.MAX_PARALLELISM_UPPER_BOUND))
    shards = draw(st.integers(1, min(groups, 64)))
    return KeySpace(groups, shards), draw(st.integers(1, shards))


@given(key_spaces())
def test_shards_cover_all_key_groups_without_gap_or_overlap(drawn: tuple[KeySpace, int]) -> None:
    space, _ = drawn
    ranges = [space.key_groups_of_shard(shard) for shard in range(space.shards)]
    assert ranges[0].start == 0
    assert ranges[-1].end == space.max_parallelism - 1
    assert all(left.end + 1 == right.start for left, right in itertools.pairwise(ranges))
    assert min(len(one) for one in ranges) >= 1
    assert max(len(one) for one in ranges) - min(len(one) for one in ranges) <= 1


@given(key_spaces())
def test_a_key_group_finds_the_shard_that_covers_it(drawn: tuple[KeySpace, int]) -> None:
    space, _ = drawn
    for shard in range(space.shards):
        covered = space.key_groups_of_shard(shard)
        assert {space.shard_of_key_group(group) for group in (covered.start, covered.end)} == {shard}
        assert covered.start in covered
        assert covered.end + 1 not in covered


@given(key_spaces())
def test_slots_share_out_whole_shards_and_each_has_one(drawn: tuple[KeySpace, int]) -> None:
    space, slots = drawn
    runs = [space.shards_of_slot(slot, slots) for slot in range(slots)]
    assert [shard for run in runs for shard in run] == list(range(space.shards))
    assert min(len(run) for run in runs) >= 1
    assert max(len(run) for run in runs) - min(len(run) for run in runs) <= 1
    assert all(space.slot_of_shard(shard, slots) == slot for slot, run in enumerate(runs) for shard in run)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: KeySpace(0, 1), "maxParallelism is 0", id="no-key-groups"),
        pytest.param(lambda: KeySpace(32769, 1), "between 1 and 32768", id="too-many-key-groups"),
        pytest.param(
            lambda: KeySpace(128, 129), r"shards is 129.*maxParallelism \(128\)", id="too-many-shards"
        ),
        pytest.param(
            lambda: KeySpace(128, 16).shards_of_slot(0, 17), "slots is 17.*16 shards", id="too-many-slots"
        ),
        pytest.param(lambda: KeySpace(128, 16).shards_of_slot(0, 0), "slots is 0", id="no-slots"),
    ],
)
def test_what_cannot_be_is_refused_with_its_number(make: object, words: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=words):
        make()  # type: ignore[operator]
