"""Slips in a job's calls of our API while it declares itself: which errors are such, and the remedy to tell.

They are TypeErrors and AttributeErrors, like those of a job that has read an empty table (``first()["x"]``). Those may
pass by the next start, and these do not.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any, Final

from sparkstate import user_errors

_CALL: Final = re.compile(r"([\w.]+)\(\) (?:takes|missing|got) ")
"""The beginning of Python's words for arguments that do not fit."""
_KEYED_FIRST: Final = "key the output first: .keyed('column')"
_KEY_BY: Final = "write sparkstate.keyed(df, 'column'), or .keyed('column') for an operator's output"
_WATERMARK: Final = "write df.withWatermark('at', '10 seconds') before keyed(df, …)"
_IN_SINK: Final = "do that in .sink(function), which gets a DataFrame"
_SHOW: Final = "write .sink(lambda df, epoch: df.show())"
_SINK: Final = "write .sink(FileSink('/folder')), or .sink(function)"
_ELSEWHERE: Final = {
    "add_sink": _SINK,
    "assign_timestamps_and_watermarks": _WATERMARK,
    "filter": f"{_KEYED_FIRST}; or {_IN_SINK}",
    "flat_map": _KEYED_FIRST,
    "foreachBatch": "write .sink(function): it is called with (df, epoch)",
    "force_non_parallel": "write spec.slots: 1 into the manifest",
    "get_side_output": "write .side_output(tag)",
    "groupBy": _KEY_BY,
    "key_by": _KEY_BY,
    "map": _KEYED_FIRST,
    "name": "the uid= of process names the operator",
    "print": _SHOW,
    "process": _KEYED_FIRST,
    "set_max_parallelism": "write spec.maxParallelism into the manifest",
    "set_parallelism": "write spec.slots into the manifest",
    "show": _SHOW,
    "sink_to": _SINK,
    "uid": "write process(…, uid='…')",
    "union": "give keyed a list of DataFrames: sparkstate.keyed([one, other], 'column')",
    "window": _KEYED_FIRST,
    "withWatermark": _WATERMARK,
    "write": _SINK,
    "writeStream": _SINK,
}
"""Methods of PyFlink's streams, and of DataFrames, that have their place elsewhere."""
_OF_FRAMES: Final = frozenset(
    {
        "distinct",
        "drop",
        "dropDuplicates",
        "drop_duplicates",
        "limit",
        "orderBy",
        "select",
        "selectExpr",
        "sort",
        "where",
        "withColumn",
        "withColumnRenamed",
        "withColumns",
    }
)
"""Methods of DataFrames that a stream of ours does not need."""
_AGGREGATES: Final = frozenset({"avg", "count", "max", "mean", "min", "sum"})

_API: Final = (
    "sparkstate",
    "sparkstate.windows",
    "sparkstate.spark.stream",
    "sparkstate.spark.connected",
    "sparkstate.spark.windowed",
    "sparkstate.spark.interval_join",
    "sparkstate.state.ttl",
)
"""The modules that have what a job calls while it declares itself: all of ``__all__``, or else their classes."""


def remedy(error: TypeError | AttributeError) -> str | None:
    """The action that an error of the declaration asks for. None: it is none of our API's, and may pass."""
    if error.__traceback__ is not None and error.__traceback__.tb_next is None:
        return "its parameters have to be (spark, params)"
    if user_errors.is_raised_by_us(error):
        # A None may be the answer of an empty table.
        return None if "NoneType" in str(error) else "correct the call of sparkstate in that line"
    if isinstance(error, AttributeError):
        return _of_attribute(error.obj, error.name) if _is_ours(error.obj) else None
    called = _CALL.match(str(error))
    function = _function(called[1], _last_frame(error)) if called else None
    return _of_call(function, str(error)) if called and function else None


def _of_attribute(obj: Any, name: str | None) -> str:
    kind = obj.__name__ if isinstance(obj, ModuleType) else type(obj).__name__
    if kind == "WindowedStream" and name in _AGGREGATES:
        return f"write .agg(F.{name}('v'), uid='…'), with pyspark.sql.functions as F"
    if name in _OF_FRAMES:
        return _IN_SINK if kind == "ProcessedStream" else "do that to the DataFrame, before keyed(df, …)"
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    # Of a class, and not of the object: that has fields too, which are no part of the API.
    public = sorted(each for each in dir(obj if isinstance(obj, ModuleType) else type(obj)) if each[0] != "_")
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
    return _is_of_us(obj.__name__ if isinstance(obj, ModuleType) else type(obj).__module__)


def _is_of_us(module: Any) -> bool:
    return str(module).partition(".")[0] == "sparkstate"


def _last_frame(error: BaseException) -> FrameType | None:
    """The frame that made the call, if its arguments did not fit."""
    return next((frame for frame, _ in reversed([*traceback.walk_tb(error.__traceback__)])), None)


def _function(qualified: str, caller: FrameType | None) -> Callable[..., Any] | None:
    """Our function or method of that qualified name. None: there is none, or ``caller`` has one of its own."""
    head, *rest = qualified.split(".")
    names = {} if caller is None else {**caller.f_globals, **caller.f_locals}
    own = names.get(head)
    if callable(own) and not _is_of_us(getattr(own, "__module__", None)):
        return None
    found: Any = next((each for each in _public() if each.__name__ == head), None)
    found = functools.reduce(lambda owner, each: getattr(owner, each, None), rest, found)
    return found if inspect.isroutine(found) else None


def _public() -> Iterator[Any]:
    """The functions and classes of our API, and the classes that they have methods from."""
    for module in map(importlib.import_module, _API):
        classes = [
            name for name, each in vars(module).items() if inspect.isclass(each) and _is_in(module, each)
        ]
        for name in getattr(module, "__all__", classes):
            found = getattr(module, name)
            owners = inspect.getmro(found) if inspect.isclass(found) else (found,)
            yield from (each for each in owners if _is_of_us(each.__module__))


def _is_in(module: ModuleType, kind: type) -> bool:
    return kind.__module__ == module.__name__
