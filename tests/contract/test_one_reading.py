"""What the engine and the operator both judge by themselves, they judge alike and in the same words."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from sparkstate import errors as engine_errors
from sparkstate.keygroups import KeySpace
from sparkstate.runner import schedule as runner
from sparkstate.settings import SavepointSettings
from sparkstate_operator import errors
from sparkstate_operator.core import schedule, settings
from sparkstate_spec import rules, units

BASE = {
    "image": "shop:1",
    "pythonFile": "/job.py",
    "checkpointing": {"storage": "s3://bucket/prefix"},
}
CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def resolved(**spec: object) -> settings.Resolved:
    return settings.resolve({**BASE, **spec})


@pytest.mark.parametrize("interval", ["1ms", "200ms", "999ms", "1s", "1500ms", "90500ms", "6h"])
def test_both_take_the_same_time_between_two_savepoints(interval: str) -> None:
    by_runner = runner.from_settings(SavepointSettings(interval_s=units.duration_s(interval)))
    by_operator = schedule.plan(resolved(savepoints={"interval": interval}), "uid-1", CREATED)
    assert isinstance(by_runner, runner.Interval) and by_operator is not None
    assert by_runner.period_ms == (by_operator.interval_s or 0) * 1000


@pytest.mark.parametrize("line", ["0 0 30 2 *", "0 0 31 4 *"])
def test_both_refuse_a_cron_line_that_never_comes_in_the_same_words(line: str) -> None:
    with pytest.raises(engine_errors.SpecInvalid) as by_runner:
        runner.from_settings(SavepointSettings(schedule=line))
    with pytest.raises(errors.SpecInvalid) as by_operator:
        resolved(savepoints={"schedule": line})
    told = [str(one.value) for one in (by_runner, by_operator)]
    assert all(rules.SCHEDULE_COMES.message in each and line in each for each in told)


def test_both_refuse_more_slots_than_stored_shards_in_the_same_words() -> None:
    with pytest.raises(engine_errors.SpecInvalid) as by_engine:
        KeySpace(128, 16).shards_of_slot(0, 17)
    with pytest.raises(errors.SpecInvalid) as by_operator:
        settings.resolve({**BASE, "slots": 17}, fixed=lambda _: settings.KeySpace(16))
    (words,) = re.findall(r"must .*", str(by_engine.value))
    assert words in str(by_operator.value) and "17" in str(by_operator.value)
