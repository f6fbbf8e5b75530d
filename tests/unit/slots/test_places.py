"""Places in an executor: no more slots than its memory was reckoned for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparkstate.slots import places


def test_as_many_slots_as_there_are_places_are_taken_in_and_no_more(tmp_path: Path) -> None:
    assert [places.take(tmp_path, 1, 2, slot) for slot in (4, 7, 5)] == [True, True, False]


def test_a_slot_whose_task_is_tried_again_keeps_its_place(tmp_path: Path) -> None:
    assert places.take(tmp_path, 1, 1, 3)
    assert places.take(tmp_path, 1, 1, 3)
    assert not places.take(tmp_path, 1, 1, 4)


def test_the_next_incarnation_has_all_places_again(tmp_path: Path) -> None:
    assert places.take(tmp_path, 1, 1, 0)
    assert places.take(tmp_path, 2, 1, 1)


def test_tasks_that_come_at_once_never_share_a_place(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        taken = list(pool.map(lambda slot: places.take(tmp_path, 1, 3, slot), range(64)))
    assert sum(taken) == 3


def test_slots_of_earlier_incarnations_are_waited_for(tmp_path: Path) -> None:
    old = tmp_path / "1-0"
    old.mkdir()
    timer = threading.Timer(0.3, old.rmdir)
    timer.start()
    started = time.perf_counter()
    places.clear_older(tmp_path, 2)
    assert 0.2 < time.perf_counter() - started < 5


def test_a_slot_that_does_not_end_is_killed_and_its_folder_removed(tmp_path: Path) -> None:
    # The name of the module on its command line is how a slot is told from a stranger with its number.
    slot = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "sparkstate.slots"])
    (tmp_path / "1-0").mkdir()
    (tmp_path / "1-0" / "pid").write_text(str(slot.pid))
    places.clear_older(tmp_path, 2, patience_s=0.1)
    assert slot.wait(10) == -9
    assert [path.name for path in tmp_path.iterdir()] == ["1-0.left"]


@pytest.mark.parametrize(
    "pid", ["", "no number", str(os.getpid())], ids=["empty", "damaged", "another process"]
)
def test_no_other_process_is_killed(tmp_path: Path, pid: str) -> None:
    (tmp_path / "1-0").mkdir()
    (tmp_path / "1-0" / "pid").write_text(pid)
    places.clear_older(tmp_path, 2, patience_s=0.1)
    assert not (tmp_path / "1-0").exists()


def test_its_own_incarnation_and_other_files_are_left_alone(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("2-0", "3-1", "places-1", "slot-0.log", "notes-2")]
    for folder in kept:
        folder.mkdir()
    places.clear_older(tmp_path, 2, patience_s=0.1)
    assert all(folder.exists() for folder in kept)
