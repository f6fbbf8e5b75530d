from __future__ import annotations

import os
import random
import time

import pytest
from support.storage.stores import HookedStore, ManualClock

from sparkstate import errors
from sparkstate.settings import S3Settings
from sparkstate.storage import OpenStores
from sparkstate.storage.local import LocalStore
from sparkstate.storage.probe import require_conditional_create
from sparkstate.storage.retrying import RetryingStore, RetryPolicy


@pytest.fixture
def shaky(tmp_path):
    return HookedStore(LocalStore(str(tmp_path)))


def fail_times(count, error=errors.StorageUnavailable):
    left = [count]

    def hook(operation, key):
        if left[0]:
            left[0] -= 1
            raise error("away")

    return hook


def retrying(store, attempts=4):
    clock = ManualClock()
    policy = RetryPolicy(attempts=attempts, first_pause_s=1.0, max_pause_s=3.0)
    return RetryingStore(store, policy, random.Random(7), clock), clock


def test_an_outage_shorter_than_the_attempts_is_not_seen(shaky):
    store, clock = retrying(shaky)
    shaky.before = fail_times(3)
    store.put_if_absent("a", b"1")
    assert store.get("a") == b"1"
    first, second, third = clock.slept
    assert 0.5 <= first <= 1.0 <= second <= 2.0
    assert 1.5 <= third <= 3.0


def test_a_longer_outage_is_raised_after_the_last_attempt(shaky):
    store, clock = retrying(shaky)
    shaky.before = fail_times(4)
    with pytest.raises(errors.StorageUnavailable):
        store.get("a")
    assert len(clock.slept) == 3


@pytest.mark.parametrize("error", [errors.StorageError, errors.NotFound, errors.AlreadyExists])
def test_what_will_not_get_better_is_not_repeated(shaky, error):
    store, clock = retrying(shaky)
    shaky.before = fail_times(1, error)
    with pytest.raises(error):
        store.get("a")
    assert clock.slept == []


def test_a_listing_that_breaks_begins_anew_and_has_no_doubles(shaky):
    store, _ = retrying(shaky)
    for name in "abc":
        store.put_if_absent(name, b"")
    shaky.before = fail_times(2)
    assert [info.key for info in store.list("")] == ["a", "b", "c"]


def test_pauses_differ_between_two_writers():
    policy = RetryPolicy()
    pauses = {policy.pause_s(3, random.Random(seed)) for seed in range(20)}
    assert len(pauses) == 20
    assert max(pauses) <= 0.4
    assert policy.pause_s(50, random.Random(1)) <= policy.max_pause_s


class Overwriting(HookedStore):
    """A server that ignores If-None-Match, as many did for years."""

    def put_if_absent(self, key, data):
        self.store.delete([key])
        self.store.put_if_absent(key, data)


def test_a_storage_that_overwrites_is_refused(tmp_path):
    store = Overwriting(LocalStore(str(tmp_path)))
    with pytest.raises(errors.StorageError, match=r"If-None-Match.*Use a storage with conditional writes"):
        require_conditional_create(store)
    assert list(store.list("")) == []


class ListsLate(HookedStore):
    """A listing of a minute ago."""

    def list(self, prefix):
        return iter([])


def test_a_storage_that_lists_late_is_refused(tmp_path):
    store = ListsLate(LocalStore(str(tmp_path)))
    with pytest.raises(errors.StorageError, match=r"a listing after that does not show it.*consistent"):
        require_conditional_create(store)
    assert list(store.store.list("")) == []


def test_what_a_killed_process_left_of_its_trial_goes_after_a_day(tmp_path):
    store = LocalStore(str(tmp_path))
    for name, hours in (("old", 25), ("young", 23)):
        store.put_if_absent(f"_probe/{name}", b"first")
        then = time.time() - hours * 3600
        os.utime(tmp_path / "_probe" / name, (then, then))
    require_conditional_create(store)
    assert [info.key for info in store.list("")] == ["_probe/young"]


def test_the_probe_is_not_fooled_by_its_own_lost_answer(shaky):
    shaky.after = fail_times(1)
    store, _ = retrying(shaky)
    require_conditional_create(store)


def test_stores_that_were_not_used_for_long_are_let_go(tmp_path):
    """A driver that takes savepoints for months, each into a folder of its own, kept a client for every one."""
    stores = OpenStores(S3Settings())
    always = stores.make(str(tmp_path / "always"))
    for number in range(3 * OpenStores.MOST):
        stores.make(str(tmp_path / f"{number}"))
        assert stores.get(str(tmp_path / "always")) is always
    assert len(stores) == OpenStores.MOST


def test_stores_that_are_held_stay_open_however_many_others_there_are(tmp_path):
    stores = OpenStores(S3Settings())
    names = [str(tmp_path / f"sink-{number}") for number in range(OpenStores.MOST + 4)]
    stores.hold(names)
    held = [stores.make(name) for name in names]
    for number in range(2 * OpenStores.MOST):
        stores.make(str(tmp_path / f"{number}"))
    assert [stores.get(f"file://{name}") for name in names] == held
    assert len(stores) == len(held) + OpenStores.MOST
    stores.hold(names[:1])
    stores.make(str(tmp_path / "one more"))
    assert len(stores) == 1 + OpenStores.MOST


def test_a_folder_is_made_once_and_not_again_where_its_volume_was(tmp_path):
    stores = OpenStores(S3Settings())
    with pytest.raises(errors.StorageUnavailable, match="is its volume mounted"):
        stores.get(str(tmp_path / "volume" / "folder"))
    assert not (tmp_path / "volume").exists()
    stores.make(str(tmp_path / "volume" / "folder"))
    (tmp_path / "volume" / "folder").rmdir()
    for number in range(OpenStores.MOST):
        stores.make(str(tmp_path / f"{number}"))
    for opened in (stores.get, stores.make):
        with pytest.raises(errors.StorageUnavailable, match="is its volume mounted"):
            opened(str(tmp_path / "volume" / "folder"))
    assert list((tmp_path / "volume").iterdir()) == []
