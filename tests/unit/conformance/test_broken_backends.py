"""Each fault that an author of a backend may make fails the kit, at the check that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.backends import own_backends, own_formats

from sparkstate import conformance
from sparkstate.backend_api import BackendContext, BackendFactory

FAULTS = {
    "KeepsDeletedBackend": (
        "commit_makes_all_kinds_of_changes",
        "values: expected [None, -1, 5], found [0, -1, 5]",
    ),
    "UnorderedBackend": ("timers_come_in_order_and_stay_until_deleted", "due timers: expected"),
    "UnisolatedBackend": (
        "native_snapshot_is_isolated_from_later_commits",
        "the snapshot, 'values', 'a': expected 0",
    ),
    "ShuffledBackend": ("commit_makes_all_kinds_of_changes", "values as they were asked for: expected"),
    "OneThreadBackend": ("any_thread_may_call_a_store", "RuntimeError: made in another thread"),
    "ShortKeysBackend": ("commit_makes_all_kinds_of_changes", "it raised ValueError"),
    "SharedRowsBackend": ("stores_of_one_factory_are_apart", "another store's value in a snapshot"),
    "CopyingRowsBackend": ("figures_are_numbers_by_name", "a figure is '1.0' by the name 'version'"),
    "AliasingBackend": ("what_is_read_can_be_changed_by_the_reader", "a list after its copy was changed"),
    "AllKeyGroupsBackend": ("canonical_file_feeds_stores_of_smaller_ranges", ""),
    "ForgetsNamespacesBackend": ("whole_number_keys_of_numbers", "restored values: expected"),
    "ForgetfulBackend": ("restored_tables_are_there_before_they_are_asked_for", "restored tables: expected"),
    "AnyTypeBackend": ("tables_are_the_same_object_for_the_same_name", "table() accepted"),
    "OneByOneBackend": ("commit_is_atomic", "the content after a failed commit, 'values', 'a'"),
    "ConsumingBackend": ("timers_come_in_order_and_stay_until_deleted", "due timers"),
    "KeepsDroppedBackend": ("dropped_operators_are_in_no_later_snapshot", "tables after a drop: expected"),
    "LateSnapshotBackend": ("native_snapshot_is_isolated_from_later_commits", "the snapshot, 'values', 'a'"),
}
"""The check that fails first, and words of its message."""


def failure(backend: type[BackendFactory], folder: Path) -> conformance.Failure | None:
    return conformance.first_failure(lambda path: backend(BackendContext(directory=path)), folder)


@pytest.mark.parametrize(
    "backend", [own_backends.MemoryBackend, own_formats.OwnFormatBackend, own_formats.OwnFilesBackend]
)
def test_the_right_backends_pass(backend: type[BackendFactory], tmp_path: Path) -> None:
    assert failure(backend, tmp_path) is None


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_fails_the_check_on_it(name: str, tmp_path: Path) -> None:
    found = failure(getattr(own_backends, name), tmp_path)
    check, words = FAULTS[name]
    assert found is not None
    assert found.check == check
    assert words in found.problem
