"""The key of a state that is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate import errors
from sparkstate.clock import SystemClock
from sparkstate.control.documents import JobIdentity
from sparkstate.driver.control import DriverControl
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView


@pytest.mark.parametrize(
    ("key", "namespace"), [("\ud800", None), ("a", "\udfff"), (["a", "\ud800"], None)], ids=ascii
)
def test_half_of_a_character_is_refused(key: Any, namespace: Any) -> None:
    """No answer could repeat it, which was an internal error."""
    view = JobView(JobIdentity(job_uid="u"), "job", "default", "hashmap", SystemClock())
    slots: Any = object()
    control = DriverControl(view, Requests(), lambda _: None, lambda: slots, lambda: 1)
    with pytest.raises(errors.SpecInvalid, match="half of a character"):
        control.key_state("op", "state", key, namespace)
