"""The operator learns from a fenced driver's last word which attempt it has to go above."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkstate import clock, errors, storage
from sparkstate.log.log import LineageLog
from sparkstate_operator.decide import ends


def test_the_word_of_a_fenced_driver_names_the_attempt_that_has_claimed(tmp_path: Path) -> None:
    store = storage.open_store(str(tmp_path), None)
    LineageLog(store, clock.SystemClock()).claim(7, "pod-7")
    with pytest.raises(errors.Fenced) as fenced:
        LineageLog(store, clock.SystemClock()).claim(1, "pod-1")
    assert ends.claimed_attempt(str(fenced.value)) == 7


def test_a_word_without_a_number_names_none() -> None:
    assert ends.claimed_attempt("somebody else") == 0
