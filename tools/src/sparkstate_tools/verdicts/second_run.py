"""Which failed tests of ``make test`` deserve a second run, and what becomes of their results.

Tests with real parts run beside others on machines that may be busy, where a time limit or a lease can run out though
nothing is wrong. Such a test is run once more, alone, after all stages: what fails again has failed, what passes is
listed in the report with what it said first. More than a handful of failures is not an accident and gets no second run.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from sparkstate_tools.verdicts import junit

SUFFIX = "-again.xml"
AT_MOST = 8
WRONG = re.compile(r"(^|failed on (setup|teardown) with \")(AssertionError|assert )")
"""How the message of a failed assertion begins."""


class Selection(enum.Enum):
    """Which failures of a stage are tried once more."""

    NONE = enum.auto()
    SLOW = enum.auto()
    """A time limit, a connection; a wrong result of the engine is final, however rare."""
    ANY = enum.auto()
    """On a cluster leases and garbage collection go by the wall clock, also in what a test finds wrong."""


def worth_it(which: Selection, failed: Sequence[junit.Case]) -> list[junit.Case]:
    """The cases that run again; none where one of them is final."""
    if which is Selection.NONE or len(failed) > AT_MOST:
        return []
    final = which is Selection.SLOW and any(WRONG.match(case.message) for case in failed)
    return [] if final else list(failed)


def merge(
    first: Sequence[junit.Case], second: Sequence[junit.Case]
) -> tuple[list[junit.Case], list[junit.Case]]:
    """The results that count, and the cases of ``first`` that were accidents.

    A case counts as passed if it passed in ``second``; one that the second run did not reach stays as it was.
    """
    failed_again = {case.address for case in second if case.outcome != junit.PASSED}
    settled = {case.address: case for case in second if case.address not in failed_again}
    accidents = [case for case in first if case.outcome == junit.FAILED and case.address in settled]
    return [settled[case.address] if case in accidents else case for case in first], accidents
