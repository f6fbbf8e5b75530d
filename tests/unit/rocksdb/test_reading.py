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
    """Takes each of ``seconds`` per key for one call; answers later ones when ``together`` of them wait."""

    def __init__(self, clock: ManualClock, seconds: list[float], together: int) -> None:
        self.clock = clock
        self.seconds = iter(seconds)
        self.calls: list[tuple[int, int]] = []
        self.barrier = threading.Barrier(together, timeout=20)

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        self.calls.append((len(keys), threading.get_ident()))
        seconds = next(self.seconds, None)
        if seconds is None:
            self.barrier.wait()
        else:
            self.clock.sleep(len(keys) * seconds)
        return list(keys)


def test_a_slow_disk_is_asked_by_all_threads_at_once() -> None:
    clock = ManualClock()
    disk = Disk(clock, [80e-6, 80e-6], together=8)
    reads = Reads(clock, at_once=8)
    keys = [key(number) for number in range(400)]
    assert reads.get_many(disk.get, keys) == keys
    assert [many for many, _ in disk.calls] == [16, 16] + 8 * [46]
    assert len({thread for _, thread in disk.calls}) == 9
    reads.close()


def test_a_disk_that_was_slow_is_timed_once_by_the_next_call_and_twice_again_when_it_was_fast() -> None:
    clock = ManualClock()
    disk = Disk(clock, [80e-6] * 2, together=1)
    reads = Reads(clock, at_once=2)
    keys = [key(number) for number in range(64)]
    found = []
    for seconds in ([80e-6] * 2, [80e-6], [5e-6], [80e-6] * 2):
        disk.seconds = iter(seconds)
        disk.calls.clear()
        assert reads.get_many(disk.get, keys) == keys
        found.append([many for many, _ in disk.calls])
    assert found == [[16, 16, 16, 16], [16, 24, 24], [16, 48], [16, 16, 16, 16]]
    reads.close()


def test_a_read_from_memory_that_had_to_wait_once_is_read_by_the_caller_alone() -> None:
    """For the processor or the interpreter lock: threads would wait for them as well."""
    clock = ManualClock()
    disk = Disk(clock, [80e-6, 5e-6], together=1)
    keys = [key(number) for number in range(400)]
    reads = Reads(clock)
    assert reads.get_many(disk.get, keys) == keys
    assert disk.calls == [(many, threading.get_ident()) for many in (16, 16, 368)]
    reads.close()


def test_what_is_in_memory_is_read_by_the_caller_alone() -> None:
    clock = ManualClock()
    disk = Disk(clock, [5e-6], together=1)
    keys = [key(number) for number in range(2500)]
    reads = Reads(clock)
    assert reads.get_many(disk.get, keys) == keys
    assert disk.calls == [(many, threading.get_ident()) for many in (16, 1000, 1000, 484)]
    reads.close()


def test_a_failed_read_is_raised_when_nobody_reads_any_more() -> None:
    clock = ManualClock()
    ended: list[bytes] = []

    def get(keys: list[bytes]) -> list[bytes | None]:
        if keys[0] in (key(0), key(16)):
            clock.sleep(1)
        elif keys[0] == key(32):
            raise OSError("bad sector")
        else:
            time.sleep(0.3)
            ended.append(keys[0])
        return list(keys)

    reads = Reads(clock, at_once=4)
    with pytest.raises(OSError, match="bad sector"):
        reads.get_many(get, [key(number) for number in range(96)])
    assert sorted(ended) == [key(48), key(64), key(80)]
    reads.close()
