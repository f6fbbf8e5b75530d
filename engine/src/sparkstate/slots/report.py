"""A slot's report on itself: sizes, memory, and the metrics that its functions made."""

from __future__ import annotations

import logging
import os
import resource
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from sparkstate import clock
from sparkstate.backends.base import TIMER_KINDS, TableStats
from sparkstate.operators.base import Operator
from sparkstate.operators.state.operator_state_memory import OperatorStateSize
from sparkstate.slots import protocol
from sparkstate.slots.commit_gate import CommitGate
from sparkstate.slots.slot_state import SlotState

_log = logging.getLogger("sparkstate.slots")
_GATE_S: Final = 0.1
"""How long a question for sizes waits for a commit. One may take minutes;
the answer is also the sign that the slot lives."""


class Report:
    """Made for every question, beside whatever the slot is at."""

    def __init__(self, state: SlotState, gate: CommitGate, clock_: clock.Clock) -> None:
        self._state = state
        self._gate = gate
        self._clock = clock_
        self._sizes = (0, 0)
        """Bytes and rows of the state, as of the last time that no commit was at the stores."""
        self._operators: tuple[protocol.OperatorSize, ...] = ()
        """As of the same time."""
        self._warned = False

    def status(self) -> protocol.SlotStatus:
        """Sizes and memory now. While a commit is at the stores, their sizes are those of the last time."""
        state = self._state
        with self._gate.held_within(_GATE_S) as held:
            if held:
                stats = [store.stats() for store in list(state.stores.values())]
                self._sizes = sum(stat.bytes for stat in stats), sum(stat.rows for stat in stats)
                self._operators = operator_sizes(table for stat in stats for table in stat.tables)
                state.output.weigh()
        state_bytes, state_rows = self._sizes
        operators = dict(state.operators)
        self._warn_of_heap(state_bytes)
        sizes = state.operator_state_memory.sizes()
        return protocol.SlotStatus(
            slot=state.plan.slot,
            pid=os.getpid(),
            shards=tuple(state.stores),
            state_bytes=state_bytes,
            state_rows=state_rows,
            rss_bytes=_resident_bytes(),
            memory=_memory(state, sizes),
            metrics=_native_metrics(state),
            held_bytes=state.output.size_bytes,
            user_metrics=_user_metrics(operators, self._clock.monotonic()),
            user_metrics_not_shown=sum(operator.metrics.not_shown for operator in operators.values()),
            operators=self._operators,
            operator_states=tuple(protocol.OperatorStateSize(**asdict(size)) for size in sizes),
        )

    def _warn_of_heap(self, state_bytes: int) -> None:
        """Say once that state on the heap outgrows the memory that the job was given for it: its only bound
        is the process's."""
        plan, overlays = self._state.plan, self._state.budget.used_bytes()
        backend = plan.backend
        if backend.type != "hashmap" or self._warned or state_bytes + overlays <= backend.heap_state_bytes:
            return
        self._warned = True
        _log.warning(
            "slot %d holds %d bytes of state (encoded) and %d bytes of the running epochs on the heap; "
            "stateMemoryPerSlot is %d: raise it, add slots, or use the rocksdb backend, which keeps to its memory",
            plan.slot,
            state_bytes,
            overlays,
            backend.heap_state_bytes,
        )


def _memory(state: SlotState, sizes: Iterable[OperatorStateSize]) -> dict[str, int]:
    """Bytes by their use, and the bounds of them."""
    used = {"overlays": state.budget.used_bytes(), "operator_state": sum(size.size_bytes for size in sizes)}
    limit = state.operator_state_memory.limit_bytes
    bound = {} if limit is None else {"operator_state_limit": limit}
    return {**state.factory.memory(), **used, **bound}


def _native_metrics(state: SlotState) -> dict[str, float]:
    """The backend's figures. Those of a user's own are told apart by their names."""
    own = "backend." if state.plan.backend.type == "custom" else ""
    return {f"{own}{name}": value for name, value in state.factory.metrics().items()}


def operator_sizes(tables: Iterable[TableStats]) -> tuple[protocol.OperatorSize, ...]:
    """The sizes of tables, added up by operator."""
    rows, size, timers = Counter[str](), Counter[str](), Counter[str]()
    for spec, count, bytes_ in tables:
        size[spec.uid] += bytes_
        if spec.kind in TIMER_KINDS:
            timers[spec.uid] += count
        else:
            rows[spec.uid] += count
    return tuple(
        protocol.OperatorSize(operator=uid, state_rows=rows[uid], state_bytes=size[uid], timers=timers[uid])
        for uid in size
    )


def _user_metrics(operators: Mapping[str, Operator[Any]], now_s: float) -> tuple[protocol.UserMetric, ...]:
    """The functions' own metrics. ``now_s``: a clock that only goes forward."""
    return tuple(
        protocol.UserMetric(operator=uid, **asdict(reading))
        for uid, operator in operators.items()
        for reading in operator.metrics.read(now_s)
    )


def _resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
