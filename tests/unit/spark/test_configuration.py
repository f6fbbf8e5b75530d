"""Flink's ``Configuration``, and the sizes of a checkpoint storage: what is read, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import Configuration, FileSystemCheckpointStorage, errors


@given(threshold=st.integers(), buffer=st.integers())
def test_sizes_of_a_storage_are_within_flinks_bounds_or_refused(threshold: int, buffer: int) -> None:
    fits = -1 <= threshold <= 1024 * 1024 and (buffer == -1 or 1 <= buffer < 2**31)
    try:
        FileSystemCheckpointStorage("/a", threshold, buffer)
        taken, said = True, "it must be a whole number of bytes from"
    except ValueError as error:
        taken, said = False, str(error)
    assert taken == fits
    assert "it must be a whole number of bytes from" in said


def test_a_configuration_reads_flinks_types() -> None:
    conf = Configuration({"d": "10 s", "m": "64mb", "b": "TRUE", "i": "3", "f": "0.5", "x": "x"})
    assert (conf.get_duration_ms("d", 0), conf.get_bytes("m", 0), conf.get_boolean("b", False)) == (
        10_000,
        2**26,
        True,
    )
    assert (conf.get_integer("i", 0), conf.get_float("f", 0.0), conf.get_string("none", "z")) == (3, 0.5, "z")
    for read in (conf.get_integer, conf.get_float, conf.get_boolean, conf.get_duration_ms, conf.get_bytes):
        with pytest.raises(errors.SpecInvalid, match="x is 'x'; it must be"):
            read("x", 0)  # type: ignore[operator]
    assert "0.5" not in str(conf)
