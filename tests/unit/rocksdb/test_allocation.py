"""The sizes of blocks that go back to the kernel, by the memory of the slot's state."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from sparkstate.backends import allocation
from sparkstate.settings import StateBackendSettings

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("state", "mapped", "trimmed"),
    [
        (0, 64 * KIB, 512 * KIB),
        (8 * MIB, 64 * KIB, 512 * KIB),
        (64 * MIB, 64 * KIB, 512 * KIB),
        (160 * MIB, 2 * MIB, 16 * MIB),
        (256 * MIB, 4 * MIB, 32 * MIB),
        (4096 * MIB, 4 * MIB, 32 * MIB),
    ],
)
def test_blocks_stay_in_proportion_to_the_memory_of_the_state(
    monkeypatch: pytest.MonkeyPatch, state: int, mapped: int, trimmed: int
) -> None:
    asked: dict[int, int] = {}

    class Library:
        @staticmethod
        def mallopt(parameter: int, value: int) -> int:
            asked[parameter] = value
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    allocation.limit_arenas(state)
    assert asked == {-8: 1, -3: mapped, -1: trimmed}


@pytest.mark.parametrize(
    ("settings", "bytes_"),
    [
        (StateBackendSettings(type="hashmap", heap_state_bytes=64 * MIB), 64 * MIB),
        (StateBackendSettings(type="rocksdb", managed_memory_bytes=96 * MIB), 96 * MIB),
        (StateBackendSettings(type="rocksdb", fixed_memory_bytes=32 * MIB), 32 * MIB),
        (StateBackendSettings(type="rocksdb", managed_memory_bytes=None), 0),
        (
            StateBackendSettings(type="custom", managed_memory_bytes=128 * MIB, heap_state_bytes=64 * MIB),
            128 * MIB,
        ),
    ],
    ids=["the heap's", "managed", "fixed", "unmanaged", "of a backend of one's own"],
)
def test_the_memory_of_the_state_is_that_of_its_backend(settings: StateBackendSettings, bytes_: int) -> None:
    """Managed memory has a default with HashMap too, which says nothing of what it may take."""
    assert settings.state_bytes == bytes_


def test_a_library_without_these_settings_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Other())
    allocation.limit_arenas(256 * MIB)
