"""Things that are closed one after another: every one, in order, and the first error is the one that is raised."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from sparkstate import disposal


def failing(error: BaseException, calls: list[str]) -> Callable[[], None]:
    def close() -> None:
        calls.append(str(error))
        raise error

    return close


def test_all_are_closed_in_order() -> None:
    calls: list[str] = []
    disposal.close_all([lambda: calls.append("a"), lambda: calls.append("b")])
    assert calls == ["a", "b"]


@pytest.mark.parametrize("first", [ValueError("a"), SystemExit("a")], ids=lambda error: type(error).__name__)
def test_the_first_error_is_raised_and_later_ones_are_logged(
    first: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []
    closes = [failing(first, calls), lambda: calls.append("b"), failing(OSError("c"), calls)]
    with caplog.at_level(logging.ERROR, "sparkstate"), pytest.raises(type(first)) as raised:
        disposal.close_all(closes)
    assert raised.value is first
    assert calls == ["a", "b", "c"]
    assert caplog.messages == ["closing raised OSError: c, after an earlier error"]
