"""What every storage must do, tried on a folder, in memory and on a real S3 server."""

from __future__ import annotations

import hashlib
import os
import threading

import pytest

from sparkstate import errors
from sparkstate.storage import PrefixedStore, s3_moving
from sparkstate.storage.probe import require_conditional_create
from sparkstate.storage.s3 import SINGLE_PUT_LIMIT


@pytest.fixture
def root(any_root):
    """Each kind of storage, empty."""
    return any_root


def test_what_was_created_is_read_back(root):
    root.put_if_absent("a/b", b"\x00bytes")
    assert root.get("a/b") == b"\x00bytes"
    assert root.head("a/b").size == 6


def test_an_empty_object_is_an_object(root):
    root.put_if_absent("empty", b"")
    assert root.get("empty") == b""
    assert [info.key for info in root.list("")] == ["empty"]


def test_the_second_creation_is_refused_and_changes_nothing(root):
    root.put_if_absent("a", b"first")
    with pytest.raises(errors.AlreadyExists):
        root.put_if_absent("a", b"second")
    assert root.get("a") == b"first"


def test_of_twelve_writers_at_once_one_wins(root):
    for round_number in range(5):
        won = []
        start = threading.Barrier(12)

        def write(me, key=f"race/{round_number}", won=won, start=start):
            start.wait()
            try:
                root.put_if_absent(key, b"%d" % me)
            except errors.AlreadyExists:
                return
            won.append(me)

        threads = [threading.Thread(target=write, args=(me,)) for me in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert root.get(f"race/{round_number}") == b"%d" % won[0]


@pytest.mark.parametrize("operation", ["get", "head", "get_file"])
def test_a_missing_object_is_not_found(root, operation, tmp_path):
    act = {
        "get": lambda: root.get("no/such"),
        "head": lambda: root.head("no/such"),
        "get_file": lambda: root.get_file("no/such", tmp_path / "target"),
    }[operation]
    with pytest.raises(errors.NotFound, match="no/such"):
        act()
    assert not list(tmp_path.glob("*target*"))


@pytest.mark.parametrize("size", [0, 5, SINGLE_PUT_LIMIT, SINGLE_PUT_LIMIT + 1])
def test_a_file_travels_there_and_back_in_one_part_or_several(root, tmp_path, size):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(size))
    root.put_file("data/file", source)
    arrived = root.get_file("data/file", target)
    assert target.read_bytes() == source.read_bytes()
    assert arrived == "sha256:" + hashlib.sha256(source.read_bytes()).hexdigest()
    assert root.head("data/file").size == size


def test_a_missing_source_file_is_the_callers_error(root, tmp_path):
    with pytest.raises(FileNotFoundError):
        root.put_file("data/file", tmp_path / "nothing")


def test_a_target_that_cannot_be_written_is_the_callers_error(root, tmp_path):
    root.put_if_absent("a", b"1")
    with pytest.raises(FileNotFoundError):
        root.get_file("a", tmp_path / "no" / "folder" / "target")


def test_objects_are_listed_by_prefix_in_order_of_their_keys(root):
    for key in ("log/10", "log/9", "log-old/1", "log/a/b", "other"):
        root.put_if_absent(key, b"x")
    assert [info.key for info in root.list("log")] == ["log-old/1", "log/10", "log/9", "log/a/b"]
    assert [info.key for info in root.list("log/1")] == ["log/10"]
    assert [info.key for info in root.list("log/a/")] == ["log/a/b"]
    assert list(root.list("none/")) == []


def test_more_objects_than_fit_one_page_are_listed_and_deleted(root):
    for number in range(1005):
        root.put_if_absent(f"many/{number:05d}", b"")
    listed = [info.key for info in root.list("many/")]
    assert listed == [f"many/{number:05d}" for number in range(1005)]
    root.delete(listed)
    assert list(root.list("")) == []


def test_deleting_what_is_missing_is_no_error(root):
    root.put_if_absent("a/b", b"1")
    root.delete(["a/b", "a/c", "x"])
    assert list(root.list("")) == []
    root.put_if_absent("a/b", b"2")
    assert root.get("a/b") == b"2"


def test_a_move_makes_its_target_appear_once(root):
    root.put_if_absent("a", b"bytes")
    ticket = root.begin_move("a", "x/b")
    assert [info.key for info in root.list("")] == ["a"]
    assert root.move(ticket, "a", "x/b", 5)
    assert root.get("x/b") == b"bytes"
    assert not root.move(ticket, "a", "x/b", 5)
    root.delete(["x/b"])
    assert not root.move(ticket, "a", "x/b", 5)
    assert [info.key for info in root.list("x/")] == []


def test_what_is_not_there_cannot_be_moved(root):
    with pytest.raises(errors.NotFound):
        root.move(root.begin_move("a", "b"), "a", "b", 5)
    assert list(root.list("")) == []


def test_an_empty_object_can_be_moved(root):
    root.put_if_absent("a", b"")
    assert root.move(root.begin_move("a", "b"), "a", "b", 0)
    assert root.head("b").size == 0


def test_a_large_object_is_moved_in_parts(root, tmp_path, monkeypatch):
    monkeypatch.setattr(s3_moving, "PART_SIZE", 5 << 20)
    (tmp_path / "large").write_bytes(os.urandom(12 << 20))
    root.put_file("a", tmp_path / "large")
    assert root.move(root.begin_move("a", "b"), "a", "b", 12 << 20)
    root.get_file("b", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "large").read_bytes()


def test_a_move_that_is_dropped_leaves_nothing_and_the_next_is_another(root):
    root.put_if_absent("a", b"bytes")
    root.drop_move(root.begin_move("a", "b"), "b")
    assert root.abort_uploads("", lambda key: True) == 0
    assert root.move(root.begin_move("a", "b"), "a", "b", 5)


@pytest.mark.parametrize("key", ["", "/a", "../a", "a/../b", "a//b", "a/", "./a", "a\\b", "a\0"])
def test_a_name_that_could_leave_the_root_is_refused(root, key):
    for act in (root.get, root.head, lambda name: root.delete([name])):
        with pytest.raises(errors.StorageError, match="not a valid object name"):
            act(key)


def test_a_folder_of_a_store_is_a_store(root, tmp_path):
    folder = PrefixedStore(root, "lineage")
    folder.put_if_absent("log/1", b"entry")
    root.put_if_absent("lineage2/log/1", b"other")
    assert folder.url == root.url + "/lineage"
    assert root.get("lineage/log/1") == b"entry"
    assert [info.key for info in folder.list("")] == ["log/1"]
    assert folder.head("log/1").key == "log/1"
    folder.delete(["log/1"])
    assert [info.key for info in root.list("")] == ["lineage2/log/1"]


def test_the_probe_accepts_both_storages_and_leaves_nothing(root):
    require_conditional_create(root)
    assert list(root.list("")) == []
