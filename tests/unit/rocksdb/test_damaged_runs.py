"""Sorted runs on a disk that is full or changes what was written: it is told, and nothing of it becomes state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.backends.spilled import Spilled, columns, listed, row_order

from sparkstate import errors
from sparkstate.backends.rocksdb import sorted_run
from sparkstate.backends.rocksdb.sorted_runs import SortedRuns


def flip_a_bit(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def test_a_full_disk_is_told_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    runs = SortedRuns(tmp_path / "run", np.dtype(np.float64))
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(errors.StorageError, match="its disk or quota is full"):
        runs.add(columns({1: 1.0}))
    assert os.listdir(tmp_path) == []
    assert runs.is_empty


def test_a_disk_too_full_for_a_folder_is_told(tmp_path: Path) -> None:
    side = Spilled(tmp_path)
    (tmp_path / "a file").write_text("")
    with pytest.raises(errors.StorageError, match=r"creating the state in .* failed"):
        side.factory.create_spill(side.stores, side.shard_of, tmp_path / "a file" / "overlay")
    side.close()


def test_a_file_that_was_cut_is_told(tmp_path: Path) -> None:
    runs = SortedRuns(tmp_path / "run", np.dtype(np.float64))
    runs.add(columns(dict.fromkeys(range(10), 1.0)))
    (file,) = tmp_path.iterdir()
    os.truncate(file, 40)
    wanted = columns({9: 0.0})
    with pytest.raises(errors.StorageError, match="the file ends"):
        runs.get(wanted.key_groups, wanted.keys)


@pytest.mark.parametrize("checked", [1, 2, 3, 64])
def test_a_bit_that_flips_on_the_disk_is_told_and_becomes_no_state(
    checked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_run, "CHECKED", checked)
    runs = SortedRuns(tmp_path / "run", np.dtype(np.float64))
    runs.add(columns(dict.fromkeys(range(9), 1.0)))
    (file,) = tmp_path.iterdir()
    wanted = columns(dict.fromkeys(sorted(range(9), key=row_order), 0.0))
    for at in range(file.stat().st_size):
        flip_a_bit(file, at)
        with pytest.raises(errors.CorruptData, match="its files are damaged"):
            listed(runs.parts())
        with pytest.raises(errors.CorruptData, match="Restore from the last checkpoint"):
            runs.get(wanted.key_groups, wanted.keys)
        flip_a_bit(file, at)
    assert len(listed(runs.parts())) == 9
    runs.close()


def test_stores_that_a_commit_left_half_way_take_no_snapshot(tmp_path: Path) -> None:
    side = Spilled(tmp_path)
    side.commit_first(dict.fromkeys(range(20), 0.0))
    side.add("columns", dict.fromkeys(range(20), 1.0))
    (file,) = side.folder.iterdir()
    flip_a_bit(file, file.stat().st_size - 1)
    with pytest.raises(errors.CorruptData, match="its files are damaged"):
        side.spill.commit()
    for shard, store in side.stores.items():
        directory = tmp_path / f"snapshot-{shard}"
        directory.mkdir()
        with pytest.raises(errors.StorageError, match="restore from the last checkpoint"):
            store.prepare_snapshot(1, directory, False)
    side.close()
