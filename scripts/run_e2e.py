"""``make e2e``: the operator on real nodes, with images from the Dockerfile, a real S3 server and real Spark.

``--smoke`` runs the shortest way through everything: install, apply, run, lose the driver, be exact. It needs root on
Linux: the nodes are kubelets in network namespaces of this machine. Other arguments go to pytest.

Without ``--smoke`` a run renews the lines of its tests in ``docs/real-nodes.md``. ``--page`` runs nothing and does that
with the report of the last run.

What a failed test leaves for whoever looks for the reason stands under ``build/e2e/``, the verdict in one line in
``build/e2e-verdict.txt``. Exit codes: 0 all that ran has passed, 1 something failed, 3 this machine cannot run nodes or
build images (not root, no Linux, namespaces forbidden, a program that cannot be installed): nothing was tested.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import e2e_page
import run_tests

from sparkstate_tools import images
from sparkstate_tools.kubernetes import nodes
from sparkstate_tools.operating import preparing
from sparkstate_tools.verdicts import junit

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "build" / "junit-e2e" / "e2e.xml"
PAGE = ROOT / "docs" / "real-nodes.md"
TESTS = ROOT / "tests" / "e2e"
VERDICT = ROOT / "build" / "e2e-verdict.txt"
NOT_RUN = 3
"""Exit code; make has but one for every failure, so that ``.ci/run`` asks this program."""
LIMITS_S = {True: 1200, False: 10_800}
"""Of the tests alone, smoke or all: a hang must not hide what the others say."""


def main(arguments: Sequence[str]) -> int:
    """Entry point; 0 when all that ran has passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="only the tests marked smoke")
    parser.add_argument(
        "--no-images", action="store_true", help="take the archives under build/images as they are"
    )
    parser.add_argument(
        "--page", action="store_true", help="run nothing, only renew the page by the last report"
    )
    options, more = parser.parse_known_args(arguments)
    if options.page:
        write_page()
        return 0
    started = time.monotonic()
    try:
        preparing.prepare(build=not options.no_images)
    except (nodes.CannotRunNodes, images.CannotBuild) as error:
        return _said(f"NOT RUN: {error}", NOT_RUN)
    except preparing.PreparationFailed as error:
        return _said(f"FAIL  {error}", 1)
    prepared_s = time.monotonic() - started

    REPORT.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/e2e",
        "-v",
        "--no-header",
        "-rP",
        "--durations=0",
        "--durations-min=5",
    ]
    command += [
        "-o",
        "junit_family=xunit1",
        f"--junitxml={REPORT}",
        *(["-m", "smoke"] if options.smoke else []),
        *more,
    ]
    REPORT.unlink(missing_ok=True)
    code = run_tests.run_with_limit(command, LIMITS_S[options.smoke])
    if not options.smoke:
        write_page()
    tests_s = time.monotonic() - started - prepared_s
    verdict = "PASS" if code == 0 else "FAIL"
    times = f"parts and images {prepared_s:.0f} s, tests {tests_s:.0f} s"
    return _said(f"{verdict}  {times}  ({REPORT.relative_to(ROOT)})", int(code != 0))


def write_page() -> None:
    """Renew ``docs/real-nodes.md`` by the last report, if there is one; tests without a line get one."""
    day = datetime.fromtimestamp(REPORT.stat().st_mtime, UTC) if REPORT.exists() else datetime.now(UTC)
    before = e2e_page.parse(PAGE.read_text()) if PAGE.exists() else {}
    ran = e2e_page.from_cases(junit.read_file(REPORT), f"{day:%Y-%m-%d}")
    PAGE.write_text(e2e_page.render(e2e_page.merge(e2e_page.registry(TESTS, ROOT), before, ran)))


def _said(verdict: str, code: int) -> int:
    """The line for people and for ``.ci/run``, and the exit code."""
    VERDICT.parent.mkdir(exist_ok=True)
    VERDICT.write_text(f"{verdict}\n")
    print(f"end-to-end: {verdict}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
