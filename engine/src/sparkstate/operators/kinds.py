"""Finds the kind of operator that a function or a spec asks for. A new kind has its own rooms, and its lines here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sparkstate.backends.base import ShardStore
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.clock import Clock
from sparkstate.functions import KeyedCoProcessFunction, KeyedFunction, KeyedProcessFunction
from sparkstate.keygroups import KeySpace
from sparkstate.operators import base
from sparkstate.operators.batches.keyed_batch_operator import KeyedBatchOperator
from sparkstate.operators.keyed.keyed_operator import KeyedOperator
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.spec import BatchOperatorSpec, JobFacts, KeyedSpec, OperatorSpec, TwoInputSpec
from sparkstate.operators.two_inputs.two_input_operator import TwoInputOperator

KINDS: Final[dict[type[Any], Callable[..., base.Operator[Any]]]] = {
    OperatorSpec: KeyedOperator,
    BatchOperatorSpec: KeyedBatchOperator,
    TwoInputSpec: TwoInputOperator,
}
"""By the class of the spec. Each is called with what ``make`` is given."""

SPECS: Final[dict[type[KeyedFunction], Callable[..., KeyedSpec]]] = {
    KeyedProcessFunction: OperatorSpec,
    KeyedBatchFunction: BatchOperatorSpec,
    KeyedCoProcessFunction: TwoInputSpec,
}
"""By the class of the function that a job's author extends."""


def make(
    spec: base.Spec,
    stores: Mapping[int, ShardStore],
    key_space: KeySpace,
    clock: Clock,
    subtask: int,
    parallelism: int,
    budget: EpochBudget | None = None,
    facts: JobFacts | None = None,
) -> base.Operator[Any]:
    """The operator of a spec, not opened yet, in slot ``subtask`` of ``parallelism``. ``budget`` bounds the memory of
    all overlays of the slot; None: they are not counted."""
    return KINDS[type(spec)](spec, stores, key_space, clock, subtask, parallelism, budget, facts)


def knows(function: object, inputs: int = 1) -> bool:
    """Whether ``function`` is of some kind with so many inputs. A class of functions is of none."""
    return any(isinstance(function, kind) for kind in _with(inputs))


def named(inputs: int = 1) -> str:
    """The kinds of functions with so many inputs, as an error tells them."""
    return " or ".join(kind.__name__ for kind in _with(inputs))


def _with(inputs: int) -> list[type[KeyedFunction]]:
    return [kind for kind in SPECS if kind.inputs == inputs]


def spec(function: KeyedFunction, **fields: Any) -> KeyedSpec:
    """The spec of the kind that a function asks for. ``fields`` are those of ``KeyedSpec``."""
    kind = next(kind for kind in type(function).__mro__ if kind in SPECS)
    return SPECS[kind](function=function, **fields)
