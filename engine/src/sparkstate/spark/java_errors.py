"""The words of an error that Java raised."""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JJavaError

_DEEPEST: Final = 50
"""Causes that are followed: an exception can be its own cause's cause."""


def told(error: BaseException) -> str:
    """The text of ``error``. One of Java's begins with py4j's words about the call, which tell nobody anything: its
    innermost cause stands before them. A JVM that no longer answers leaves py4j's words alone."""
    if not isinstance(error, Py4JJavaError):
        return str(error)
    try:
        cause = innermost(error.java_exception)
        return f"{cause}\n{error}" if cause else str(error)
    except Exception:  # py4j asks Java for each word, and there are many ways in which nobody answers
        return str(error.errmsg).strip()


def innermost(exception: Any) -> str:
    """The message of the innermost cause that has one; empty if none has."""
    found = ""
    for _ in range(_DEEPEST):
        if exception is None:
            break
        found = str(exception.getMessage() or "").strip() or found
        exception = exception.getCause()
    return found
