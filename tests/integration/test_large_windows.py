"""Open windows whose contents are far larger than managed memory, in a whole job: slots keep to their memory while
contents grow, come back from a checkpoint and fire, and each window is put out whole and once."""

from __future__ import annotations

import threading
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from sparkstate.phases import ProcessPhase
from sparkstate.settings import MIB
from sparkstate_tools.drivers import driving, large_rows, totals

pytestmark = [pytest.mark.spark, pytest.mark.extra]

FILES, KEYS = 20, 4_000
ROWS = 2 * KEYS
MANAGED = 4 * MIB
SLOTS = 2
SAMPLE_S = 0.1
GROWTH = 64 * MIB
"""What a slot may take above its first epoch: it was 47 MiB at the last epoch, in which all windows fire."""


def make_input(folder: Path) -> list[totals.Row]:
    """Each file has two rows of each key, at most 20 ms apart."""
    folder.mkdir()
    everything: list[totals.Row] = []
    for number in range(FILES):
        start = number * large_rows.FILE_MS
        made = [(f"key-{n % KEYS}", number * ROWS + n, 1, start + n % 20) for n in range(ROWS)]
        totals.write(folder / f"{number:05d}.parquet", made, number)
        everything += made
    return everything


def expected(rows: list[totals.Row]) -> dict[str, dict[Any, tuple[int, int]]]:
    """Number of rows and digest of each window of each kind, by key and start."""
    contents: dict[str, dict[Any, list[bytes]]] = {
        name: defaultdict(list) for name in ("rows", "sessions", "agg")
    }
    for key, row_id, _, at in rows:
        noise = large_rows.noise(row_id)
        of_file = at - at % large_rows.FILE_MS
        contents["rows"][key, at - at % large_rows.ROWS_WINDOW_MS].append(noise)
        contents["sessions"][key, of_file].append(noise)
        contents["agg"][key, of_file].append(noise)
    digests = {"rows": digest_of_all, "sessions": digest_of_greatest, "agg": digest_of_greatest}
    return {
        name: {window: (len(held), digests[name](held)) for window, held in windows.items()}
        for name, windows in contents.items()
    }


def digest_of_all(held: list[bytes]) -> int:
    digest = 0
    for noise in held:
        digest ^= zlib.crc32(noise)
    return digest


def digest_of_greatest(held: list[bytes]) -> int:
    return zlib.crc32(max(held))


def found(output: Path, name: str) -> dict[Any, tuple[int, int]]:
    """The same of what the job has put out."""
    rows = totals.read(output / name)
    if name == "agg":
        windows = {
            (row["k"], round(row["window_start"].timestamp() * 1000)): (
                row["rows"],
                zlib.crc32(row["greatest"]),
            )
            for row in rows
        }
    else:
        by_file = name == "sessions"
        windows = {
            (row["k"], row["start"] - (row["start"] % large_rows.FILE_MS if by_file else 0)): (
                row["rows"],
                row["digest"],
            )
            for row in rows
        }
    assert len(windows) == len(rows), f"a window of {name} came twice"
    return windows


class Memory:
    """Reads what a job's slots have in memory of their own, while it runs; mapped files are the kernel's."""

    def __init__(self, driver: driving.Driver) -> None:
        self._driver = driver
        self.bytes: dict[int, list[int]] = defaultdict(list)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            # A slot counts from its first commit on: it has imported everything then.
            committed = {each["pid"] for each in commit_phases(self._driver)}
            for pid in committed:
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                for line in status.splitlines():
                    if line.startswith("RssAnon:"):
                        self.bytes[pid].append(int(line.split()[1]) * 1024)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def commit_phases(driver: driving.Driver) -> list[dict[str, Any]]:
    """An entry for each slot and epoch that it has committed."""
    return [
        each
        for each in driver.phases()
        if each["process"].startswith("slot") and each["phase"] == ProcessPhase.COMMIT
    ]


@pytest.mark.fault(
    broken="a slot is killed (SIGKILL)",
    when="while windows are open that hold more than ten times the managed memory",
    expected="contents come back from the checkpoint; each window is put out whole and once, in bounded memory",
)
@pytest.mark.fault_on("rocksdb")
def test_open_windows_of_ten_times_the_managed_memory(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    rows = make_input(tmp_path / "in")
    document = driving.manifest(
        tmp_path,
        "large_windows.py",
        slots=SLOTS,
        stateBackend={"type": "rocksdb"},
        managedMemoryPerSlot=f"{MANAGED}",
        checkpointing={"interval": "3s", "storage": str(tmp_path / "checkpoints")},
    )
    with driving.Driver(tmp_path, document) as driver:
        memory = Memory(driver)
        driving.wait_for(
            lambda: len(commit_phases(driver)) > SLOTS * FILES * 2 // 3,
            driving.PATIENCE_S,
            "most of the epochs",
            driver.process,
        )
        driver.kill_in("slot-0", ProcessPhase.COMMIT)
        driver.finish()
        memory.end()
    assert len(rows) * large_rows.NOISE_BYTES >= 10 * SLOTS * MANAGED
    # Half of the contents of all three operators is 160 MiB in each slot, and more as objects of Python.
    assert all(max(seen) - seen[0] <= GROWTH for seen in memory.bytes.values()), memory.bytes
    for name, windows in expected(rows).items():
        assert found(tmp_path / "out", name) == windows, name
