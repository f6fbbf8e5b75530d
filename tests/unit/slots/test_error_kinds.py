"""An error that a slot raises reaches the driver as the class that it was."""

from __future__ import annotations

import pytest

from sparkstate import errors
from sparkstate.slots import client

DECIDED_BY_THE_DRIVER = {
    errors.Fenced,
    errors.ClockStep,
    errors.SparkLost,
    errors.AlreadyExists,
    errors.JobFailed,
    errors.SparkstateError,
}
"""A driver is fenced by the log alone: a slot that refuses a request of another incarnation must not end it for good.
Its own clock is the one that paces the query, and the JVM is its child. The next two belong to commits and to the
restart strategy; the last is never raised itself."""
ALL = [each for each in vars(errors).values() if isinstance(each, type)]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_keeps_its_class_from_slot_to_driver(kind: type[errors.SparkstateError]) -> None:
    if kind in DECIDED_BY_THE_DRIVER:
        return
    found = client.error_of(kind.__name__, "why")
    assert (type(found), str(found)) == (kind, "why")


def test_a_name_that_nobody_knows_is_an_error_all_the_same() -> None:
    assert type(client.error_of("OfALaterVersion", "why")) is errors.SparkstateError
