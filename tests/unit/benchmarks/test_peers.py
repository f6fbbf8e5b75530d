"""Other engines beside ours: the difference of two lengths, the comparison of answers, the table, the accounting."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.examples import example

PEERS = example.ROOT / "benchmarks" / "peers"
comparison = example.load(PEERS / "comparison.py")
contenders = example.load(PEERS / "contenders.py")
failure = example.load(PEERS / "failure.py")
kept = example.load(PEERS / "kept.py")
lengths = example.load(PEERS / "lengths.py")
loads = example.load(PEERS / "loads.py")
table = example.load(PEERS / "table.py")

KEYS = np.array([1, 2, 1, 1, 2])
VALUES = np.array([5, 7, 1, 2, 3])
RIGHT = [(1, 5), (2, 7), (1, 6), (1, 8), (2, 10)]


def test_the_start_of_a_run_does_not_count() -> None:
    rate = lengths.rate(lengths.Run(1000, 30.0, 20.0), lengths.Run(2000, 32.0, 23.0))
    assert rate == lengths.Rate(rows_per_s=500.0, cpu_us=3000.0)


@pytest.mark.parametrize(("wall_s", "cpu_s"), [(30.0, 23.0), (32.0, 19.0)], ids=["wall", "cpu"])
def test_a_longer_run_that_took_no_longer_gives_no_rate(wall_s: float, cpu_s: float) -> None:
    assert lengths.rate(lengths.Run(1000, 30.0, 20.0), lengths.Run(2000, wall_s, cpu_s)) is None


def test_two_runs_of_one_length_are_refused() -> None:
    with pytest.raises(ValueError, match="it needs more than the 1000 of the shorter"):
        lengths.rate(lengths.Run(1000, 1.0, 1.0), lengths.Run(1000, 2.0, 2.0))


def test_rounds_without_a_rate_are_left_out_of_the_median() -> None:
    rounds = [lengths.Rate(100, 9), None, lengths.Rate(300, 1), lengths.Rate(200, 2)]
    assert lengths.median(rounds) == lengths.Rate(200, 2)
    assert lengths.median([None]) is None


@pytest.mark.parametrize("order", [RIGHT, RIGHT[::-1]], ids=["in order", "backwards"])
def test_right_totals_are_right_in_any_order(order: list[tuple[int, int]]) -> None:
    assert comparison.of_sums(np.array(order), KEYS, VALUES, each_row=True) is None


def test_another_order_of_the_rows_of_a_key_is_right_as_well() -> None:
    other = [(1, 2), (1, 3), (1, 8), (2, 3), (2, 10)]
    assert comparison.of_sums(np.array(other), KEYS, VALUES, each_row=True) is None


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        pytest.param(RIGHT[:-1], "4 answers to 5 rows", id="an answer is missing"),
        pytest.param([*RIGHT, RIGHT[0]], "6 answers to 5 rows", id="an answer comes twice"),
        pytest.param([RIGHT[0], *RIGHT[:1], *RIGHT[2:]], "same total twice", id="a row was not added"),
        pytest.param([*RIGHT[:3], (1, 9), RIGHT[4]], "key 1 ends with 9, 8 expected", id="a total is wrong"),
        pytest.param([*RIGHT[:4], (3, 10)], "for other keys", id="another key"),
        pytest.param([(1, 8), (1, 6), (2, 1), (2, 7), (2, 10)], "more answers than rows", id="too many"),
    ],
)
def test_each_kind_of_wrong_total_is_found(answers: list[tuple[int, int]], says: str) -> None:
    assert says in comparison.of_sums(np.array(answers), KEYS, VALUES, each_row=True)


def test_one_answer_for_a_batch_suffices_where_keys_are_answered() -> None:
    assert comparison.of_sums(np.array([(1, 8), (2, 10)]), KEYS, VALUES, each_row=False) is None
    assert "ends with 6" in comparison.of_sums(np.array([(1, 6), (2, 10)]), KEYS, VALUES, each_row=False)


def test_sessions_are_cut_at_the_gap_whatever_the_order_of_the_rows() -> None:
    found = comparison.sessions(
        np.array([1, 1, 1, 2]), np.array([70, 10, 15, 10]), np.array([4, 1, 2, 9]), 50
    )
    assert found == [((1, 10, 2, 3), 15), ((1, 70, 1, 4), 70), ((2, 10, 1, 9), 10)]


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        pytest.param([(1, 10, 2, 3), (2, 10, 1, 9)], None, id="the last may stay open"),
        pytest.param([(1, 10, 2, 3)], "1 sessions are missing, such as (2, 10, 1, 9)", id="missing"),
        pytest.param([(1, 10, 2, 3), (2, 10, 1, 8)], "(2, 10, 1, 8)", id="wrong"),
        pytest.param([(1, 10, 2, 3), (1, 10, 2, 3)], "twice", id="twice"),
    ],
)
def test_sessions_that_had_to_close_are_there_once(answers: list[tuple[int, ...]], says: str | None) -> None:
    expected = [((1, 10, 2, 3), 15), ((1, 70, 1, 4), 70), ((2, 10, 1, 9), 10)]
    found = comparison.of_sessions(answers, expected, closed_ms=60)
    assert found is None if says is None else says in found


def test_every_load_has_the_rows_that_it_promises() -> None:
    rows = 200_000
    assert len(np.unique(loads.keys(loads.LOADS["sum"], rows))) == 50_000
    assert len(np.unique(loads.keys(loads.LOADS["distinct"], rows))) == rows
    large = loads.LOADS["large"]
    assert len(np.unique(loads.keys(large, large.keys))) == large.keys
    session = loads.LOADS["session"]
    found = comparison.sessions(
        loads.keys(session, rows), loads.times(rows), loads.values(rows), loads.GAP_MS
    )
    lengths_of_sessions = [count for (_, _, count, _), _ in found]
    assert 10 < np.median(lengths_of_sessions) < 100
    assert loads.values(rows).min() > 0


def test_the_comparison_sees_engines_read_the_state_that_they_wrote() -> None:
    rows = 20_000
    for load in (loads.compared(load, rows) for load in loads.LOADS.values() if not load.nexmark):
        keys = loads.keys(load, rows)
        if load.name == "session":
            keys = np.array(
                [k for (k, *_), _ in comparison.sessions(keys, loads.times(rows), keys, loads.GAP_MS)]
            )
        _, counts = np.unique(keys, return_counts=True)
        assert load.keys == 0 or np.median(counts) > 1, load.name


BY_KEY = {"sum", "distinct"}
EVENTS = {"session", *loads.QUERIES}
PROMISED = {
    "sparkstate-hashmap": BY_KEY | EVENTS,
    "sparkstate-rocksdb": BY_KEY | EVENTS | {"large"},
    "sparkstate-hashmap-batches": BY_KEY,
    "sparkstate-rocksdb-batches": BY_KEY | {"large"},
    "sparkstate-hashmap-added": {"sum"},
    "sparkstate-rocksdb-added": {"sum"},
    "flink-sql-hashmap": BY_KEY | EVENTS,
    "flink-sql-rocksdb": BY_KEY | EVENTS,
    "flink-sql-hashmap-mini-batch": {"sum"},
    "flink-sql-rocksdb-mini-batch": {"sum"},
    "flink-datastream-hashmap": BY_KEY | {"session"},
    "flink-datastream-rocksdb": BY_KEY | {"session", "large"},
    "pyflink-process-hashmap": BY_KEY,
    "pyflink-process-rocksdb": BY_KEY,
    "pyflink-thread-hashmap": BY_KEY,
    "pyflink-thread-rocksdb": BY_KEY | {"large"},
    "bytewax": BY_KEY,
    "quix-streams": BY_KEY,
    "spark-windows": EVENTS,
    "spark-transform-with-state": BY_KEY,
    "spark-transform-with-state-pandas": BY_KEY,
}
"""The engines and loads that docs/benchmarks.md names."""


def test_no_engine_and_no_load_is_dropped_from_the_comparison_unseen() -> None:
    assert {name: set(each.rows) for name, each in contenders.CONTENDERS.items()} == PROMISED


def test_every_other_engine_is_pinned_to_a_version() -> None:
    files = sorted((PEERS / "requirements").glob("*.txt"))
    assert [file.stem for file in files] == ["bytewax", "flink", "quix"]
    for file in files:
        names = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        assert all("==" in name for name in names), file


def test_every_contender_runs_whole_epochs_of_loads_that_there_are() -> None:
    for name, contender in contenders.CONTENDERS.items():
        assert contender.name == name
        assert set(contender.rows) <= set(loads.LOADS)
        assert all(rows % (contender.epoch_rows or 2) == 0 for rows in contender.rows.values())


def a_result(name: str, rows_per_s: int, cpu_us: float, **others: object) -> dict[str, object]:
    known = {"name": name, "load": "sum", "each_row": True, "user_code": "Python", "lengths": [1, 2]}
    return known | {"rows_per_s": rows_per_s, "cpu_us_per_row": cpu_us} | others


def test_the_table_says_first_where_we_lose_and_why_somebody_is_missing() -> None:
    absent = {"name": "pyflink", "load": "sum", "each_row": True, "reason": "no wheel for this machine"}
    results = [
        a_result("sparkstate-hashmap", 1000, 2.0),
        a_result("flink-java", 3000, 0.5),
        a_result("flink-python", 500, 8.0),
        absent,
    ]
    lines = table.text(results).splitlines()
    assert lines[:3] == [
        "Where sparkstate loses",
        "  sum, each row answered: flink-java has 3.00 times the rate of sparkstate-hashmap",
        "  sum, each row answered: flink-java takes 0.25 of the CPU time of sparkstate-hashmap",
    ]
    assert any(line.startswith("pyflink ") and "not measured: no wheel" in line for line in lines)
    assert lines[-1] == "PASS  3 contenders measured, all with right answers; 1 not measured"


def test_answers_for_keys_are_not_held_against_answers_for_rows() -> None:
    results = [
        a_result("sparkstate-hashmap", 1000, 2.0),
        a_result("flink", 3000, 0.5, each_row=False),
        a_result("sparkstate-hashmap-added", 4000, 0.4, each_row=False),
    ]
    assert table.losses(results) == ["Where sparkstate loses: nowhere among what was measured"]


def test_a_loss_on_rocksdb_is_not_hidden_by_our_row_in_memory() -> None:
    results = [
        a_result("sparkstate-hashmap", 1500, 2.0),
        a_result("sparkstate-rocksdb", 800, 4.0),
        a_result("flink-sql-rocksdb", 1000, 3.0),
        a_result("spark-windows", 900, 5.0),
        a_result("bytewax", 1000, 3.0),
    ]
    assert table.losses(results)[1:] == [
        "  sum, each row answered: flink-sql-rocksdb has 1.25 times the rate of sparkstate-rocksdb",
        "  sum, each row answered: flink-sql-rocksdb takes 0.75 of the CPU time of sparkstate-rocksdb",
        "  sum, each row answered: spark-windows has 1.12 times the rate of sparkstate-rocksdb",
    ]


def test_an_engine_is_compared_with_our_other_backend_where_one_is_missing() -> None:
    results = [a_result("sparkstate-rocksdb", 800, 4.0), a_result("flink-datastream-hashmap", 1600, 8.0)]
    assert table.losses(results)[1:] == [
        "  sum, each row answered: flink-datastream-hashmap has 2.00 times the rate of sparkstate-rocksdb",
    ]


def test_a_run_without_a_row_of_ours_claims_no_victory() -> None:
    assert table.losses([a_result("flink", 3000, 0.5)])[1:] == [
        "  sum, each row answered: unknown, no row of sparkstate was measured"
    ]


def test_a_query_of_nexmark_is_not_said_to_answer_each_row():
    results = [
        {**each, "load": "q5", "whole": True}
        for each in (a_result("flink", 3000, 0.5), a_result("sparkstate-hashmap", 1000, 1.0))
    ]
    text = table.text(results)
    assert "  q5: flink has 3.00 times the rate of sparkstate-hashmap" in text
    assert "each row" not in text


def test_wrong_answers_fail_the_run() -> None:
    wrong = {"name": "x", "load": "sum", "each_row": True, "reason": "wrong answers: …", "wrong": True}
    assert table.verdict([a_result("sparkstate-hashmap", 1, 1.0), wrong]).startswith("FAIL")


@pytest.mark.parametrize(
    ("log", "says"),
    [
        pytest.param(
            "Exception\n\tat x\nCaused by: A: far\n\tat y\nCaused by: B: near\n\t... 19 more\n\n",
            "B: near",
            id="java",
        ),
        pytest.param("Traceback:\n  File x\nValueError: no\n", "ValueError: no", id="python"),
        pytest.param("\n", "no message", id="nothing"),
    ],
)
def test_the_reason_of_a_failure_is_its_last_cause(log: str, says: str) -> None:
    assert failure.reason(log) == says


ORPHAN = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    while time.process_time() < 0.6:
        pass
    os._exit(0)
os.wait()
raise SystemExit(3)
"""


