"""Checks of what every operator of a job is declared with."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sparkstate import errors
from sparkstate.functions import KeyedFunction
from sparkstate.operators import kinds
from sparkstate.sinks.file_sink import FileSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def check_uid(uid: str, call: str = "process") -> None:
    """Raise ``SpecInvalid`` for what cannot name an operator."""
    if not isinstance(uid, str) or not _UID.fullmatch(uid):
        raise errors.SpecInvalid(
            f"{call}(uid={uid!r}): use 1 to 63 letters, digits, '-', '_' and '.', starting and ending with a "
            "letter or digit"
        )


def check_function(function: object, uid: str, inputs: str, on_error: str = "fail") -> None:
    """Raise ``SpecInvalid`` unless ``function`` is an object of a kind that runs on such streams, and can do what its
    author means it to do."""
    if not kinds.knows(function, inputs):
        remedy = ""
        if isinstance(function, type):
            remedy = "; create an instance of the class"
        elif isinstance(function, KeyedFunction) and kinds.knows(function, function.inputs):
            remedy = f"; it runs on {function.inputs}"
        raise errors.SpecInvalid(
            f"process({function!r}) of {uid!r} is not a {kinds.named(inputs)} object{remedy}"
        )
    assert isinstance(function, KeyedFunction)
    kinds.check(function, uid, on_error)


def check_sink(sink: object) -> None:
    """Raise ``SpecInvalid`` unless ``sink`` is a sink of ours, or a function that can be called with a DataFrame
    and the number of an epoch."""
    if isinstance(sink, FileSink):
        return
    if not callable(sink):
        raise errors.SpecInvalid(f"sink({sink!r}): pass FileSink(…) or a function (df, epoch_id)")
    try:
        # Not of what a decorator wraps: that is called by the decorator, with other arguments perhaps.
        signature = inspect.signature(sink, follow_wrapped=False)
    except (TypeError, ValueError):  # of some callables written in C, nobody knows it
        return
    try:
        signature.bind(None, 0)
    except TypeError as error:
        raise errors.SpecInvalid(
            f"sink({sink!r}): it is called with (df, epoch_id), and has the parameters {signature}: {error}"
        ) from None


def check_columns(frames: Sequence[DataFrame], call: str) -> None:
    """Raise ``SpecInvalid`` unless the DataFrames of one input have the same columns, of the same types.

    Spark would widen columns of two types where it unites the rows, and so change the hashes of keys, while everything
    else goes by the types of the first DataFrame. Errors name the ``call``.
    """
    first = {field.name: field.dataType.simpleString() for field in frames[0].schema}
    for frame in frames[1:]:
        if sorted(frame.columns) != sorted(frames[0].columns):
            raise errors.SpecInvalid(
                f"the DataFrames of one {call}() differ in columns: {frames[0].columns} and {frame.columns}"
            )
        for field in frame.schema:
            _check_type(field.name, first[field.name], field.dataType.simpleString(), call)


def _check_type(column: str, one: str, other: str, call: str) -> None:
    if one != other:
        raise errors.SpecInvalid(
            f"column {column!r} is {one} in one DataFrame of {call}(), and {other} in another; cast one of them. In a "
            "job that has run so with an earlier sparkstate, cast to the wider type: it has the state of its keys"
        )


def names(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    """One name or several. Raises ``SpecInvalid``, beginning with ``what``, for anything else."""
    found = (given,) if isinstance(given, str) else given
    if not isinstance(found, Sequence) or not all(isinstance(name, str) for name in found):
        raise errors.SpecInvalid(f"{what} is {given!r}; give the name of a column, or a list of names")
    return tuple(found)


def rejects(uid: str, on_error: str) -> bool:
    """Whether rows that fail go to a side output. Raises ``SpecInvalid`` for a word that is neither."""
    if on_error not in ("fail", "side-output"):
        raise errors.SpecInvalid(f"process(on_error={on_error!r}) of {uid!r}: use 'fail' or 'side-output'")
    return on_error == "side-output"
