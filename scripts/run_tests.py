"""``make test``: the test suite in stages, one after the other, with a verdict at the end.

A stage is a folder under ``tests/``; each runs in a pytest of its own, so that a crash of one leaves the
others. All stages run, whatever the earlier ones said. Where there are two processors the longest stage, whole
jobs on Spark, runs beside the others: what a stage says is then shown when it ends. JUnit files go to
``build/junit``, and the feature list is compared with them last.

Arguments choose stages (``make test ARGS="unit tidy"``); ``--extras`` adds the tests marked ``extra``.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import bootstrap
import features

from sparkstate_tools.verdicts import junit, second_run

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "junit"
SUMMARY = ROOT / "build" / "test-report.txt"
FAILURES = ROOT / "build" / "test-failures.txt"
"""The failed tests alone, so that a continuous integration that shows but the end of a log can end with them."""
PYTEST = (sys.executable, "-m", "pytest", "-q", "--no-header", "-o", "junit_family=xunit1")
TESTS_FAILED, NO_TESTS_COLLECTED = 1, 5
RUNNING: set[subprocess.Popen[bytes]] = set()
INTERRUPTED = threading.Event()


@dataclass(frozen=True)
class Stage:
    """One folder of tests."""

    name: str
    limit_s: int
    """After that long the stage is ended: a hung process must not hide what the other stages say."""
    fetches: str = ""
    """What its tests start beside Python, as a group of ``fetch_parts``; fetched before the first stage."""
    again: second_run.Selection = second_run.Selection.NONE
    """Which failures are tried once more, alone, when all stages have ended; the report lists them."""
    beside: bool = False
    """Whether it runs beside the other stages."""


STAGES = (
    Stage("tidy", 300),
    Stage("unit", 2700, fetches="tests"),
    Stage("stateful", 900),
    Stage("faults", 900, fetches="tests"),
    Stage("contract", 300),
    Stage("cluster", 2400, fetches="cluster", again=second_run.Selection.ANY),
    Stage("examples", 1800, fetches="tests", again=second_run.Selection.SLOW),
    Stage("integration", 4200, fetches="tests", again=second_run.Selection.SLOW, beside=True),
)


@dataclass(frozen=True)
class Result:
    """What a stage said."""

    stage: Stage
    exit_code: int
    seconds: float
    cases: Sequence[junit.Case]
    accidents: Sequence[junit.Case] = ()
    """What failed beside the other stages and passed alone."""

    def count(self, outcome: str) -> int:
        """Number of cases with that outcome."""
        return sum(case.outcome == outcome for case in self.cases)

    @property
    def ok(self) -> bool:
        """A stage without tests is fine, one that broke off is not, even if no case failed."""
        return self.exit_code in {0, NO_TESTS_COLLECTED}


def lanes(chosen: Sequence[Stage], processors: int) -> list[list[Stage]]:
    """Which stages run one after another; the lanes run side by side."""
    aside = [stage for stage in chosen if stage.beside]
    others = [stage for stage in chosen if not stage.beside]
    return [aside, others] if aside and others and processors > 1 else [list(chosen)]


def run_lanes(chosen: Sequence[Stage], extras: bool) -> list[Result]:
    """The results in the order of the stages."""
    together = lanes(chosen, len(os.sched_getaffinity(0)))
    screen = threading.Lock()

    def run_lane(lane: Sequence[Stage]) -> list[Result]:
        return [
            run_shown(stage, extras, screen if len(together) > 1 else None)
            for stage in lane
            if not INTERRUPTED.is_set()
        ]

    with ThreadPoolExecutor(len(together)) as pool:
        done = [result for lane in pool.map(run_lane, together) for result in lane]
    return sorted(done, key=lambda result: chosen.index(result.stage))


def try_again(result: Result) -> Result:
    """Run alone what failed in a stage, as far as its ``again`` says so; what passes now counts as an accident."""
    failed = [case for case in result.cases if case.outcome == junit.FAILED]
    chosen = second_run.worth_it(result.stage.again, failed)
    if not chosen or result.exit_code != TESTS_FAILED or INTERRUPTED.is_set():
        return result
    print(f"\n[{result.stage.name}] {len(chosen)} once more, alone", flush=True)
    started = time.monotonic()
    report = REPORTS / f"{result.stage.name}{second_run.SUFFIX}"
    run_with_limit(
        [*PYTEST, *(case.address for case in chosen), f"--junitxml={report}"], result.stage.limit_s
    )
    cases, accidents = second_run.merge(result.cases, list(junit.read_file(report)))
    left = any(case.outcome == junit.FAILED for case in cases)
    seconds = result.seconds + time.monotonic() - started
    return Result(result.stage, TESTS_FAILED if left else 0, seconds, cases, accidents)


def run_shown(stage: Stage, extras: bool, screen: threading.Lock | None) -> Result:
    """Run a stage that has the screen for itself (``screen`` None), or show what it said when it has ended."""
    if screen is None:
        print(f"\n[{stage.name}]", flush=True)
        return run_stage(stage, extras)
    print(f"[{stage.name}] begins", flush=True)
    output = REPORTS.parent / f"{stage.name}.log"
    with output.open("wb") as file:
        result = run_stage(stage, extras, file)
    with screen:
        print(f"\n[{stage.name}] {'ok' if result.ok else 'FAILED'} after {result.seconds:.0f} s", flush=True)
        print(output.read_text(errors="replace"), flush=True)
    return result


def run_stage(stage: Stage, extras: bool, output: IO[bytes] | None = None) -> Result:
    """Runs one folder; its output goes to the screen or to a file."""
    report = REPORTS / f"{stage.name}.xml"
    command = [*PYTEST, f"tests/{stage.name}", f"--junitxml={report}", "--durations=5", "--durations-min=5"]
    command += [] if extras else ["-m", "not extra"]
    started = time.monotonic()
    exit_code = run_with_limit(command, stage.limit_s, output)
    cases = list(junit.read_file(report))
    return Result(stage, exit_code, time.monotonic() - started, cases)


def run_with_limit(command: Sequence[str], limit_s: int, output: IO[bytes] | None = None) -> int:
    """The exit code, or -1 after the limit; what the command started ends with it, also when we are interrupted."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        start_new_session=True,
    )
    RUNNING.add(process)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"\nstopped after {limit_s} s", flush=True)
        return -1
    finally:
        RUNNING.discard(process)
        end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the process group: pytest itself after the limit, or children that it forgot."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue


