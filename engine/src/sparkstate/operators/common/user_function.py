"""The first and the last call of a user's function, and how its errors and rows are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from sparkstate import errors, user_errors

_SHOWN_CHARACTERS: Final = 500
RAISED: Final = (Exception, SystemExit)
"""Whatever ends a call of the user's code. ``sys.exit()`` is an error there like any other: a thread that it ends says
nothing, and whoever waited for the answer took the slot for lost."""
C_contra = TypeVar("C_contra", contravariant=True)
T = TypeVar("T")


class UserFunction(Protocol[C_contra]):
    """The methods that every kind of function has; ``open`` is given the context of its kind."""

    def open(self, ctx: C_contra) -> None:
        """Declare the state."""

    def close(self) -> None:
        """Let go of everything."""


def open_with(function: UserFunction[C_contra], context: C_contra, uid: str) -> None:
    """Open the function, which declares its state."""
    declaring(uid, "open()", lambda: function.open(context))


def declaring(uid: str, step: str, call: Callable[[], T]) -> T:
    """Make a call that declares state. Its errors name operator and step."""
    try:
        return call()
    except errors.StateMigrationError:
        raise
    except errors.StateError as error:  # whatever the call declares, it declares again after a restart
        raise errors.DeclarationError(f"{error}{user_errors.line_of(error)}") from error
    except errors.SparkstateError:
        raise
    except RAISED as error:
        raise errors.UserCodeError(
            f"operator {uid!r}: {step} raised {user_errors.describe(error)}"
        ) from error


def calling(uid: str, step: str, call: Callable[[], T]) -> T:
    """Make a call outside rows and timers. Errors of the user's code name operator and step."""
    try:
        return call()
    except RAISED as error:
        if isinstance(error, errors.SparkstateError) and not isinstance(error, errors.StateError):
            raise
        raise errors.UserCodeError(
            f"operator {uid!r}: {step} raised {user_errors.describe(error)}"
        ) from error


def close(function: UserFunction[Any], uid: str) -> None:
    """Close the function, which no longer has a key."""
    try:
        function.close()
    except RAISED as error:
        raise errors.UserCodeError(
            f"operator {uid!r}: close() raised {user_errors.describe(error)}"
        ) from error


def shorten(row: Any) -> str:
    """A row as an error shows it."""
    shown = repr(row)
    return shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "…"
