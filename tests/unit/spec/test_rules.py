"""The list of rules itself; what each refuses is in the manifests of ``tests/contract``."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate_spec import fields, given, rules
from sparkstate_spec.rules import job
from sparkstate_spec.rules.rule import Rule, View

NAMED = {"metadata": {"name": "flights"}}
GOOD: dict[str, Any] = {"module": "shop.orders", "slots": 2, "shards": 16}


def test_every_rule_has_a_name_of_its_own() -> None:
    names = [rule.name for rule in (*rules.ALL, *rules.BESIDE)]
    assert len(set(names)) == len(names)
    assert len(rules.BY_NAME) == len(rules.ALL)


@pytest.mark.parametrize("rule", rules.ALL, ids=lambda rule: str(rule.name))
def test_a_good_spec_breaks_no_rule_and_an_empty_one_has_nothing_that_could(rule: Rule) -> None:
    assert not rule.broken(View({**NAMED, "spec": GOOD}))
    if rule is not job.ENTRY_POINT:
        assert not rule.broken(View({**NAMED, "spec": {}}))


def test_a_finding_names_the_field_says_what_is_wrong_and_notes_the_values() -> None:
    (found,) = rules.check({**NAMED, "spec": {**GOOD, "slots": 20}})
    assert str(found) == (
        "spec.slots: there are more slots than shards; each slot needs at least one shard, so lower slots "
        "(20 slots, 16 shards)"
    )


def test_a_part_of_a_spec_needs_neither_name_nor_code() -> None:
    assert rules.check_part({"slots": 2}) == []
    (found,) = rules.check_part({"checkpointing": {"interval": "0s"}})
    assert found.path == "spec.checkpointing.interval"


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("slots fit shards", "spec.shards"),
        ("slots fit key groups", "spec.maxParallelism"),
        ("shards fit key groups", "spec.maxParallelism"),
        ("ratios fit", "spec.stateBackend.writeBufferRatio"),
        ("backoffs agree", "spec.restart.exponentialDelay.maxBackoff"),
    ],
)
def test_a_rule_that_compares_two_fields_names_both(name: str, beside: str) -> None:
    assert rules.BY_NAME[name].beside == beside


@pytest.mark.parametrize(
    ("line", "comes"),
    [
        ("0 3 * * *", True),
        ("@daily", True),
        ("0 0 29 2 *", True),
        ("0 0 30 2 *", False),
        ("0 0 31 4 *", False),
    ],
)
def test_a_schedule_has_to_name_a_time_that_comes(line: str, comes: bool) -> None:
    found = rules.broken({"spec": {"savepoints": {"schedule": line}}}, rules.BESIDE)
    assert (found == []) == comes
    if not comes:
        assert (
            str(found[0])
            == f"spec.savepoints.schedule: names a time that never comes; correct the day or month (it is {line!r})"
        )


@pytest.mark.parametrize(
    ("text", "fits"), [("876000h", True), ("876000h1ms", False), ("9" * 31 + "h", False)]
)
def test_no_duration_is_longer_than_a_hundred_years(text: str, fits: bool) -> None:
    for line in (line for line in fields.TABLE if line.kind == "duration"):
        spec = given.nested({line.path: given.GivenValue(text, given.JOB)})
        found = [str(problem) for problem in rules.broken({"spec": spec}, rules.BESIDE)]
        told = f"spec.{line.path}: must be at most 876000h (100 years) (it is {text})"
        assert found == ([] if fits else [told])


def test_what_looks_like_a_key_is_named_by_its_entry_and_never_shown() -> None:
    spec = {**GOOD, "params": {"password": "hunter2", "input": "AKIAABCDEFGHIJKLMNOP"}}
    found = [str(problem) for problem in rules.check({**NAMED, "spec": spec})]
    assert len(found) == 2
    assert found[0].endswith("(password)")
    assert found[1].endswith("(input)")
    assert not any("hunter2" in line or "AKIA" in line for line in found)


def test_a_view_reads_what_is_there_and_nothing_else() -> None:
    view = View({"spec": {"driver": {"cores": 2}, "params": {}}})
    assert view["spec.driver.cores"] == 2
    assert view["spec.driver.cores.more"] is None
    assert view["spec.executor.cores"] is None
    assert view.count("spec.driver", "spec.executor", "spec.params") == 2
    assert view.entries("spec.params") == view.entries("spec.sparkConf") == {}
