"""A driver's half with a slot, whose checkpoints may fail; modules that need another one have their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slots.running import Running


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path, tolerable_failures=5)
    yield made
    made.close()
