"""Finds the kind of operator that a function or a spec asks for. A new kind has its own rooms, and its lines here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from sparkstate import errors
from sparkstate.backends.base import ShardStore
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.clock import Clock
from sparkstate.connected_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from sparkstate.functions import KeyedFunction, KeyedProcessFunction
from sparkstate.keygroups import KeySpace
from sparkstate.operators import base
from sparkstate.operators.batches.keyed_batch_operator import KeyedBatchOperator
from sparkstate.operators.keyed.keyed_operator import KeyedOperator
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.spec import (
    BatchOperatorSpec,
    BroadcastSpec,
    JobFacts,
    KeyedSpec,
    OperatorSpec,
    Restored,
    TwoInputSpec,
    UnkeyedBroadcastSpec,
)
from sparkstate.operators.state.operator_state_memory import OperatorStateMemory
from sparkstate.operators.two_inputs.broadcast_operator import BroadcastOperator
from sparkstate.operators.two_inputs.two_input_operator import TwoInputOperator
from sparkstate.operators.two_inputs.unkeyed_broadcast_operator import UnkeyedBroadcastOperator

KINDS: Final[dict[type[Any], Callable[..., base.Operator[Any]]]] = {
    OperatorSpec: KeyedOperator,
    BatchOperatorSpec: KeyedBatchOperator,
    TwoInputSpec: TwoInputOperator,
    BroadcastSpec: BroadcastOperator,
    UnkeyedBroadcastSpec: UnkeyedBroadcastOperator,
}
"""By the class of the spec. Each is called with what ``make`` is given."""

SPECS: Final[dict[type[KeyedFunction], Callable[..., KeyedSpec]]] = {
    KeyedProcessFunction: OperatorSpec,
    KeyedBatchFunction: BatchOperatorSpec,
    KeyedCoProcessFunction: TwoInputSpec,
    KeyedBroadcastProcessFunction: BroadcastSpec,
    BroadcastProcessFunction: UnkeyedBroadcastSpec,
}
"""By the class of the function that a job's author extends."""


_SILENT: Final = (
    "open",
    "initialize_state",
    "snapshot_state",
    "notify_checkpoint_complete",
    "notify_checkpoint_aborted",
    "close",
)
"""The methods of functions that put nothing out."""
_VARIABLES: Final = (
    "a CheckpointedFunction has variables of its own, which cannot be undone with the record; catch the error in the "
    "function, and yield what it rejects to a side output of its own"
)


def make(
    spec: base.Spec,
    stores: Mapping[int, ShardStore],
    key_space: KeySpace,
    clock: Clock,
    subtask: int,
    parallelism: int,
    budget: EpochBudget | None = None,
    facts: JobFacts | None = None,
    restored: Restored | None = None,
    operator_state_memory: OperatorStateMemory | None = None,
) -> base.Operator[Any]:
    """The operator of a spec, not opened yet, in slot ``subtask`` of ``parallelism``. ``budget`` bounds the memory of
    all overlays of the slot; None: they are not counted. ``restored``: None where the job's state begins empty.
    ``operator_state_memory`` bounds the operator state of the slot; None: nothing does."""
    kind = KINDS[type(spec)]
    return kind(
        spec, stores, key_space, clock, subtask, parallelism, budget, facts, restored, operator_state_memory
    )


def knows(function: object, inputs: str = KeyedFunction.inputs) -> bool:
    """Whether ``function`` is of some kind that runs on such streams. A class of functions is of none."""
    return any(isinstance(function, kind) for kind in _on(inputs))


def named(inputs: str = KeyedFunction.inputs) -> str:
    """The kinds of functions that run on such streams, as an error tells them."""
    return " or ".join(kind.__name__ for kind in _on(inputs))


def _on(inputs: str) -> list[type[KeyedFunction]]:
    return [kind for kind in SPECS if kind.inputs == inputs]


def check(function: KeyedFunction, uid: str, on_error: str) -> None:
    """Raises ``SpecInvalid`` for a function that could not do what its author means."""
    given = function.author_object
    undo_refusal = _VARIABLES if isinstance(given, CheckpointedFunction) else function.undo_refusal
    if on_error == "side-output" and undo_refusal:
        raise errors.SpecInvalid(f"process(on_error='side-output') of {uid!r}: {undo_refusal}")
    remedy = "yield the last rows in finish()" if given is function else "let it return"
    for name in _SILENT:
        if inspect.isgeneratorfunction(getattr(given, name, None)):
            raise errors.SpecInvalid(
                f"process({type(given).__name__}) of {uid!r}: {name}() yields, and nothing takes what it yields, so "
                f"its code would never run; {remedy}"
            )


def spec(function: KeyedFunction, **fields: Any) -> KeyedSpec:
    """The spec of the kind that a function asks for. ``fields`` are those of ``KeyedSpec``."""
    check(function, fields["uid"], fields.get("on_error", "fail"))
    kind = next(kind for kind in type(function).__mro__ if kind in SPECS)
    return SPECS[kind](function=function, **fields)
