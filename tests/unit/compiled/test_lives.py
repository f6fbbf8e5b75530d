"""Random lives through the compiled record path and the Python path: outputs, states, errors and stored bytes agree."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.operators import compiled_lives as lives
from support.operators import every_answer, timer_chunks

from sparkstate.serde.types import Types

pytest.importorskip("sparkstate_compiled.records", reason="sparkstate-compiled is not built: `make compiled`")

KEYS = {"numbers": (Types.LONG(), every_answer.LONGS), "text": (Types.STRING(), every_answer.TEXTS)}
seeds = st.integers(0, 2**32)
quick = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate], max_examples=4)
"""Nothing is made smaller: a life is a seed."""


@contextmanager
def two_sides(
    backend: str, key_type: Any, limit: int | None = None
) -> Iterator[tuple[lives.Side, lives.Side]]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        timer_chunks.patch_records(patch, 4)
        sides = [
            lives.Side(Path(folder) / str(is_compiled), backend, key_type, is_compiled, limit)
            for is_compiled in (True, False)
        ]
        yield sides[0], sides[1]
        for side in sides:
            side.close()


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize(("backend", "limit"), [("hashmap", None), ("rocksdb", None), ("rocksdb", 20_000)])
@quick
@given(seeds)
def test_nobody_can_tell_which_path_ran(backend: str, limit: int | None, keys: str, seed: int) -> None:
    key_type, known = KEYS[keys]
    with two_sides(backend, key_type, limit) as sides:
        lives.run_both(sides, lives.epochs(random.Random(seed), 3, known), known)
        one, other = (side.savepoint() for side in sides)
        assert one == other
        # The state of each is taken up by the other path.
        for side, is_compiled in zip(sides, (False, True), strict=True):
            side.operator.close()
            side.open(is_compiled)
        lives.run_both(sides, lives.epochs(random.Random(seed + 1), 2, known), known)
        one, other = (side.savepoint() for side in sides)
        assert one == other


@pytest.mark.parametrize("broken", range(len(every_answer.BROKEN)))
def test_errors_are_the_same(broken: int) -> None:
    chosen = random.Random(broken)
    for key_type, known in KEYS.values():
        with two_sides("hashmap", key_type) as sides:
            life = lives.epochs(chosen, 2, known, broken)
            lives.run_both(sides, life, known)
            # The slot gives up the epoch, and does it again without the row.
            retried = lives.epochs(chosen, 1, known)
            lives.run_both(sides, retried, known)
