"""The conformance kit as a class of pytest tests, for authors of state backends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from sparkstate.backends.custom.factory import BackendContext, BackendFactory
from sparkstate.conformance import chapters
from sparkstate.conformance.kit import Kit


class BackendConformance:
    """Derive a class whose name begins with ``Test``, and name the backend: pytest then finds a test for each check.

    >>> from sparkstate.testing import BackendConformance
    >>> class TestMyBackend(BackendConformance):
    ...     backend = ...  # the class that stateBackend.class names

    A later version may have more checks.
    """

    backend: ClassVar[Any]
    """The class, which derives from ``sparkstate.backend_api.BackendFactory``."""
    options: ClassVar[Mapping[str, str]] = {}
    """As in ``stateBackend.options``."""
    memory_bytes: ClassVar[int | None] = 64 * 1024 * 1024
    """As ``managedMemoryPerSlot``, in bytes; None: not managed."""

    def make(self, directory: Path) -> BackendFactory:
        """The object of one slot. Override it for a backend that needs more than its context."""
        made: BackendFactory = self.backend(
            BackendContext(options=dict(self.options), directory=directory, memory_bytes=self.memory_bytes)
        )
        return made


def _test_of(check: chapters.Check) -> Callable[[BackendConformance, Path], None]:
    def test(self: BackendConformance, tmp_path: Path) -> None:
        problem = chapters.run(check, Kit(self.make, tmp_path))
        assert not problem, problem

    test.__doc__ = check.__doc__
    return test


for _name, _check in itertools.chain.from_iterable(chapter.checks.items() for chapter in chapters.CHAPTERS):
    setattr(BackendConformance, f"test_{_name}", _test_of(_check))
