"""The API server may say when it wants to be asked again."""

from __future__ import annotations

import random

import pytest

from sparkstate_operator import errors
from sparkstate_operator.edges import kube
from sparkstate_operator.queue import Backoff, KeyedQueue


@pytest.mark.parametrize(
    ("header", "after_s"), [("7", 7.0), ("60", 60.0), ("86400", 60.0), ("9" * 400, 60.0), ("0", 0.5)]
)
def test_a_key_waits_as_long_as_the_server_says_and_never_longer_than_without_its_word(
    header: str, after_s: float
) -> None:
    """A proxy in maintenance asked for a day, and nothing was done for the job meanwhile, not even upon events."""
    found: KeyedQueue[str] = KeyedQueue(monotonic=lambda: 100.0, rng=random.Random(1), jitter=0.0)
    found.add("job")
    assert found.take() == "job"
    found.add("job")
    refused = kube._error(503, "get", "/x", {"message": "maintenance"}, header)
    assert isinstance(refused, errors.ApiError)
    found.done("job", refused)
    assert found.next_due_s() == pytest.approx(after_s)
    assert after_s <= Backoff().longest_s