def test_processor_time_of_an_orphan_counts(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, PEERS / "measured.py", "60", tmp_path / "log", sys.executable, "-c", ORPHAN],
        stdout=subprocess.PIPE,
        check=True,
    )
    result = json.loads(done.stdout)
    assert result["code"] == 3
    assert result["cpu_s"] > 0.6


SLEEPER = "import subprocess; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"


def ended(pid: int) -> bool:
    return subprocess.run(["kill", "-0", str(pid)], stderr=subprocess.DEVNULL, check=False).returncode != 0


def sleeping(log: Path, limit_s: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, PEERS / "measured.py", limit_s, log, sys.executable, "-c", SLEEPER]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_a_command_that_does_not_end_is_killed_with_all_that_it_started(tmp_path) -> None:
    with sleeping(tmp_path / "log", "2") as process:
        assert json.loads(process.communicate()[0])["code"] is None
    assert ended(int((tmp_path / "log").read_text()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["stopped", "interrupted"])
def test_a_benchmark_that_is_stopped_leaves_nothing_running(number: int, tmp_path) -> None:
    log = tmp_path / "log"
    with sleeping(log, "60") as process:
        while not (log.exists() and log.read_text().strip()):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
    assert ended(int(log.read_text()))


def a_run(commit: str, *loads: str) -> dict[str, object]:
    return {"commit": commit, "results": [{"load": load, "name": name} for load in loads for name in "ab"]}


def test_a_run_replaces_all_results_of_its_loads_and_keeps_those_of_others() -> None:
    runs = kept.with_run([a_run("old", "sum", "q5"), a_run("between", "large")], a_run("new", "q5", "large"))
    assert runs == [a_run("old", "sum"), a_run("new", "q5", "large")]


def test_a_kept_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    target = tmp_path / "results" / "peers.json"
    assert kept.read(target) == []
    runs = [a_run("old", "sum"), a_run("new", "q5")]
    kept.write(target, runs)
    assert kept.read(target) == runs