def table(results: Sequence[Result]) -> str:
    """One line per stage."""
    kinds = (junit.PASSED, junit.FAILED, junit.SKIPPED)
    lines = [f"{'stage':<15}" + "".join(f"{kind:>9}" for kind in (*kinds, "seconds"))]
    for result in results:
        counts = "".join(f"{result.count(kind):>9}" for kind in kinds)
        note = "" if result.ok else f"   pytest ended with {result.exit_code}"
        lines.append(f"{result.stage.name:<15}{counts}{result.seconds:>9.0f}{note}")
    return "\n".join(lines)


def failures(results: Sequence[Result]) -> str:
    """Each failed and each skipped test with the first line of what it said, and each that failed by accident."""
    lines = [
        f"AGAIN    {case.address}: passed alone, before that: {case.message.strip()[:160]}"
        for result in results
        for case in result.accidents
    ]
    for outcome in (junit.FAILED, junit.SKIPPED):
        for case in (case for result in results for case in result.cases if case.outcome == outcome):
            said = case.message.strip().splitlines() or [""]
            lines.append(f"{outcome.upper():<8} {case.address}: {said[0][:160]}")
    return "\n".join(lines)


def failed_in_short(results: Sequence[Result], problems: Sequence[str], characters: int = 1200) -> str:
    """What keeps the run from passing, in at most that many characters: the names first, then the reasons."""
    failed = [case for result in results for case in result.cases if case.outcome == junit.FAILED]
    broken = [f"stage {r.stage.name} ended with {r.exit_code}" for r in results if not r.ok]
    names = [*broken, *(case.address.removeprefix("tests/") for case in failed), *problems]
    reasons = [f"{case.name}: {' '.join(case.message.split())[:240]}" for case in failed]
    text = "\n".join((*names, *reasons))
    return f"{text[:characters]}\n" if text else ""


