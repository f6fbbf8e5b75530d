"""``make faults``: everything that is broken on purpose, in full, and the page about it (``docs/faults.md``).

Runs the tests that carry ``pytest.mark.fault``, with 200 seeds of the storage's life and long Hypothesis runs, in parts
of some minutes, each in a pytest of its own: a crash of one leaves the others. Arguments choose files; only their rows
are then renewed. The page is renewed after every part, so a run that is broken off has not run for nothing, and
``--continue`` (``make faults ARGS=--continue``) leaves out the parts that ended well since the last run without it.

``--page`` runs nothing and brings the page into step with the tests: new rows say ``not run``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import faults_page
import run_tests

from sparkstate_tools.verdicts import junit

ROOT = run_tests.ROOT
PAGE = ROOT / "docs" / "faults.md"
REPORTS = ROOT / "build" / "junit-faults"
SEEDS, SEEDS_OF_A_PART = 200, 50
ALL_MIN = 70
LIMIT_S = 3600
MARKS = ("mark.fault(", "lives.a_life")
"""A test with a fault has one of these: the mark itself, or the helper that makes marks for kills."""


@dataclass(frozen=True)
class Part:
    """One pytest: ``targets`` are files or node ids, ``seeds`` the first and the last, where there are seeds."""

    name: str
    targets: tuple[str, ...]
    seeds: str = ""

    @property
    def report(self) -> Path:
        """Its JUnit file."""
        return REPORTS / f"{self.name}.xml"

    def cases(self) -> list[junit.Case]:
        """What its last run said; none if there was none or it broke off."""
        return list(junit.read_file(self.report))

    def ended_well(self) -> bool:
        """Whether it ran, and nothing failed or was left out."""
        cases = self.cases()
        return bool(cases) and all(case.outcome == junit.PASSED for case in cases)


def fault_files() -> list[str]:
    """The files under ``tests/`` whose tests break something."""
    found = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.parent.name != "tidy"  # where only the mark itself is tested
        and any(mark in path.read_text() for mark in MARKS)
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def collect(files: Sequence[str]) -> tuple[set[faults_page.Key], list[Mapping[str, Any]]]:
    """What the tests in these files say they break, and their cases; nothing is run."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "faults.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "fault", "--fault-seeds=1"]
        command += [f"--faults-list={target}", "-p", "no:cacheprovider", *files]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not target.exists() or done.returncode not in {0, run_tests.NO_TESTS_COLLECTED}:
            raise SystemExit(f"the tests could not be collected:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        found = json.loads(target.read_text())
        return {faults_page.Key(*row) for row in found["rows"]}, found["cases"]


def registry(files: Sequence[str]) -> set[faults_page.Key]:
    """The rows of the page that these files make."""
    return collect(files)[0]


def parts(cases: Sequence[Mapping[str, Any]], seeds: range) -> list[Part]:
    """Cases marked ``extra`` are long: a part each. Seeds go by fifties, everything else by files."""
    found: dict[str, Part] = {}
    for case in cases:
        node, file = case["node"], case["node"].partition("::")[0]
        stem = file.removesuffix(".py").replace("/", ".")
        if case["seeded"]:
            for first in range(seeds.start, seeds.stop, SEEDS_OF_A_PART):
                of = f"{first}-{min(first + SEEDS_OF_A_PART, seeds.stop) - 1}"
                found[f"{stem}.{of}"] = Part(f"{stem}.{of}", (file,), of)
        else:
            label = node.partition("[")[2].rstrip("]") or node.rpartition("::")[2]
            name = f"{stem}.{label}" if case["alone"] else stem
            before = found[name].targets if name in found else ()
            found[name] = Part(name, (*before, node))
    return sorted(
        found.values(), key=lambda part: (part.name.split(".test_")[0] == "tests.integration", part.name)
    )


def run_part(part: Part) -> int:
    """Its exit code."""
    part.report.parent.mkdir(parents=True, exist_ok=True)
    part.report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *part.targets, "-q", "--no-header", "-m", "fault"]
    command += [f"--fault-seeds={part.seeds}"] if part.seeds else []
    command += ["--hypothesis-profile=faults", "-o", "junit_family=xunit1", f"--junitxml={part.report}"]
    return run_tests.run_with_limit(command, LIMIT_S)


