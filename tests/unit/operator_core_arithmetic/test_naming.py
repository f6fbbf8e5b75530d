"""Names fit, are distinct, and are the same whenever they are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate_operator.core import naming
from sparkstate_spec.rules.job import NAME_LIMIT

UID = "0b0a4b6c-5a51-4ac2-8d5e-5d3b5a0a7f10"
AT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
JOBS = st.from_regex(rf"[a-z]([-a-z0-9]{{0,{NAME_LIMIT - 2}}}[a-z0-9])?", fullmatch=True)
ATTEMPTS = st.integers(0, naming.MAX_ATTEMPT)
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAMES: list[Callable[[str, int], str]] = [
    naming.driver_pod,
    naming.config_map,
    lambda job, attempt: naming.token_secret(UID, attempt),
    lambda job, _attempt: naming.service(job),
    lambda job, _attempt: naming.service_account(job),
    lambda job, _attempt: naming.revision(job, "0123456789"),
    lambda job, _attempt: naming.periodic_snapshot(job, UID, AT),
    lambda job, attempt: naming.command_job(job, UID, "restore-info", attempt % 100) + "-abcde",
    lambda job, attempt: naming.command_job(naming.periodic_snapshot(job, UID, AT), UID, "delete") + "-abcde",
]


@given(JOBS, ATTEMPTS)
def test_every_name_is_a_dns_label(job: str, attempt: int) -> None:
    for make in NAMES:
        name = make(job, attempt)
        assert LABEL.fullmatch(name), name


def test_the_longest_names_use_what_there_is_and_no_more() -> None:
    assert len(naming.command_job("b" * 63, UID, "delete") + "-abcde") == naming.LIMIT


@given(JOBS, ATTEMPTS, ATTEMPTS)
def test_attempts_never_share_a_name(job: str, one: int, other: int) -> None:
    for make in (naming.driver_pod, naming.config_map):
        assert (make(job, one) == make(job, other)) == (one == other)


def test_an_attempt_that_no_name_has_room_for_is_refused() -> None:
    with pytest.raises(ValueError, match="attempt is 1000000"):
        naming.driver_pod("a", naming.MAX_ATTEMPT + 1)
    with pytest.raises(ValueError, match="attempt is -1"):
        naming.config_map("a", -1)


def test_a_periodic_snapshot_is_named_by_job_and_time_in_any_zone() -> None:
    elsewhere = AT.astimezone(timezone(timedelta(hours=9)))
    assert naming.periodic_snapshot("flights", UID, AT).startswith("flights-261121030000-")
    assert naming.periodic_snapshot("flights", UID, elsewhere) == naming.periodic_snapshot("flights", UID, AT)
    assert naming.trigger_id(UID, elsewhere) == naming.trigger_id(UID, AT)
    assert naming.periodic_snapshot("flights", "other", AT) != naming.periodic_snapshot("flights", UID, AT)
    assert naming.trigger_id("other", AT) != naming.trigger_id(UID, AT)


def test_the_commands_of_two_snapshots_with_long_names_differ() -> None:
    long = "a" * 60
    assert naming.command_job(long, "uid-1", "delete") != naming.command_job(long, "uid-2", "delete")