def closing_line(results: Sequence[Result], seconds: float | None = None) -> str:
    """The sum of all stages in the form of pytest's own last line."""
    totals = {
        outcome: sum(result.count(outcome) for result in results)
        for outcome in (junit.FAILED, junit.PASSED, junit.SKIPPED)
    }
    said = ", ".join(f"{number} {outcome}" for outcome, number in totals.items() if number) or "no tests ran"
    took = sum(result.seconds for result in results) if seconds is None else seconds
    return f" {said} in {took:.0f}s ".center(100, "=")


def main(arguments: Sequence[str]) -> int:
    """Entry point of ``make test``; 0 when every stage and the feature list are in order."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=" ".join(stage.name for stage in STAGES))
    parser.add_argument("--extras", action="store_true", help="also the tests marked extra")
    options = parser.parse_args(arguments)
    unknown = set(options.stages) - {stage.name for stage in STAGES}
    if unknown:
        parser.error(f"no such stage: {' '.join(sorted(unknown))}")
    chosen = [stage for stage in STAGES if not options.stages or stage.name in options.stages]

    groups = sorted({stage.fetches for stage in chosen if stage.fetches})
    if groups:
        subprocess.run([sys.executable, "scripts/fetch_parts.py", *groups], cwd=ROOT, check=False)
    compile_sources()
    REPORTS.mkdir(parents=True, exist_ok=True)
    for old in (*REPORTS.glob("*.xml"), FAILURES):
        old.unlink(missing_ok=True)
    started = time.monotonic()
    with ended_with_us():
        results = run_lanes(chosen, options.extras)
        results = [try_again(result) for result in results]
    cases = [case for result in results for case in result.cases]
    problems = features.compare_with_run(cases) if len(chosen) == len(STAGES) else []
    return report(results, problems, time.monotonic() - started)


def compile_sources() -> None:
    """Writes the bytecode of our own packages, as the installer did for all others. Where Python may not write it
    (``PYTHONDONTWRITEBYTECODE``), each driver, slot, worker and operator of a test would compile them anew, which took
    two to three of the 21 s of processor time of a small job."""
    for member in bootstrap.MEMBERS:
        compileall.compile_dir(ROOT / member / "src", quiet=1)


@contextlib.contextmanager
def ended_with_us() -> Iterator[None]:
    """Ctrl-C or SIGTERM ends what runs; it is in sessions of its own and would not notice."""

    def end(*_: object) -> None:
        INTERRUPTED.set()
        for process in list(RUNNING):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        raise SystemExit(130)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def report(results: Sequence[Result], problems: Sequence[str], seconds: float | None = None) -> int:
    """Prints and stores the summary; returns the exit code. ``seconds``: how long all of it took."""
    ok = all(result.ok for result in results) and not problems
    listed = [f"FEATURES {problem}" for problem in problems]
    parts = [table(results), failures(results), "\n".join(listed), closing_line(results, seconds)]
    text = "\n\n".join(part for part in parts if part)
    SUMMARY.write_text(text + "\n")
    FAILURES.write_text(failed_in_short(results, problems))
    where = f"report: {SUMMARY.relative_to(ROOT)}, JUnit files: {REPORTS.relative_to(ROOT)}/"
    print(f"\n{text}\n{'PASS' if ok else 'FAIL'}  ({where})", flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