def write_page(
    rows: set[faults_page.Key],
    ran: Mapping[faults_page.Key, faults_page.Result],
    full: faults_page.FullRun | None = None,
) -> None:
    """Renew ``docs/faults.md``. ``full``: all of it ran just now."""
    page = PAGE.read_text() if PAGE.exists() else ""
    results = faults_page.merge(rows, faults_page.parse(page), ran)
    PAGE.write_text(faults_page.render(results, full or faults_page.full_run(page)))


def full_run() -> faults_page.FullRun:
    """Of today and this commit."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return faults_page.FullRun(f"{datetime.now(UTC):%Y-%m-%d}", commit)


def results(chosen: Sequence[Part]) -> dict[faults_page.Key, faults_page.Result]:
    """What all reports of these parts say together: a row may have runs in several of them."""
    return faults_page.from_cases([case for part in chosen for case in part.cases()])


def run(chosen: Sequence[Part], left: Sequence[Part], rows: set[faults_page.Key]) -> list[str]:
    """Run the parts that are ``left`` one after the other, the page after each; names of those that did not pass."""
    failed = []
    for part in chosen:
        if part not in left:
            print(f"{part.name}: ended well before", flush=True)
    began = time.monotonic()
    for number, part in enumerate(left, 1):
        print(
            f"\n[{number}/{len(left)}] {part.name}, after {(time.monotonic() - began) / 60:.0f} min",
            flush=True,
        )
        started = time.monotonic()
        code = run_part(part)
        verdict = "ok" if code == 0 else f"pytest ended with {code}"
        print(
            f"{part.name}: {len(part.cases())} cases in {time.monotonic() - started:.0f} s, {verdict}",
            flush=True,
        )
        failed += [part.name] if code else []
        write_page(rows, results(chosen))
    return failed


def report(chosen: Sequence[Part], failed: Sequence[str]) -> int:
    """Print the outcomes; returns the exit code."""
    ran = results(chosen)
    bad = [
        f"{key.test}: {key.broken}: {got.outcome}" for key, got in ran.items() if got.outcome != "as expected"
    ]
    cases = [case for part in chosen for case in part.cases()]
    counts = {
        k: sum(case.outcome == k for case in cases) for k in (junit.PASSED, junit.FAILED, junit.SKIPPED)
    }
    print("\n".join([*failed, *bad]))
    runs = sum(result.runs for result in ran.values())
    print(
        f"{'FAIL' if failed or bad else 'PASS'}  ({len(ran)} faults, {runs} runs; the page: docs/faults.md)"
    )
    print(", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return 1 if failed or bad else 0


def forecast(chosen: Sequence[Part], left: Sequence[Part]) -> str:
    """How long it will take: by the earlier reports of these parts, where there are any."""
    known = {part: sum(case.seconds for case in part.cases()) for part in left}
    known = {part: seconds for part, seconds in known.items() if seconds}
    said = (
        f"{len(left)} of {len(chosen)} parts to run; all parts take about {ALL_MIN} minutes on two processors"
    )
    if known:
        said += f"; {len(known)} of those to run took {sum(known.values()) / 60:.0f} minutes the last time"
    return said


def seed_range(text: str) -> range:
    """``200`` or ``17-18``."""
    first, dash, last = text.partition("-")
    return range(int(first), int(last) + 1) if dash else range(int(first))


def main(arguments: Sequence[str]) -> int:
    """Entry point of ``make faults``; 0 when every fault that was tried became what was expected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="files of tests (default: all)")
    parser.add_argument(
        "--seeds", default=range(SEEDS), type=seed_range, metavar="N|A-B", help=f"default {SEEDS}"
    )
    parser.add_argument(
        "--continue", dest="go_on", action="store_true", help="leave out what ended well before"
    )
    parser.add_argument("--page", action="store_true", help="run nothing, only renew the page's rows")
    options = parser.parse_args(arguments)
    rows, cases = collect(fault_files())
    if options.page:
        write_page(rows, {})
        return 0
    wanted = [case for case in cases if not options.files or case["node"].partition("::")[0] in options.files]
    chosen = parts(wanted, options.seeds)
    left = [part for part in chosen if not (options.go_on and part.ended_well())]
    print(forecast(chosen, left))
    for part in left:
        part.report.unlink(missing_ok=True)
    subprocess.run([sys.executable, "scripts/fetch_parts.py"], cwd=ROOT, check=False)
    with run_tests.ended_with_us():
        failed = run(chosen, left, rows)
    is_full = not options.files and not options.go_on and options.seeds == range(SEEDS)
    write_page(rows, results(chosen), full_run() if is_full else None)
    return report(chosen, failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
