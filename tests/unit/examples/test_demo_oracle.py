import ast
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkstate_tools.demo import oracle, prepare

HOUR = datetime(2013, 5, 1, 10, tzinfo=UTC)


def row(tailnum="N1", minute=0, *, hour=HOUR, flight=1, carrier="UA", dep_time=600, arr_delay=5):
    return {
        "tailnum": tailnum,
        "carrier": carrier,
        "flight": flight,
        "origin": "JFK",
        "dest": "LAX",
        "time_hour": hour,
        "minute": minute,
        "dep_time": dep_time,
        "arr_delay": arr_delay,
    }


def expected(tmp_path, rows, hours=24):
    path = tmp_path / "input.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=prepare.SCHEMA), path)
    return oracle.expected([path], hours)


def test_it_imports_nothing_of_sparkstate_and_nothing_of_the_demonstration():
    tree = ast.parse(Path(oracle.__file__).read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "relative"]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert imported == {
        "__future__", "collections", "dataclasses", "datetime", "itertools", "operator", "pathlib", "pyarrow",
        "typing",
    }  # fmt: skip


def test_departures_are_numbered_and_summed_in_the_order_of_schedule(tmp_path):
    found = expected(
        tmp_path, [row(minute=30, flight=2, arr_delay=-3), row(minute=10, flight=1, arr_delay=8)]
    )

    assert sorted(found["departures"], key=lambda one: one[6]) == [
        ("N1", HOUR + timedelta(minutes=10), "UA", 1, "JFK", "LAX", 1, 8, 8),
        ("N1", HOUR + timedelta(minutes=30), "UA", 2, "JFK", "LAX", 2, -3, 5),
    ]


def test_ties_follow_carrier_and_flight(tmp_path):
    found = expected(tmp_path, [row(flight=2), row(flight=1), row(flight=9, carrier="AA")])

    in_order = sorted(found["departures"], key=lambda one: one[6])
    assert [(one[2], one[3]) for one in in_order] == [("AA", 9), ("UA", 1), ("UA", 2)]


def test_a_missing_arrival_delay_counts_as_zero(tmp_path):
    found = expected(tmp_path, [row(arr_delay=None)])

    assert next(iter(found["departures"]))[-2:] == (0, 0)


def test_a_cancelled_flight_and_one_without_tail_number_are_skipped(tmp_path):
    found = expected(tmp_path, [row(dep_time=None), row(tailnum=None), row(tailnum=None, dep_time=None)])

    assert found["departures"] == Counter()
    assert Counter(one[0] for one in found["skipped"].elements()) == {"cancelled": 1, "no tail number": 2}


@pytest.mark.parametrize(("gap", "times"), [(timedelta(hours=24), 1), (timedelta(hours=24, minutes=1), 2)])
def test_grounded_means_longer_than_the_hours_and_the_end_counts(tmp_path, gap, times):
    found = expected(
        tmp_path, [row(), row(hour=HOUR + gap - gap % timedelta(hours=1), minute=gap.seconds // 60 % 60)]
    )

    assert found["grounded"].total() == times
    assert ("N1", HOUR + gap, HOUR + gap + timedelta(hours=24), 2, 10) in found["grounded"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Right outputs for the real first week, in files named as the sink names them."""
    folder = tmp_path_factory.mktemp("outputs")
    files = prepare.write_files(prepare.in_disorder(prepare.read_flights(6_000)), folder / "input", 6)
    wanted = oracle.expected(files, 24)
    for output, columns in oracle.COLUMNS.items():
        (folder / output).mkdir()
        records = sorted(wanted[output].elements(), key=str)
        for epoch in range(3):
            part = records[len(records) * epoch // 3 : len(records) * (epoch + 1) // 3]
            table = pa.table(dict(zip(columns, zip(*part, strict=True), strict=True)))
            pq.write_table(table, folder / output / f"part-00001-{epoch:09d}-000-x-12345678.parquet")
    return folder, wanted


def differences(folder, wanted):
    return {
        output: oracle.compare(
            wanted[output], oracle.written(oracle.committed_files(folder / output), columns)
        )
        for output, columns in oracle.COLUMNS.items()
    }


def test_right_outputs_are_equal(outputs):
    found = differences(*outputs)

    assert all(one.equal for one in found.values())
    assert found["departures"].found > 5_000
    assert found["grounded"].found > 1_000


def test_a_dropped_timer_is_a_missing_record(outputs, tmp_path):
    folder, wanted = outputs
    shutil.copytree(folder, tmp_path / "copy")
    path = oracle.committed_files(tmp_path / "copy" / "grounded")[1]
    pq.write_table(pq.read_table(path).slice(1), path)

    found = differences(tmp_path / "copy", wanted)

    assert found["departures"].equal
    assert not found["grounded"].equal
    assert (found["grounded"].missing.total(), found["grounded"].unexpected.total()) == (1, 0)
    assert "1 missing" in found["grounded"].describe()


def test_a_doubled_epoch_is_one_record_too_many_for_each_of_its_own(outputs, tmp_path):
    folder, wanted = outputs
    shutil.copytree(folder, tmp_path / "copy")
    path = oracle.committed_files(tmp_path / "copy" / "departures")[1]
    shutil.copy(path, path.with_name(path.name.replace("part-00001", "part-00002")))

    found = differences(tmp_path / "copy", wanted)["departures"]

    assert not found.equal
    assert found.unexpected.total() == pq.read_table(path).num_rows
    assert found.missing.total() == 0
    assert "too many" in found.describe()


def test_a_changed_record_is_missing_and_unexpected(outputs):
    _, wanted = outputs
    record = next(iter(wanted["departures"]))
    wrong = wanted["departures"] - Counter([record]) + Counter([(*record[:-1], record[-1] + 1)])

    found = oracle.compare(wanted["departures"], wrong)

    assert (found.missing.total(), found.unexpected.total()) == (1, 1)


def test_files_are_chosen_by_the_last_epoch_in_their_names(outputs):
    folder, _ = outputs

    assert len(oracle.committed_files(folder / "departures")) == 3
    assert [path.name[11:20] for path in oracle.committed_files(folder / "departures", 1)] == [
        "000000000",
        "000000001",
    ]
