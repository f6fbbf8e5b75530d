"""The sizes of blocks that go back to the kernel, by the slot's managed memory."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from sparkstate.backends import allocation

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("managed", "mapped", "trimmed"),
    [
        (0, 64 * KIB, 512 * KIB),
        (8 * MIB, 64 * KIB, 512 * KIB),
        (64 * MIB, 64 * KIB, 512 * KIB),
        (160 * MIB, 2 * MIB, 16 * MIB),
        (256 * MIB, 4 * MIB, 32 * MIB),
        (4096 * MIB, 4 * MIB, 32 * MIB),
    ],
)
def test_blocks_stay_in_proportion_to_managed_memory(
    monkeypatch: pytest.MonkeyPatch, managed: int, mapped: int, trimmed: int
) -> None:
    asked: dict[int, int] = {}

    class Library:
        @staticmethod
        def mallopt(parameter: int, value: int) -> int:
            asked[parameter] = value
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    allocation.limit_arenas(managed)
    assert asked == {-8: 1, -3: mapped, -1: trimmed}


def test_a_library_without_these_settings_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Other())
    allocation.limit_arenas(256 * MIB)
