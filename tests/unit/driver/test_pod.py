"""A driver's identity in a cluster, from its environment."""

from __future__ import annotations

import pytest

from sparkstate import errors
from sparkstate.driver import pod

FULL = {
    "SPARKSTATE_POD_NAME": "job-driver-2",
    "SPARKSTATE_POD_NAMESPACE": "shop",
    "SPARKSTATE_POD_IP": "fd00::9",
    "SPARKSTATE_JOB_UID": "0-1-2",
}


def test_what_may_be_missing_has_its_default() -> None:
    found = pod.read(FULL, 2, {})
    assert (found.name, found.namespace, found.ip, found.job_uid) == (
        "job-driver-2",
        "shop",
        "fd00::9",
        "0-1-2",
    )
    assert (found.attempt, found.cluster, found.grace_s) == (2, "default", 30.0)
    assert (found.start_since, found.start_fresh, found.predecessor_s) == (0, False, 0.0)
    assert found.uid == ""


def test_the_pod_s_uid_is_told_by_its_variable() -> None:
    assert pod.read({**FULL, "SPARKSTATE_POD_UID": "4-5-6"}, 2, {}).uid == "4-5-6"


@pytest.mark.parametrize("name", sorted(FULL))
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=name):
        pod.read({**FULL, name: ""}, 1, {})


def test_a_grace_period_that_is_no_number_is_refused() -> None:
    with pytest.raises(errors.SpecInvalid, match="SPARKSTATE_GRACE_PERIOD_S is '2m'"):
        pod.read({**FULL, "SPARKSTATE_GRACE_PERIOD_S": "2m"}, 1, {})


def test_how_long_an_earlier_driver_may_do_harm_is_told_in_seconds() -> None:
    assert pod.read({**FULL, "SPARKSTATE_PREDECESSOR_S": "220"}, 2, {}).predecessor_s == 220.0
    with pytest.raises(errors.SpecInvalid, match="SPARKSTATE_PREDECESSOR_S is 'soon'"):
        pod.read({**FULL, "SPARKSTATE_PREDECESSOR_S": "soon"}, 2, {})


@pytest.mark.parametrize("text", ["no json", "[]", '{"since": "three"}'], ids=["text", "list", "type"])
def test_a_start_instruction_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=r"sparkstate\.io/start"):
        pod.read(FULL, 1, {pod.START: text})


def test_fields_of_a_later_operator_in_the_start_instruction_are_skipped() -> None:
    found = pod.read(FULL, 4, {pod.START: '{"since": 3, "fresh": true, "later": {"x": 1}}'})
    assert (found.start_since, found.start_fresh) == (3, True)
