"""Row by row what Flink's FsCheckpointStreamFactory does, against both storages."""

from __future__ import annotations

import hashlib
import itertools
import os

import pytest
from support.storage.stores import HookedStore

from sparkstate import errors
from sparkstate.storage import streams
from sparkstate.storage.location import CheckpointStorage, CheckpointStorageLocation
from sparkstate.storage.streams import CheckpointStreamFactory, StateScope


def make(store, *, threshold=100, buffer=4096, names=None):
    counter = itertools.count()
    factory = CheckpointStreamFactory(
        store,
        "chk-1",
        "shared",
        names or (lambda: f"1-1-{next(counter)}"),
        threshold=threshold,
        write_buffer_size=buffer,
    )
    return lambda scope=StateScope.EXCLUSIVE: factory.create_checkpoint_state_output_stream(scope, "state")


def keys(store):
    return [info.key for info in store.list("")]


@pytest.fixture
def root(any_root):
    """Each kind of storage, empty."""
    return any_root


def test_few_bytes_stay_in_the_handle_and_nothing_is_stored(root):
    stream = make(root)()
    stream.write(b"x" * 60)
    stream.write(b"y" * 40)
    handle = stream.close_and_get_handle()
    assert handle.inline == b"x" * 60 + b"y" * 40
    assert (handle.path, handle.size) == ("", 100)
    assert keys(root) == []


def test_one_byte_more_than_the_threshold_becomes_an_object(root):
    stream = make(root)()
    stream.write(b"x" * 101)
    handle = stream.close_and_get_handle()
    assert handle.inline is None
    assert handle.path == "chk-1/1-1-0"
    assert root.get(handle.path) == b"x" * 101
    assert handle.checksum == "sha256:" + hashlib.sha256(b"x" * 101).hexdigest()


def test_shared_state_goes_into_the_shared_folder(root):
    stream = make(root, threshold=0)(StateScope.SHARED)
    stream.write(b"x")
    handle = stream.close_and_get_handle()
    assert handle.path == "shared/1-1-0"
    assert handle.shared


def test_nothing_written_is_no_handle(root):
    assert make(root)().close_and_get_handle() is None
    assert keys(root) == []


def test_a_second_close_for_a_handle_is_an_error(root):
    stream = make(root)()
    stream.write(b"x")
    stream.close_and_get_handle()
    with pytest.raises(errors.StorageError, match=r"^Stream has already been closed and discarded\.$"):
        stream.close_and_get_handle()


def test_close_discards_and_may_be_repeated(root):
    stream = make(root)()
    stream.write(b"x" * 10_000)
    stream.flush()
    stream.close()
    stream.close()
    assert keys(root) == []
    with pytest.raises(errors.StorageError, match="already been closed"):
        stream.close_and_get_handle()


@pytest.mark.parametrize("call", ["write", "flush"])
def test_after_close_the_stream_is_closed(root, call):
    stream = make(root)()
    stream.close()
    with pytest.raises(errors.StorageError, match=r"^closed$"):
        stream.write(b"x") if call == "write" else stream.flush()


def test_sync_before_the_first_flush_is_safe_and_does_not_force_a_file(root):
    stream = make(root)()
    stream.sync()
    stream.write(b"x")
    stream.sync()
    assert stream.close_and_get_handle().inline == b"x"


def test_a_large_first_write_that_fits_the_threshold_stays_inline(root):
    stream = make(root, threshold=20_000)()
    stream.write(b"x" * 15_000)
    assert stream.get_pos() == 15_000
    assert stream.close_and_get_handle().inline == b"x" * 15_000


def test_a_flush_by_hand_makes_a_file_of_few_bytes(root):
    stream = make(root)()
    stream.write(b"x")
    stream.flush()
    assert stream.close_and_get_handle().path == "chk-1/1-1-0"


@pytest.mark.parametrize(
    "sizes", [[5000], [100, 3000, 100], [4096] * 3, [1, 4095, 1, 2048, 2047], [2**20 + 1, 3]]
)
def test_all_bytes_arrive_in_order_whatever_the_sizes_of_the_writes(root, sizes):
    stream = make(root)()
    data = [os.urandom(size) for size in sizes]
    for piece in data:
        stream.write(piece)
    assert stream.get_pos() == sum(sizes)
    assert root.get(stream.close_and_get_handle().path) == b"".join(data)


def test_the_threshold_has_its_limits():
    with pytest.raises(errors.SpecInvalid, match="must be zero or larger"):
        CheckpointStreamFactory(None, "e", "s", str, threshold=-1)
    with pytest.raises(errors.SpecInvalid, match="cannot be larger than 1048576"):
        CheckpointStreamFactory(None, "e", "s", str, threshold=1048577)
    with pytest.raises(errors.SpecInvalid, match="must be zero or larger"):
        CheckpointStreamFactory(None, "e", "s", str, write_buffer_size=-1)
    assert streams.DEFAULT_FILE_STATE_THRESHOLD == 20 * 1024
    assert streams.DEFAULT_WRITE_BUFFER_SIZE == 4096
    assert streams.MAX_FILE_STATE_THRESHOLD == 1024 * 1024


def test_the_buffer_is_the_larger_of_its_size_and_the_threshold(root):
    stream = make(root, threshold=100_000, buffer=1)()
    stream.write(b"x" * 99_999)
    assert stream.close_and_get_handle().inline is not None


