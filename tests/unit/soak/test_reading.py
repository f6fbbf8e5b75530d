"""The soak's reader finds what a wrong job would publish."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkstate_tools.soak import reading, supply

INPUT = supply.Input(seed=3, keys=5, rows=20)


def right_totals(files: int) -> tuple[np.ndarray, np.ndarray]:
    """(ids, totals) of the first files, row by row."""
    sums = np.zeros(INPUT.keys, dtype=np.int64)
    ids, totals = [], []
    for number in range(files):
        rows = INPUT.file(number)
        for key, id_, value in zip(rows.keys, rows.ids, rows.values, strict=True):
            sums[key] += value
            ids.append(id_)
            totals.append(sums[key])
    return np.array(ids), np.array(totals)


class Published:
    """A folder of published files and its reader."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "out"
        self.folder.mkdir()
        self.memory = folder / "reader.json"
        self.refuse = False
        self.reader = self.begin()

    def begin(self) -> reading.Reader:
        return reading.Reader(INPUT, self.folder, self.memory, self.delete)

    def delete(self, names: Sequence[str]) -> None:
        if self.refuse:
            raise OSError("the consumer dies here")
        for name in names:
            (self.folder / name).unlink()

    def publish(self, name: str, ids: np.ndarray, totals: np.ndarray) -> None:
        pq.write_table(pa.table({"id": ids, "total": totals}), self.folder / f"part-{name}.parquet")


@pytest.fixture
def published(tmp_path: Path) -> Published:
    return Published(tmp_path)


def test_right_rows_in_any_split_are_taken_and_their_files_deleted(published: Published) -> None:
    ids, totals = right_totals(3)
    published.publish("a", ids[10:45], totals[10:45])
    assert published.reader.step() == 1
    assert published.reader.complete == 0
    published.publish("b", ids[:10], totals[:10])
    published.publish("c", ids[45:], totals[45:])
    published.reader.step()
    assert published.reader.complete == 3
    assert list(published.folder.iterdir()) == []


@pytest.mark.parametrize(
    "again", [slice(0, 20), slice(25, 26)], ids=["of-a-complete-file", "of-an-open-file"]
)
def test_a_row_that_comes_twice_is_found(published: Published, again: slice) -> None:
    ids, totals = right_totals(2)
    published.publish("a", ids[:30], totals[:30])
    published.reader.step()
    published.publish("b", ids[again], totals[again])
    with pytest.raises(reading.WrongOutput, match="published before"):
        published.reader.step()


def test_a_total_from_lost_state_is_found(published: Published) -> None:
    ids, totals = right_totals(2)
    key = INPUT.file(1).keys[0]
    wrong = totals.copy()
    wrong[20:][INPUT.file(1).keys == key] -= 1
    published.publish("a", ids, wrong)
    with pytest.raises(reading.WrongOutput, match=f"after input file 1 key {key} "):
        published.reader.step()


def test_a_reader_that_died_before_it_deleted_goes_on_where_it_was(published: Published) -> None:
    ids, totals = right_totals(2)
    published.publish("a", ids[:30], totals[:30])
    published.refuse = True
    with pytest.raises(OSError, match="dies here"):
        published.reader.step()
    published.refuse = False
    published.publish("b", ids[30:], totals[30:])
    reader = published.begin()
    assert (reader.step(), reader.complete) == (1, 2)
    assert list(published.folder.iterdir()) == []


def test_the_supply_stays_ahead_and_removes_what_nobody_needs(tmp_path: Path) -> None:
    made = supply.Supply(INPUT, tmp_path / "in", ahead=4, kept=2)
    made.follow(complete=0, limit=100)
    assert sorted(path.stem for path in (tmp_path / "in").glob("*")) == [
        "00000000",
        "00000001",
        "00000002",
        "00000003",
    ]
    again = supply.Supply(INPUT, tmp_path / "in", ahead=4, kept=2)
    again.follow(complete=5, limit=8)
    assert sorted(int(path.stem) for path in (tmp_path / "in").glob("*")) == [3, 4, 5, 6, 7]
    table = pq.read_table(tmp_path / "in" / "00000007.parquet")
    assert table["id"].to_pylist() == list(range(140, 160))
