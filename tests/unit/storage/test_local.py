from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.storage.read_only import make_read_only

from sparkstate import errors
from sparkstate.storage import local, open_inside, open_store
from sparkstate.storage.local import LocalStore


@pytest.fixture
def store(tmp_path):
    return LocalStore(str(tmp_path / "root"))


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_temporary_files_never_show_and_never_stay(store, tmp_path):
    store.put_if_absent("a/b", b"1")
    with pytest.raises(errors.AlreadyExists):
        store.put_if_absent("a/b", b"2")
    assert files_below(tmp_path / "root") == ["a/b"]
    (tmp_path / "root" / ".tmp" / "host-1-x").write_bytes(b"half")
    assert [info.key for info in store.list("")] == ["a/b"]


def test_a_writer_killed_half_way_leaves_no_object_and_its_remains_go_with_the_next_opening(tmp_path):
    root = tmp_path / "root"
    script = (
        "import os, signal, sys\n"
        "from sparkstate.storage import local\n"
        "store = local.LocalStore(sys.argv[1])\n"
        "os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "store.put_if_absent('a', b'x' * 1000)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(root)], check=False)
    assert ended.returncode == -9
    assert len(files_below(root)) == 1
    store = LocalStore(str(root))
    assert files_below(root) == []
    with pytest.raises(errors.NotFound):
        store.get("a")


def test_a_folder_that_cannot_be_made_is_not_said_to_have_gone():
    with pytest.raises(
        errors.StorageUnavailable, match="/proc/nothing is not there; is its volume mounted"
    ) as told:
        LocalStore("/proc/nothing")
    assert "gone" not in str(told.value)


def test_empty_folders_are_not_left_behind(store, tmp_path):
    store.put_if_absent("chk-1/a", b"1")
    store.put_if_absent("chk-1/b", b"1")
    store.delete(["chk-1/a"])
    assert (tmp_path / "root" / "chk-1").is_dir()
    store.delete(["chk-1/b"])
    assert not (tmp_path / "root" / "chk-1").exists()


def test_a_folder_that_vanishes_is_an_outage_and_never_an_empty_storage(store, tmp_path):
    store.put_if_absent("log/1", b"1")
    (tmp_path / "root").rename(tmp_path / "away")
    for act in (
        lambda: store.get("log/1"),
        lambda: store.get("log/2"),
        lambda: list(store.list("")),
        lambda: store.put_if_absent("log/2", b""),
        lambda: store.delete(["log/1"]),
    ):
        with pytest.raises(errors.StorageUnavailable, match=r"is not there.*mounted"):
            act()
    assert not (tmp_path / "root").exists()
    (tmp_path / "away").rename(tmp_path / "root")
    assert store.get("log/1") == b"1"


def test_opening_to_read_makes_no_folder(tmp_path):
    with pytest.raises(errors.NotFound, match="no folder"):
        open_store(f"{tmp_path}/nothing", create=False)
    assert not (tmp_path / "nothing").exists()


def test_a_folder_on_a_read_only_volume_is_read_and_a_write_says_what_to_do(store, tmp_path, monkeypatch):
    store.put_if_absent("chk-1/a", b"1")
    make_read_only(monkeypatch)
    reader = open_store(f"{tmp_path}/root", create=False)
    assert [info.key for info in reader.list("")] == ["chk-1/a"]
    assert (reader.get("chk-1/a"), reader.head("chk-1/a").size) == (b"1", 1)
    assert (tmp_path / "root" / ".tmp").is_dir()
    with pytest.raises(
        errors.StorageRefused, match=r"Read-only file system; remount the volume for writing$"
    ):
        reader.put_if_absent("chk-1/b", b"1")


def test_a_store_that_was_opened_to_read_sweeps_at_its_first_write(store, tmp_path):
    store.put_if_absent("a", b"1")
    abandoned = tmp_path / "root" / ".tmp" / "elsewhere-1-x"
    abandoned.write_bytes(b"half")
    os.utime(abandoned, (0, 0))
    late = LocalStore(str(tmp_path / "root"), create=False)
    assert late.get("a") == b"1"
    assert abandoned.exists()
    late.put_if_absent("b", b"2")
    assert files_below(tmp_path / "root") == ["a", "b"]


def test_a_root_that_is_a_file_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StorageError, match="it must be a folder"):
        LocalStore(str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("number", "kind", "remedy"),
    [
        pytest.param(errno.ENOSPC, errors.StorageUnavailable, "free some space", id="disk full"),
        pytest.param(errno.EIO, errors.StorageUnavailable, "Input/output", id="disk broken"),
        pytest.param(errno.EACCES, errors.StorageRefused, "read and write access", id="no permission"),
        pytest.param(errno.EROFS, errors.StorageRefused, "remount the volume for writing$", id="read-only"),
        pytest.param(errno.EPERM, errors.StorageError, "no hard links", id="file system without links"),
    ],
)
def test_what_the_system_refuses_is_said_with_the_remedy(store, monkeypatch, number, kind, remedy):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(kind, match=remedy) as caught:
        store.put_if_absent("a", b"1")
    assert type(caught.value) is kind


