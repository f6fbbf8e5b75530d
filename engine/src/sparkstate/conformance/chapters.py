"""The chapters of the kit, and how they are run.

A new chapter is a module of functions ``check_…(kit)``, each of which raises ``AssertionError`` with what it expected
and what it found, and a line in ``CHAPTERS``. The first line of a check's docstring is its promise, in a sentence that
an author of a backend understands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from sparkstate.conformance import (
    dropping_checks,
    evolution_checks,
    expiring_checks,
    namespace_checks,
    random_checks,
    scan_checks,
    sharing_checks,
    store_checks,
    thread_checks,
)
from sparkstate.conformance.kit import Kit, MakeFactory

Check: TypeAlias = Callable[[Kit], None]
_PREFIX: Final = "check_"


@dataclass(frozen=True)
class Chapter:
    """Checks on one subject, by name, in the order in which they are run."""

    name: str
    checks: Mapping[str, Check]


def _chapter(name: str, module: ModuleType) -> Chapter:
    found = {
        attribute.removeprefix(_PREFIX): check
        for attribute, check in vars(module).items()
        if attribute.startswith(_PREFIX) and getattr(check, "__module__", None) == module.__name__
    }
    return Chapter(name, found)


CHAPTERS: Final = (
    _chapter("state", store_checks),
    _chapter("namespaces", namespace_checks),
    _chapter("evolution", evolution_checks),
    _chapter("keys", scan_checks),
    _chapter("time-to-live", expiring_checks),
    _chapter("dropping", dropping_checks),
    _chapter("sharing", sharing_checks),
    _chapter("threads", thread_checks),
    _chapter("random", random_checks),
)

CHECKS: Final[Mapping[str, Check]] = {
    name: check for chapter in CHAPTERS for name, check in chapter.checks.items()
}
"""All checks, by name."""


@dataclass(frozen=True)
class Failure:
    """The first check that a backend did not pass."""

    chapter: str
    check: str
    problem: str

    def __str__(self) -> str:
        return f"{self.check} (chapter {self.chapter}): {self.problem}"


def first_failure(
    make_factory: MakeFactory,
    directory: Path,
    begun: Callable[[str], object] = lambda name: None,
) -> Failure | None:
    """Run every check against stores of the factories that ``make_factory`` makes, until one fails; None if none does.

    ``directory`` is empty. ``begun`` is told the name of each check.
    """
    for chapter in CHAPTERS:
        for name, check in chapter.checks.items():
            begun(name)
            problem = run(check, Kit(make_factory, directory / name))
            if problem:
                return Failure(chapter.name, name, problem)
    return None


def run(check: Check, kit: Kit) -> str:
    """Run one check, and close the kit: what it found wrong, or nothing."""
    problem = _tried(lambda: check(kit))
    return problem or _tried(kit.close, "closing the stores ")


def _tried(work: Callable[[], object], what: str = "it ") -> str:
    try:
        work()
    except AssertionError as error:
        return str(error) or "an assertion failed"
    except Exception as error:
        return f"{what}raised {type(error).__name__}: {error}"
    return ""


def check_shard_store(make_factory: MakeFactory, directory: Path) -> None:
    """Run every check against stores of the factories that ``make_factory`` makes; ``directory`` is empty.

    Raises ``AssertionError`` with the first check that fails.
    """
    failure = first_failure(make_factory, directory)
    if failure is not None:
        raise AssertionError(str(failure))
