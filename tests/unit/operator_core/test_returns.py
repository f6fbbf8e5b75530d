"""A namespace that is deleted and comes back, and a job that takes the name of another."""

from __future__ import annotations

import itertools

import kopf
from support import decisions

from sparkstate_operator import observed
from sparkstate_operator.edges import handlers
from sparkstate_operator.observe import Memory


def test_a_watch_that_is_refused_is_tried_for_ever_and_never_ends_the_others() -> None:
    settings = kopf.OperatorSettings()
    handlers._configure(settings, "")
    pauses_s = list(itertools.islice(iter(settings.networking.error_backoffs), 5000))
    assert len(pauses_s) == 5000, "kopf would give up, and end"
    assert max(pauses_s) <= 30
    assert pauses_s[0] <= 1


def test_what_is_remembered_of_a_job_is_not_believed_of_another_of_its_name() -> None:
    memory = Memory()
    assert memory.is_about("first")
    memory.sightings[1] = decisions.pod(attempt=1)
    memory.unanswered = 1
    memory.never_made, memory.deep_s, memory.unwritten = 1, 7.0, "first"
    memory.speaker = observed.Speaker("127.0.0.1", "first", 1)
    assert memory.is_about("first")
    assert memory.sightings
    assert not memory.is_about("second")
    assert (memory.sightings, memory.never_made, memory.deep_s, memory.unwritten) == ({}, 0, None, "")
    assert memory.speaker is None
    assert memory.unanswered == 0
    assert memory.is_about("second")
