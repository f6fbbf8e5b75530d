"""Many keys read at once: the values and their order, when reads go side by side, and what a failure leaves behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rocksdict
from support.storage.stores import ManualClock

from sparkstate.backends.rocksdb.reading import Reads
from sparkstate.clock import SystemClock


def key(number: int) -> bytes:
    return b"%06d" % number


@pytest.fixture
def database(tmp_path: Path) -> Iterator[rocksdict.Rdict]:
    database = rocksdict.Rdict(str(tmp_path / "db"), rocksdict.Options(raw_mode=True))
    for number in range(0, 5000, 2):
        database[key(number)] = b"value of %d" % number
    yield database
    database.close()


@pytest.mark.parametrize("slow_s", [0.0, 1e9], ids=["side-by-side", "one-after-another"])
@pytest.mark.parametrize("many", [0, 1, 32, 33, 350, 5000])
def test_values_come_in_the_order_of_the_keys_whichever_way_they_are_read(
    database: rocksdict.Rdict, many: int, slow_s: float
) -> None:
    reads = Reads(SystemClock(), slow_s=slow_s)
    keys = [key(number * 7919 % 5000) for number in range(many)]
    expected = [None if int(each) % 2 else b"value of %d" % int(each) for each in keys]
    assert reads.get_many(database.get, keys) == expected
    reads.close()


class Disk:
    """Takes ``seconds`` per key for the first call; answers later ones when ``together`` of them wait."""

    def __init__(self, clock: ManualClock, seconds: float, together: int) -> None:
        self.clock = clock
        self.seconds = seconds
        self.calls: list[tuple[int, int]] = []
        self.barrier = threading.Barrier(together, timeout=20)

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        first = not self.calls
        self.calls.append((len(keys), threading.get_ident()))
        if first:
            self.clock.sleep(len(keys) * self.seconds)
        else:
            self.barrier.wait()
        return list(keys)


def test_a_slow_disk_is_asked_by_all_threads_at_once() -> None:
    clock = ManualClock()
    disk = Disk(clock, 80e-6, together=8)
    reads = Reads(clock, at_once=8)
    keys = [key(number) for number in range(400)]
    assert reads.get_many(disk.get, keys) == keys
    assert [many for many, _ in disk.calls] == [16] + 8 * [48]
    assert len({thread for _, thread in disk.calls}) == 9
    reads.close()


def test_what_is_in_memory_is_read_by_the_caller_alone() -> None:
    clock = ManualClock()
    disk = Disk(clock, 5e-6, together=1)
    keys = [key(number) for number in range(2500)]
    reads = Reads(clock)
    assert reads.get_many(disk.get, keys) == keys
    assert disk.calls == [(many, threading.get_ident()) for many in (16, 1000, 1000, 484)]
    reads.close()


def test_a_failed_read_is_raised_when_nobody_reads_any_more() -> None:
    clock = ManualClock()
    ended: list[bytes] = []

    def get(keys: list[bytes]) -> list[bytes | None]:
        if keys[0] == key(0):
            clock.sleep(1)
        elif keys[0] == key(16):
            raise OSError("bad sector")
        else:
            time.sleep(0.3)
            ended.append(keys[0])
        return list(keys)

    reads = Reads(clock, at_once=4)
    with pytest.raises(OSError, match="bad sector"):
        reads.get_many(get, [key(number) for number in range(80)])
    assert sorted(ended) == [key(32), key(48), key(64)]
    reads.close()
