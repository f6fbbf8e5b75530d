"""Slips in a job's calls of our API while it declares itself: which errors are such, and the remedy to tell.

They are TypeErrors and AttributeErrors, like those of a job that has read an empty table (``first()["x"]``). Those may
pass by the next start, and these do not.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from sparkstate import user_errors

_CALL: Final = re.compile(r"([\w.]+)\(\) (?:takes|missing|got) ")
"""The beginning of Python's words for arguments that do not fit."""
_KEYED_FIRST: Final = "key the output first: .keyed('column')"
_ELSEWHERE: Final = {
    "add_sink": "write .sink(FileSink('/folder')), or .sink(function)",
    "assign_timestamps_and_watermarks": "write df.withWatermark('at', '10 seconds') before keyed(df, …)",
    "filter": _KEYED_FIRST,
    "flat_map": _KEYED_FIRST,
    "force_non_parallel": "write spec.slots: 1 into the manifest",
    "get_side_output": "write .side_output(tag)",
    "key_by": "write sparkstate.keyed(df, 'column'), or .keyed('column') for an operator's output",
    "map": _KEYED_FIRST,
    "name": "the uid= of process names the operator",
    "print": "write .sink(lambda df, epoch: df.show())",
    "process": _KEYED_FIRST,
    "set_max_parallelism": "write spec.maxParallelism into the manifest",
    "set_parallelism": "write spec.slots into the manifest",
    "sink_to": "write .sink(FileSink('/folder')), or .sink(function)",
    "uid": "write process(…, uid='…')",
    "union": "give keyed a list of DataFrames: sparkstate.keyed([one, other], 'column')",
    "window": _KEYED_FIRST,
    "write": "write .sink(FileSink('/folder')), or .sink(function)",
    "writeStream": "write .sink(FileSink('/folder')), or .sink(function)",
}
"""Methods of PyFlink's streams, and of DataFrames, that have their place elsewhere."""


def remedy(error: TypeError | AttributeError) -> str | None:
    """The action that an error of the declaration asks for. None: it is none of our API's, and may pass."""
    if error.__traceback__ is not None and error.__traceback__.tb_next is None:
        return "its parameters have to be (spark, params)"
    if user_errors.is_raised_by_us(error):
        return "correct the call of sparkstate in that line"
    if isinstance(error, AttributeError):
        return _of_attribute(error.obj, error.name) if _is_ours(error.obj) else None
    called = _CALL.match(str(error))
    function = _function(called[1]) if called else None
    return _of_call(function, str(error)) if called and function else None


def _of_attribute(obj: Any, name: str | None) -> str:
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    kind = obj.__name__ if isinstance(obj, ModuleType) else type(obj).__name__
    public = sorted(each for each in dir(obj) if not each.startswith("_"))
    return f"{kind} has {', '.join(public)}"


def _of_call(function: Callable[..., Any], told: str) -> str:
    """The form of the call, and the remedies of the first mistakes of a first job."""
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(function).parameters.values()
        if each.name != "self"
    ]
    form = f"call it as {name}{inspect.Signature(parameters)}"
    if name == "keyed" and "takes" in told:
        return f"give several key columns as a list, keyed(df, ['a', 'b']); {form}"
    if "missing" in told and "'uid'" in told:
        return f"uid='…' names the operator, and a restarted job finds its state by it; {form}"
    return form


def _is_ours(obj: Any) -> bool:
    home = obj.__name__ if isinstance(obj, ModuleType) else type(obj).__module__
    return home.partition(".")[0] == "sparkstate"


def _function(qualified: str) -> Callable[..., Any] | None:
    """Our function or method of that qualified name; None: there is none."""
    head, *rest = qualified.split(".")
    for name, module in [*sys.modules.items()]:
        if not name.startswith("sparkstate.") or name.startswith("sparkstate.testing"):
            continue  # the harness has other functions of the same names
        found = vars(module).get(head)
        if getattr(found, "__module__", None) != name:
            continue
        found = functools.reduce(lambda owner, each: getattr(owner, each, None), rest, found)
        if inspect.isroutine(found):
            routine: Callable[..., Any] = found
            return routine
    return None
