"""The job's functions are opened in a process of their own: it prints, fails and ends without harm to the check."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from sparkstate import KeyedProcessFunction, Types, ValueStateDescriptor, errors
from sparkstate.compatibility import opening
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds


class Function(KeyedProcessFunction):
    """Does what ``act`` says when it is opened; that may give the type of its state."""

    def __init__(self, act: Any) -> None:
        self._act = act

    def open(self, ctx: Any) -> None:
        kind = self._act()
        ctx.get_state(ValueStateDescriptor("n", kind or Types.ROW_NAMED(["a"], [Types.LONG()])))

    def process_element(self, value: Any, ctx: Any) -> None:
        """Nothing."""


def opened(act: Any, python_path: tuple[str, ...] = ()) -> Any:
    spec = kinds.spec(Function(act), uid="count", row_columns=(), key_columns=("k",), key_type=Types.LONG())
    question = opening.OpeningRequest((spec,), KeySpace(128, 4), 2, {})
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        return opening.opened(cloudpickle.dumps(question), python_path)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_what_it_declares_comes_back_with_its_types(capfd: pytest.CaptureFixture[str]) -> None:
    (found,) = opened(lambda: print("open says so"))
    (state,) = found.states
    assert (found.uid, state.name, state.kind) == ("count", "n", "value")
    assert state.value_type.describe() == Types.ROW_NAMED(["a"], [Types.LONG()]).describe()
    told = capfd.readouterr()
    assert ("open says so" in told.err, told.out) == (True, "")


def test_a_function_that_raises_is_told_with_its_operator() -> None:
    def fails() -> None:
        raise ValueError("no such host")

    with pytest.raises(
        errors.UserCodeError, match=r"operator 'count': open\(\) raised ValueError: no such host"
    ):
        opened(fails)


def test_a_function_that_ends_its_process_fails_the_check_alone() -> None:
    with pytest.raises(errors.UserCodeError, match="ended with 7"):
        opened(lambda: os._exit(7))


def test_a_function_that_ends_its_process_as_if_all_were_well_fails_the_check_too() -> None:
    with pytest.raises(errors.UserCodeError, match=r"operator 'count': open\(\) raised SystemExit: 0"):
        opened(lambda: sys.exit(0))
    with pytest.raises(errors.UserCodeError, match="ended with 0 and no answer"):
        opened(lambda: os._exit(0))


def test_modules_of_the_job_are_found_in_its_folders(tmp_path: Path) -> None:
    (tmp_path / "beside_the_job.py").write_text("VALUE = 1\n")

    def imports() -> None:
        import beside_the_job  # type: ignore[import-not-found]

        assert beside_the_job.VALUE == 1

    assert opened(imports, (str(tmp_path),))
    with pytest.raises(errors.UserCodeError, match="No module named 'beside_the_job'"):
        opened(imports)


def test_an_enum_comes_back_where_its_class_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "steps_of_the_job.py").write_text("import enum\nStep = enum.Enum('Step', ['NEW', 'SENT'])\n")

    def declares() -> Any:
        from steps_of_the_job import Step  # type: ignore[import-not-found]

        step = Types.ENUM(Step, aliases={"SENT": "GONE"}, default=Step.NEW)
        return Types.MAP(step, Types.ROW_NAMED(["a"], [step], defaults={"a": Step.SENT}))

    (found,) = opened(declares, (str(tmp_path),))
    kind = found.states[0].value_type
    assert kind.describe() == 'MAP<ENUM<"NEW","SENT">,ROW<"a":ENUM<"NEW","SENT">>>'
    assert (kind.key.aliases, kind.key.default, kind.value.defaults) == (
        {"SENT": ("GONE",)},
        "NEW",
        {"a": "SENT"},
    )
    assert "steps_of_the_job" not in sys.modules
