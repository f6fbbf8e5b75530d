"""Every error that can reach a user is explained where users look."""

from __future__ import annotations

import inspect
import re

import pytest
from support.repository import tree

from sparkstate import errors

_CAUGHT = "caught by the operator, which makes a UserCodeError of it that names the epoch"
INTERNAL = {
    "OutputError": _CAUGHT,
    "FrameError": _CAUGHT,
    "ConstantsRefused": "caught by type_changes, which makes a refusal of it",
    "NotInColumns": "caught by the pass over timers, which goes on with objects",
    "RowError": "raised by the user's code; " + _CAUGHT,
}

CLASSES = [
    value for _, value in inspect.getmembers(errors, inspect.isclass) if value.__module__ == errors.__name__
]
PAGE = (tree.ROOT / "docs" / "errors.md").read_text()


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_each_error_has_its_line_with_its_exit_code(error: type[errors.SparkstateError]) -> None:
    line = re.search(rf"^\| `{error.__name__}` \| (\d+) \|", PAGE, re.MULTILINE)
    assert line, f"docs/errors.md says nothing of {error.__name__}"
    assert int(line[1]) == error.exit_code


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_each_error_stands_in_the_tree_of_the_module(error: type[errors.SparkstateError]) -> None:
    assert error.__name__ in (errors.__doc__ or "")


def test_nobody_defines_errors_of_their_own_outside_the_tree_without_joining_it() -> None:
    stray = [
        f"{tree.name(path)}: {found[1]}({found[2]})"
        for path in tree.sources()
        for found in re.finditer(
            r"^class (\w+)\((Exception|RuntimeError|ValueError|OSError|KeyError)\):", path.read_text(), re.M
        )
        if path.name != "errors.py" and not found[1].startswith("_") and found[1] not in INTERNAL
    ]
    assert stray == []
