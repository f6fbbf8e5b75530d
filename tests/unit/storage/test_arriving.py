"""Files that come from a store: whole, hashed, past the page cache where that is possible."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import mmap
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkstate.settings import MIB
from sparkstate.storage.arriving import DIRECT_FROM, arriving, checksum_of_old

PAGE = mmap.PAGESIZE
DIRECT = getattr(os, "O_DIRECT", 0)


def ids() -> str:
    return "0a1b"


def write(target: Path, data: bytes, step: int, size: int | None = None) -> str:
    with arriving(target, len(data) if size is None else size, ids) as file:
        for at in range(0, len(data), step):
            file.write(data[at : at + step])
        assert file.written == len(data)
        return file.finish()


def pages_in_memory(path: Path) -> int:
    """How many of the file's pages the page cache holds (mincore)."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        pages = -(-len(mapped) // PAGE)
        found = (ctypes.c_ubyte * pages)()
        begin = ctypes.c_ubyte.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(ctypes.byref(begin), ctypes.c_size_t(len(mapped)), found)
        del begin
        assert not failed
        return sum(one & 1 for one in found)


def knows_direct_writes(folder: Path) -> bool:
    try:
        os.close(os.open(folder / "probe", os.O_WRONLY | os.O_CREAT | DIRECT))
    except OSError:
        return False
    return bool(DIRECT)


@pytest.mark.parametrize("step", [1000, 256 * 1024, 3 * MIB])
@pytest.mark.parametrize(
    "size",
    [0, 1, DIRECT_FROM - 1, DIRECT_FROM, DIRECT_FROM + 1, DIRECT_FROM + MIB - 1, 2 * DIRECT_FROM + 4097],
)
def test_a_file_arrives_as_it_was_sent_with_its_hash(tmp_path: Path, size: int, step: int) -> None:
    data = random.Random(size).randbytes(size)
    assert write(tmp_path / "target", data, step) == "sha256:" + hashlib.sha256(data).hexdigest()
    assert (tmp_path / "target").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_one_that_is_longer_or_shorter_than_was_said_is_written_as_it_came(tmp_path: Path) -> None:
    for said in (DIRECT_FROM, 0, 100 * DIRECT_FROM):
        data = random.Random(said).randbytes(DIRECT_FROM + 17)
        write(tmp_path / "target", data, 10_000, said)
        assert (tmp_path / "target").read_bytes() == data


def test_a_large_one_leaves_the_page_cache_alone(tmp_path: Path) -> None:
    if not knows_direct_writes(tmp_path):
        pytest.skip(f"the file system of {tmp_path} has no direct writes")
    write(tmp_path / "large", bytes(16 * MIB + 5), 256 * 1024)
    write(tmp_path / "small", bytes(MIB), 256 * 1024)
    assert pages_in_memory(tmp_path / "large") <= 64  # the last bytes, which fill no block
    assert pages_in_memory(tmp_path / "small") == MIB // PAGE


@pytest.mark.parametrize("call", ["open", "write"])
def test_a_file_system_without_direct_writes_gets_ordinary_ones(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def refusing(real: Callable[..., Any]) -> Callable[..., Any]:
        def act(first: Any, second: Any, *rest: Any) -> Any:
            direct = second & DIRECT if call == "open" else is_direct(first)
            if direct:
                refused.append(call)
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return real(first, second, *rest)

        return act

    monkeypatch.setattr(os, call, refusing(getattr(os, call)))
    data = random.Random(1).randbytes(DIRECT_FROM + MIB + 1)
    write(tmp_path / "target", data, 300_000)
    assert (tmp_path / "target").read_bytes() == data
    assert len(refused) == 1


def is_direct(file: int) -> bool:
    flags = Path(f"/proc/self/fdinfo/{file}").read_text().split("flags:")[1].split()[0]
    return bool(int(flags, 8) & DIRECT)


def test_a_full_disk_is_said_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    calls = []

    def full(file: int, data: Any) -> int:
        calls.append(len(data))
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "target", bytes(DIRECT_FROM), 256 * 1024)
    assert list(tmp_path.iterdir()) == []


def test_what_ends_in_an_error_leaves_the_target_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"before")
    with pytest.raises(TypeError), arriving(tmp_path / "target", DIRECT_FROM, ids) as file:
        file.write("neither is this, after it")  # type: ignore[arg-type]
    assert (tmp_path / "target").read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@pytest.mark.parametrize(
    "size", [0, 1, PAGE, DIRECT_FROM, DIRECT_FROM + 1, DIRECT_FROM + MIB + 4095, 3 * DIRECT_FROM]
)
def test_the_checksum_of_a_file_that_is_there(tmp_path: Path, size: int) -> None:
    data = random.Random(size).randbytes(size)
    (tmp_path / "old").write_bytes(data)
    assert checksum_of_old(tmp_path / "old") == "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.mark.skipif(not DIRECT, reason="no direct input on this system")
def test_a_large_file_is_not_brought_into_memory_to_be_compared(tmp_path: Path) -> None:
    path = tmp_path / "old"
    write(path, random.Random(1).randbytes(2 * DIRECT_FROM), MIB)
    assert pages_in_memory(path) == 0
    checksum_of_old(path)
    assert pages_in_memory(path) == 0
