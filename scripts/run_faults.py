"""``make faults``: everything that is broken on purpose, in full, and the page about it (``docs/faults.md``).

Runs the tests that carry ``pytest.mark.fault``, with 200 seeds of the storage's life and long Hypothesis runs, in one
pytest per file, so that a crash of one leaves the others. Arguments choose files; only their rows are then renewed.
``--page`` runs nothing and brings the page into step with the tests: new rows say ``not run``. ``--junit`` runs nothing
either and takes the results of files that runs with ``--junitxml`` left, for instance of seeds in several parts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import faults_page
import junit
import run_tests

ROOT = run_tests.ROOT
PAGE = ROOT / "docs" / "faults.md"
REPORTS = ROOT / "build" / "junit-faults"
SEEDS = 200
LIMIT_S = 3600
MARK = "mark.fault("


def fault_files() -> list[str]:
    """The files under ``tests/`` whose tests break something."""
    found = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if MARK in path.read_text() and path.parent.name != "tidy"  # where only the mark itself is tested
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def registry(files: Sequence[str]) -> set[faults_page.Key]:
    """What the tests in these files say they break; nothing is run."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "faults.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "fault"]
        command += [f"--faults-list={target}", "-p", "no:cacheprovider", *files]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not target.exists() or done.returncode not in {0, run_tests.NO_TESTS_COLLECTED}:
            raise SystemExit(f"the tests could not be collected:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return {faults_page.Key(*row) for row in json.loads(target.read_text())}


def run_file(file: str, seeds: str) -> tuple[int, list[junit.Case]]:
    """The exit code and the cases of one file of tests."""
    report = REPORTS / (file.removesuffix(".py").replace("/", ".") + ".xml")
    command = [
        sys.executable,
        "-m",
        "pytest",
        file,
        "-q",
        "--no-header",
        "-m",
        "fault",
        f"--fault-seeds={seeds}",
    ]
    command += ["--hypothesis-profile=faults", "-o", "junit_family=xunit1", f"--junitxml={report}"]
    code = run_tests.run_with_limit(command, LIMIT_S)
    return code, list(junit.read_file(report)) if report.exists() else []


def run(files: Sequence[str], seeds: str) -> tuple[list[str], list[junit.Case]]:
    """Runs the files one after the other; the names of those that did not pass, and all cases."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    failed, cases = [], []
    for number, file in enumerate(files, 1):
        print(f"\n[{number}/{len(files)}] {file}", flush=True)
        started = time.monotonic()
        code, found = run_file(file, seeds)
        cases += found
        verdict = "ok" if code == 0 else f"pytest ended with {code}"
        print(f"{file}: {len(found)} cases in {time.monotonic() - started:.0f} s, {verdict}", flush=True)
        failed += [file] if code else []
    return failed, cases


def write_page(ran: dict[faults_page.Key, faults_page.Result]) -> dict[faults_page.Key, faults_page.Result]:
    """Renew ``docs/faults.md``; returns its rows."""
    before = faults_page.parse(PAGE.read_text()) if PAGE.exists() else {}
    rows = faults_page.merge(registry(fault_files()), before, ran)
    PAGE.write_text(faults_page.render(rows))
    return rows


def main(arguments: Sequence[str]) -> int:
    """Entry point of ``make faults``; 0 when every fault that was tried became what was expected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="files of tests (default: all)")
    parser.add_argument("--seeds", default=str(SEEDS), metavar="N|A-B", help=f"default {SEEDS}")
    parser.add_argument("--junit", nargs="+", type=Path, metavar="XML", help="take results from these files")
    parser.add_argument("--page", action="store_true", help="run nothing, only renew the page's rows")
    options = parser.parse_args(arguments)
    if options.page or options.junit:
        cases = [case for path in options.junit or () for case in junit.read_file(path)]
        write_page(faults_page.from_cases(cases))
        return 0
    subprocess.run([sys.executable, "scripts/fetch_parts.py"], cwd=ROOT, check=False)
    failed, cases = run(options.files or fault_files(), options.seeds)
    ran = faults_page.from_cases(cases)
    rows = write_page(ran)
    bad = [
        f"{key.test}: {rows[key].outcome}"
        for key in ran
        if key in rows and rows[key].outcome != "as expected"
    ]
    print("\n".join(bad))
    runs = sum(result.runs for result in ran.values())
    print(
        f"{'FAIL' if failed or bad else 'PASS'}  ({len(ran)} faults, {runs} runs; the page: docs/faults.md)"
    )
    counts = [
        sum(case.outcome == kind for case in cases) for kind in (junit.PASSED, junit.FAILED, junit.SKIPPED)
    ]
    print(f"{counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
    return 1 if failed or bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