def test_a_buffer_below_the_threshold_is_refused(root):
    with pytest.raises(errors.SpecInvalid, match=r"buffer \(10 bytes\).*threshold \(11\)"):
        streams.CheckpointStateOutputStream(root, str, "x", shared=False, threshold=11, buffer_size=10)


def test_a_taken_name_is_never_overwritten_another_is_taken(root):
    root.put_if_absent("chk-1/taken", b"old")
    names = iter(["taken", "taken", "free"])
    stream = make(root, threshold=0, names=lambda: next(names))()
    stream.write(b"new")
    assert stream.close_and_get_handle().path == "chk-1/free"
    assert root.get("chk-1/taken") == b"old"


def test_after_ten_taken_names_it_gives_up(root):
    root.put_if_absent("chk-1/taken", b"old")
    asked = []
    stream = make(root, threshold=0, names=lambda: asked.append(1) or "taken")()
    stream.write(b"new")
    with pytest.raises(
        errors.StorageError, match=r"^Could not open output stream for state backend$"
    ) as caught:
        stream.close_and_get_handle()
    assert len(asked) == 10
    assert isinstance(caught.value.__cause__, errors.AlreadyExists)


def test_a_failed_write_deletes_the_file_and_says_so(root):
    store = HookedStore(root)

    def break_after_put(operation, key):
        if operation == "put_if_absent":
            raise errors.StorageUnavailable("cut")

    store.after = break_after_put
    stream = make(store, threshold=0)()
    stream.write(b"x")
    with pytest.raises(
        errors.StorageUnavailable,
        match=r"Could not flush and close the file system output stream to .*/chk-1/1-1-0: cut",
    ):
        stream.close_and_get_handle()
    assert keys(root) == []


def test_a_failed_clean_up_does_not_hide_the_failure(root):
    store = HookedStore(root)
    store.unplug()
    stream = make(store, threshold=0)()
    stream.write(b"x")
    with pytest.raises(errors.StorageUnavailable, match="Could not flush and close"):
        stream.close_and_get_handle()
    stream.close()


def test_making_streams_and_places_does_no_io(root):
    store = HookedStore(root)
    make(store)()
    location = CheckpointStorage(store).initialize_location_for_checkpoint(3)
    location.create_metadata_output_stream().close()
    assert store.calls == []
    assert location.get_location_reference() == root.url + "/chk-3"


def test_metadata_is_never_overwritten_but_finds_itself(root):
    location = CheckpointStorage(root).initialize_location_for_checkpoint(3)

    def finish(data):
        stream = location.create_metadata_output_stream()
        stream.write(data)
        return stream.close_and_finalize_checkpoint()

    assert finish(b"mine") == root.url + "/chk-3"
    assert finish(b"mine") == root.url + "/chk-3"
    with pytest.raises(errors.AlreadyExists):
        finish(b"other")
    assert root.get("chk-3/_metadata") == b"mine"


def test_the_metadata_stream_knows_its_position_and_whether_it_is_closed(root):
    stream = CheckpointStorage(root).initialize_location_for_checkpoint(3).create_metadata_output_stream()
    assert (stream.get_pos(), stream.is_closed()) == (0, False)
    stream.write(b"abc")
    stream.write(0x164)  # the low eight bits: "d"
    stream.flush()
    stream.sync()
    assert (stream.get_pos(), keys(root)) == (4, [])
    stream.close_and_finalize_checkpoint()
    assert root.get("chk-3/_metadata") == b"abcd"
    assert (stream.get_pos(), stream.is_closed()) == (-1, True)
    for use in (stream.flush, stream.sync, lambda: stream.write(1)):
        with pytest.raises(errors.StorageError, match=r"^closed$"):
            use()


def test_metadata_that_is_not_finished_leaves_nothing(root):
    stream = CheckpointStorage(root).initialize_location_for_checkpoint(3).create_metadata_output_stream()
    stream.write(b"x")
    stream.close()
    with pytest.raises(errors.StorageError, match="already been closed"):
        stream.close_and_finalize_checkpoint()
    with pytest.raises(errors.StorageError, match=r"^closed$"):
        stream.write(b"x")
    assert keys(root) == []


def test_disposing_deletes_the_exclusive_folder_only(root):
    for key in ("chk-3/a", "chk-3/_metadata", "chk-30/a", "shared/a", "taskowned/a"):
        root.put_if_absent(key, b"")
    CheckpointStorage(root).initialize_location_for_checkpoint(3).dispose_on_failure()
    assert keys(root) == ["chk-30/a", "shared/a", "taskowned/a"]


def test_a_reference_leads_back_to_its_place_and_none_outside(root):
    storage = CheckpointStorage(root)
    reference = storage.initialize_location_for_checkpoint(3).get_location_reference()
    assert storage.resolve_checkpoint_storage_location(reference).metadata_path == "chk-3/_metadata"
    with pytest.raises(errors.StorageError, match="does not lie under"):
        storage.resolve_checkpoint_storage_location("s3://elsewhere/chk-3")


def test_task_owned_state_lies_apart(root):
    stream = CheckpointStorage(root, ids=lambda: "77").create_task_owned_state_stream(2, "writer")
    stream.write(b"x")
    assert stream.close_and_get_handle().path == "taskowned/2-0-77"


def test_a_savepoint_folder_holds_its_own_metadata(root):
    location = CheckpointStorageLocation(root, "")
    stream = location.create_metadata_output_stream()
    stream.write(b"x")
    assert stream.close_and_finalize_checkpoint() == root.url
    assert keys(root) == ["_metadata"]
