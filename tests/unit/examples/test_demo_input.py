from datetime import timedelta

import pandas as pd
import pyarrow.parquet as pq
import pytest

from sparkstate_tools.demo import pacer, prepare


@pytest.fixture(scope="module")
def flights():
    return prepare.read_flights()


@pytest.fixture(scope="module")
def shuffled(flights):
    return prepare.in_disorder(flights)


def test_the_whole_package_is_read(flights):
    assert len(flights) == 336_776
    assert list(flights.columns) == prepare.SCHEMA.names


def test_disorder_stays_within_the_stated_bound_and_is_real(shuffled):
    largest = prepare.largest_disorder(shuffled)

    assert timedelta(minutes=15) < largest <= prepare.DISORDER


def test_disorder_is_measured_on_the_whole_stream_by_hand(shuffled):
    newest = None
    worst = timedelta()
    for time in prepare.scheduled(shuffled.head(20_000)):
        newest = time if newest is None else max(newest, time)
        worst = max(worst, newest - time)

    assert worst == prepare.largest_disorder(shuffled.head(20_000))
    assert worst <= prepare.DISORDER


def test_shuffling_loses_and_adds_no_row(flights, shuffled):
    assert len(shuffled) == len(flights)
    assert shuffled.index.is_unique
    assert not shuffled.index.equals(flights.index)
    pd.testing.assert_frame_equal(shuffled.sort_index(), flights)


def test_the_same_seed_gives_the_same_order_and_another_seed_another(flights):
    few = flights.head(5_000)

    assert prepare.in_disorder(few, seed=1).index.equals(prepare.in_disorder(few, seed=1).index)
    assert not prepare.in_disorder(few, seed=1).index.equals(prepare.in_disorder(few, seed=2).index)


def test_the_files_hold_the_rows_in_their_order(shuffled, tmp_path):
    few = shuffled.head(1_000)

    files = prepare.write_files(few, tmp_path, 7)

    rows = [row for path in files for row in pq.read_table(path).to_pylist()]
    assert [row["tailnum"] for row in rows] == [None if pd.isna(x) else x for x in few["tailnum"]]
    assert [row["arr_delay"] for row in rows] == [None if pd.isna(x) else x for x in few["arr_delay"]]
    assert [row["time_hour"] for row in rows] == list(few["time_hour"])


def test_modification_times_put_the_files_into_order_and_nothing_half_written_stays(shuffled, tmp_path):
    files = prepare.write_files(shuffled.head(1_000), tmp_path, 7)

    assert sorted(tmp_path.iterdir()) == files
    assert sorted(files, key=lambda path: path.stat().st_mtime) == files
    assert len({path.stat().st_mtime for path in files}) == 7


def test_file_ends_tell_the_newest_event_time_and_the_rows_so_far(shuffled, tmp_path):
    few = shuffled.head(1_000)
    files = prepare.write_files(few, tmp_path, 7)

    newest, rows = None, 0
    for path, end in zip(files, prepare.file_ends(few, 7), strict=True):
        table = pq.read_table(path).to_pylist()
        times = [row["time_hour"] + timedelta(minutes=row["minute"]) for row in table]
        newest = max([*times, *([newest] if newest else [])])
        rows += len(table)
        assert end == (int(newest.timestamp() * 1000), rows)


def test_the_pacer_releases_every_file_whole_and_keeps_its_time(shuffled, tmp_path):
    files = prepare.write_files(shuffled.head(500), tmp_path / "prepared", 5)
    released = tmp_path / "input"

    paced = pacer.Pacer(files, released, interval_s=0.01)
    paced.start()
    paced._thread.join(10)

    assert paced.done
    assert [path.name for path in sorted(released.iterdir())] == [path.name for path in files]
    for path in files:
        copy = released / path.name
        assert copy.read_bytes() == path.read_bytes()
        assert copy.stat().st_mtime == path.stat().st_mtime


def test_a_stopped_pacer_releases_no_more(shuffled, tmp_path):
    files = prepare.write_files(shuffled.head(500), tmp_path / "prepared", 5)

    paced = pacer.Pacer(files, tmp_path / "input", interval_s=60)
    paced.start()
    paced.stop()

    assert paced.released <= 1
    assert not paced.done