def test_folders_that_are_made_are_flushed_into_those_above(tmp_path, monkeypatch):
    flushed = []
    fsync = os.fsync

    def watch(descriptor):
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    LocalStore(str(tmp_path / "state" / "lineage"))
    assert flushed == [str(tmp_path), str(tmp_path / "state")]


def test_the_object_and_its_folder_are_flushed_before_the_creation_is_reported(store, monkeypatch):
    flushed = []
    fsync = os.fsync

    def watch(descriptor):
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}").rsplit("/root", 1)[1])
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    store.put_if_absent("x/y", b"1")
    assert flushed[0].startswith("/.tmp/")
    assert "" in flushed[1:]  # the root, which got the folder x
    assert flushed[-1] == "/x"


def test_a_listing_opens_no_folder_in_which_such_names_cannot_lie(store, monkeypatch):
    for key in ("log/1", "chk-1/a/b", "chk-2/c", "shared/d"):
        store.put_if_absent(key, b"x")
    opened = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (opened.append(os.path.basename(path)), scandir(path))[1])
    assert [info.key for info in store.list("chk-")] == ["chk-1/a/b", "chk-2/c"]
    assert sorted(opened) == ["a", "chk-1", "chk-2", "root"]


def test_a_folder_that_may_not_be_read_is_no_empty_folder(store, monkeypatch):
    store.put_if_absent("log/1", b"x")

    def refuse(path):
        raise PermissionError(errno.EACCES, "no", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(errors.StorageError, match="read and write access"):
        store.list("log/")


class RemembersWhatIsMissing:
    """An NFS client: a name that was missing is said to be so until the folder above it is opened (close-to-open)."""

    def __init__(self, monkeypatch):
        self.missing, self._stat, self._open = set(), os.stat, os.open
        monkeypatch.setattr(os, "stat", self.stat)
        monkeypatch.setattr(os, "open", self.open)

    def stat(self, path, **how):
        if str(path) in self.missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        try:
            return self._stat(path, **how)
        except FileNotFoundError:
            self.missing.add(str(path))
            raise

    def open(self, path, *how, **more):
        self.missing = {name for name in self.missing if os.path.dirname(name) != str(path)}
        return self._open(path, *how, **more)


@pytest.mark.fault(
    broken="a shared file system goes on to say that a folder is not there (NFS, for up to 60 s)",
    when="a slot looks for a savepoint's folder before and after the driver, on another host, has made it",
    expected="the next look finds it",
)
@pytest.mark.fault_on("a folder")
def test_a_folder_that_another_host_has_made_is_found_at_the_next_look(tmp_path, monkeypatch):
    client = RemembersWhatIsMissing(monkeypatch)
    url = f"file://{tmp_path}/savepoint-1"
    with pytest.raises(errors.StorageUnavailable, match="savepoint-1"):
        open_inside(url)
    client.missing.add(str(tmp_path / "savepoint-1"))
    os.mkdir(tmp_path / "savepoint-1")
    assert not os.path.isdir(tmp_path / "savepoint-1"), "the client remembers"
    open_inside(url).put_if_absent("a", b"1")
    assert (tmp_path / "savepoint-1" / "a").read_bytes() == b"1"


def test_of_eight_who_move_by_one_ticket_one_makes_it_appear(tmp_path):
    root = LocalStore(str(tmp_path))
    for round_number in range(5):
        source, target = f"a{round_number}", f"b{round_number}"
        root.put_if_absent(source, b"bytes")
        ticket = root.begin_move(source, target)
        start, appeared = threading.Barrier(8), []

        def move(source=source, target=target, ticket=ticket, start=start, appeared=appeared):
            start.wait()
            if root.move(ticket, source, target, 5):
                appeared.append(root.get(target))
                root.delete([target])

        threads = [threading.Thread(target=move) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert appeared == [b"bytes"]
        assert [info.key for info in root.list("b")] == []


def test_a_file_whose_folder_could_not_be_flushed_is_stored_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is used once, so the file that is there already is the one of the try before."""
    source = tmp_path / "source"
    source.write_bytes(b"rows" * 1000)
    flush, failures = local._flush_directory, [OSError(errno.EIO, "I/O error")]

    def flaky(folder: Path) -> None:
        if folder.name == "shared" and failures:
            raise failures.pop()
        flush(folder)

    monkeypatch.setattr(local, "_flush_directory", flaky)
    store = open_store(str(tmp_path / "state"))
    store.put_file("shared/1-1-aa", source)
    assert failures == []
    assert store.get("shared/1-1-aa") == source.read_bytes()
    source.write_bytes(b"others" * 1000)
    with pytest.raises(errors.AlreadyExists):
        store.put_file("shared/1-1-aa", source)


def test_a_link_that_meets_itself_has_been_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS repeats a link whose answer was lost, and answers the repetition."""
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    store = open_store(str(tmp_path / "state"))
    store.put_if_absent("a/b", b"1")
    assert store.get("a/b") == b"1"
    with pytest.raises(errors.AlreadyExists):
        store.put_if_absent("a/b", b"2")
