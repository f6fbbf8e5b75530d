"""The flight job on real Spark and RocksDB against the independent calculation, and with planted faults."""

import shutil

import pytest
from support.examples import example

from sparkstate_tools.demo import job_process, oracle, prepare

pytestmark = pytest.mark.spark

EXAMPLE = example.EXAMPLES / "01-flight-rotations"
HOURS = 24
DROPPED_TIMER = """

class Forgetful(Rotations):
    forgotten = ("N14228", 1357035300000)

    def on_timer(self, timestamp, ctx):
        if (ctx.get_current_key(), timestamp) != self.forgotten:
            yield from super().on_timer(timestamp, ctx)


Rotations = Forgetful
"""
"""One timer that never rings: the release of one aircraft's first departure (2013-01-01 10:15 UTC)."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The first eight days, in ten files."""
    flights = prepare.in_disorder(prepare.read_flights(7_000))
    return prepare.write_files(flights, tmp_path_factory.mktemp("prepared"), 10)


@pytest.fixture(scope="module")
def expected(prepared):
    return oracle.expected(prepared, HOURS)


def run(folder, prepared, *, fault="", extra_files=()):
    """Run the job to the end of its input; returns its three outputs."""
    source = folder / "input"
    source.mkdir()
    for path in (*prepared, *extra_files):
        shutil.copy2(path, source)
    shutil.copy(EXAMPLE / "job.yaml", folder)
    (folder / "job.py").write_text((EXAMPLE / "job.py").read_text() + fault)
    changes = {
        "params": {"input": str(source), "output": str(folder / "output"), "hours": str(HOURS)},
        "checkpointing": {"storage": (folder / "state").as_uri(), "interval": "2s"},
        "trigger": {"availableNow": True},
    }
    manifest = job_process.write_manifest(folder / "job.yaml", folder / "run.yaml", "flights-test", changes)
    job = job_process.JobProcess(manifest, folder / "work", {})
    job.start()
    try:
        assert job.wait(280) == 0, job.last_words()
    finally:
        job.stop()
    return {
        output: oracle.written(oracle.committed_files(folder / "output" / output), columns)
        for output, columns in oracle.COLUMNS.items()
    }


def compare(expected, found):
    return {output: oracle.compare(expected[output], found[output]) for output in expected}


def test_every_output_equals_the_batch_calculation_record_for_record(prepared, expected, tmp_path):
    differences = compare(expected, run(tmp_path, prepared))

    assert all(one.equal for one in differences.values()), [one.describe() for one in differences.values()]
    assert differences["departures"].found > 6_500
    assert differences["grounded"].found > 1_000
    assert differences["skipped"].found > 20


def test_a_timer_that_is_dropped_in_the_running_job_makes_the_comparison_fail(prepared, expected, tmp_path):
    differences = compare(expected, run(tmp_path, prepared, fault=DROPPED_TIMER))

    assert not differences["departures"].equal
    assert differences["departures"].missing.total() > 0
    # What waits behind the timer that never rang is one departure of one aircraft; all others are right.
    wrong = differences["departures"].missing + differences["departures"].unexpected
    assert {record[0] for record in wrong} == {"N14228"}
    assert differences["skipped"].equal


def test_an_epoch_that_is_done_twice_makes_the_comparison_fail(prepared, expected, tmp_path):
    twin = tmp_path / "flights-0004-again.parquet"
    shutil.copy2(prepared[4], twin)

    differences = compare(expected, run(tmp_path, prepared, extra_files=[twin]))

    assert not differences["departures"].equal
    assert differences["departures"].unexpected.total() > 0
    assert differences["departures"].found > differences["departures"].expected
    assert not differences["skipped"].equal
