"""The trace of an epoch: phases become spans, samples become processors, and the report adds up."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from support.examples import example

from sparkstate_tools.tracing import report, runs, trace_events
from sparkstate_tools.tracing.sampling import Sample, Sampler

cpu = example.load(example.ROOT / "benchmarks" / "cpu.py")


def entry(process: str, pid: int, phase: str, epoch: int, t_ms: int) -> dict[str, Any]:
    return {"process": process, "pid": pid, "phase": phase, "epoch": epoch, "t_ms": t_ms}


def a_run() -> Any:
    """Two epochs of 100 ms each. The slot runs half of the time, the JVM all of it."""
    entries = [
        entry("driver", 1, "epoch-begin", 0, 0),
        entry("driver", 1, "feed", 0, 10),
        entry("driver", 1, "finish", 0, 60),
        entry("driver", 1, "commit", 0, 90),
        entry("driver", 1, "epoch-begin", 1, 100),
        entry("driver", 1, "feed", 1, 110),
        entry("driver", 1, "output", 0, 120),
        entry("driver", 1, "finish", 1, 160),
        entry("driver", 1, "commit", 1, 200),
        entry("slot-0", 3, "feed", 0, 30),
    ]
    samples = [
        Sample(
            float(t),
            {1: 0.0, 2: t / 1000, 3: t / 2000},
            {1: 0.0, 2: 0.0, 3: t / 4000},
            t / 1000 * 1.7,
            t / 10_000,
            (t / 20_000, t * 0.15 / 1000),
            t * 0.02 / 1000,
        )
        for t in range(0, 201, 20)
    ]
    return runs.Run(entries, samples, {1: "driver", 2: "jvm", 3: "slots"})


def test_the_end_of_an_epoch_stands_beside_the_beginning_of_the_next() -> None:
    spans = {(s.process, s.phase, s.epoch): (s.begin, s.end) for s in runs.spans(a_run().entries)}
    assert spans["driver", "feed", 0] == (10, 60)
    assert spans["driver", "finish", 0] == (60, 90)
    assert spans["driver", "commit", 0] == (90, 120)
    assert spans["driver", "output", 0] == (120, 160)
    assert spans["driver", "feed", 1] == (110, 160)


def test_each_span_names_the_processor_time_of_each_kind_of_process() -> None:
    events = trace_events.events(a_run())
    assert {e["args"]["name"] for e in events if e["ph"] == "M"} == {"driver 1", "jvm 2", "slots 3"}
    (feed,) = (e for e in events if e["ph"] == "X" and e["name"] == "finish 1" and e["cat"] == "driver")
    assert feed["dur"] == 40_000
    assert feed["args"]["cpu_s"] == {"driver": 0.0, "jvm": 0.04, "slots": 0.02}
    busy = {e["pid"]: e["args"]["busy"] for e in events if e["ph"] == "C"}
    assert busy == {1: 0.0, 2: 1.0, 3: 0.5}


def test_the_report_says_how_much_of_the_processors_was_idle_and_who_waited() -> None:
    told = report.text(a_run(), 2, warm_up=0)
    assert "of 2 processors 1.50 were busy with the job and 0.20 with other processes and the kernel" in told
    assert "0.10 were taken by the host, and 0.20 were idle" in told
    assert "waited 0.25 s in a second" in told
    (line,) = (line for line in told.splitlines() if line.startswith("feed + output of the last"))
    assert line.split()[-6:] == ["1.50", "0.50", "0.25", "0.00", "1.00", "0.50"]


def test_the_report_says_which_processor_was_idle_and_in_what_phase() -> None:
    (told,) = (line for line in report.text(a_run(), 2, warm_up=0).splitlines() if line.startswith("idle: "))
    assert told.startswith("idle: processor 0 5%, processor 1 15% of the time; the driver was meanwhile in ")
    for part in ("feed 30%", "finish of the last 30%", "feed + output of the last 20%"):
        assert f"{part}," in told
    assert told.endswith("; a thread waited for a disk in 10% of it")


def test_the_report_splits_the_time_of_the_slots_by_thread() -> None:
    run = a_run()
    looks = [
        runs.ThreadTimes(0.0, {"python": (1.0, 0.5)}),
        runs.ThreadTimes(100.0, {"python": (1.05, 0.51), "rocksdb:low": (0.02, 0.0), "idle": (0.0, 0.0)}),
        runs.ThreadTimes(300.0, {"python": (9.0, 9.0)}),
    ]
    told = report.text(dataclasses.replace(run, threads=looks), 2, warm_up=0)
    assert told.splitlines()[-1] == (
        "processors of the slots, by thread: python 0.60 (0.10 of it in the kernel), "
        "rocksdb:low 0.20 (0.00 of it in the kernel)"
    )


def test_a_trace_is_written_compressed_for_the_browser(tmp_path: Path) -> None:
    target = tmp_path / "sum-rocksdb.trace.json.gz"
    trace_events.write(a_run(), target)
    written = json.loads(gzip.decompress(target.read_bytes()))
    assert written["traceEvents"] == trace_events.events(a_run())


def test_the_sampler_sees_how_long_a_process_ran() -> None:
    """By samples and not by the clock: on a busy machine a sample may come every 100 ms only."""
    sampler = Sampler(lambda: [os.getpid()])
    give_up = time.monotonic() + 60
    while len(sampler.samples) < 5 and time.monotonic() < give_up:
        pass
    samples = sampler.stop()
    assert len(samples) >= 5
    times = [sample.run_s[os.getpid()] for sample in samples]
    assert times == sorted(times)
    assert times[0] < times[-1] <= times[0] + 60
    machine = [sample.machine_s for sample in samples]
    assert machine[-1] >= machine[0] > 0
    assert {len(sample.idle_s) for sample in samples} == {os.cpu_count()}
    assert all(0 <= sample.disk_s <= sum(sample.idle_s) for sample in samples)


def test_threads_that_have_ended_count_for_their_process() -> None:
    """A slot has a thread for each connection of a task."""
    name = Path("/proc/self/comm").read_text().strip()
    before = sum(cpu.of_threads([os.getpid()])[name])
    spun = threading.Thread(target=lambda: [time.process_time_ns() for _ in range(2_000_000)])
    spun.start()
    spun.join()
    assert sum(cpu.of_threads([os.getpid()])[name]) > before
