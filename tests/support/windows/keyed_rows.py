"""Random rows ``k, v, s`` with event times, for tests that compare built-in aggregates with lists of rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from sparkstate.functions import OutputTag
from sparkstate.serde.types import Types

LATE = OutputTag("late", "k long, v long, s string")
KEY_TYPES = {"numbers": Types.LONG(), "text": Types.STRING()}
KEYS = {"numbers": (0, -7, 2**63 - 1, None), "text": ("a", "b\0", "", None)}
ANOTHER = {"numbers": 5, "text": "c"}
"""In the place of the null key, with which timers are objects."""


def at(milliseconds: int) -> datetime.datetime:
    """That long after 1970 began."""
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=milliseconds)


def lists(at_most: int) -> st.SearchStrategy[list[tuple[int, int, int | None, str | None]]]:
    """Of rows: the place of a key in ``KEYS``, event time, ``v`` and ``s``."""
    return st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(-40, 100),
            st.none() | st.integers(-5, 5),
            st.none() | st.sampled_from(["", "ä", "b", "zz"]),
        ),
        max_size=at_most,
    )


def keyed(kind: str, found: Iterable[tuple[Any, ...]], has_null: bool) -> list[tuple[Any, ...]]:
    """The rows with keys of that kind in place of numbers."""
    keys = [ANOTHER[kind] if key is None and not has_null else key for key in KEYS[kind]]
    return [(keys[number], *others) for number, *others in found]


def element(row: tuple[Any, ...]) -> tuple[dict[str, Any], int]:
    """A row and its time, as a harness takes them."""
    key, time, value, text = row
    return {"k": key, "v": value, "s": text}, time
