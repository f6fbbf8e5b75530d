"""The DataFrames that read an epoch's output back from the slots: for sinks of the user's, and for the next operator.

A frame does not depend on the epoch's rows, so it is made while Spark still feeds them. Otherwise a small epoch would
wait for Spark's analysis between its commit and its sink.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import threading

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from sparkstate import columns
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots.group import SlotGroup
from sparkstate.spark import arrow_functions, batch_weighing, feed, graph, plans

_Reader = tuple[str, str | None, bool]
"""An operator, one of its outputs, and whether the hidden timestamps are read with it."""


class OutputFrames:
    """Makes the frames of one incarnation. :meth:`prepare` and :meth:`take` may run in different threads."""

    def __init__(self, session: SparkSession, declared: graph.Graph, group: SlotGroup) -> None:
        self._session = session
        self._session_of_operators = batch_weighing.session_of_outputs(session, declared)
        self._graph = declared
        self._group = group
        self._readers = _readers(declared)
        self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="output-frames")
        self._prepared: dict[tuple[int, _Reader], concurrent.futures.Future[DataFrame]] = {}
        self._functions: dict[tuple[str, str | None], arrow_functions.ArrowFunctions] = {}
        self._lock = threading.Lock()
        """Held for the dicts: the next epoch begins beside the end of the one before."""

    def prepare(self, epoch: int) -> None:
        """Begin to make every frame that the epoch may need. An error is left to :meth:`take`."""
        for reader in self._readers:
            with self._lock, contextlib.suppress(RuntimeError):  # closed meanwhile: nobody reads any more
                self._prepared[epoch, reader] = self._pool.submit(self._make, epoch, *reader)

    def take(self, epoch: int, uid: str, tag: str | None, *, with_timestamps: bool = False) -> DataFrame:
        """The frame of one output. It can be read until the epoch is released."""
        with self._lock:
            prepared = self._prepared.pop((epoch, (uid, tag, with_timestamps)), None)
        return self._make(epoch, uid, tag, with_timestamps) if prepared is None else prepared.result()

    def forget(self, epoch: int) -> None:
        """The epoch is released, or given up: what was prepared for it and not taken is dropped."""
        with self._lock:
            for key in [key for key in self._prepared if key[0] <= epoch]:
                self._prepared.pop(key).cancel()

    def close(self) -> None:
        """Make no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _make(self, epoch: int, uid: str, tag: str | None, with_timestamps: bool) -> DataFrame:
        struct = plans.output_type(self._graph, uid, tag)
        stamped = self._graph.feeds_an_operator(uid, tag)
        functions = self._functions_of(uid, tag, plans.with_timestamp(struct) if stamped else struct)
        task = feed.OutputTask(
            self._group.addresses, self._group.key_of_tasks, self._group.incarnation, epoch, uid, tag
        )
        frame = functions.apply(task.__call__, self._slots_of_operators if with_timestamps else self._slots)
        if with_timestamps or not stamped:
            return frame
        return frame.select(*[columns.quoted(name) for name in struct.names])

    @functools.cached_property
    def _slots(self) -> DataFrame:
        """Their numbers, with a task for each."""
        return self._range(self._session)

    @functools.cached_property
    def _slots_of_operators(self) -> DataFrame:
        """The same in the session in which operators read."""
        return self._range(self._session_of_operators)

    def _range(self, session: SparkSession) -> DataFrame:
        slots = len(self._group)
        return session.range(0, slots, 1, slots)

    def _functions_of(
        self, uid: str, tag: str | None, schema: T.StructType
    ) -> arrow_functions.ArrowFunctions:
        with self._lock:
            made = self._functions.get((uid, tag))
        if made is None:
            name = f"output of {uid}" if tag is None else f"output {tag} of {uid}"
            made = arrow_functions.ArrowFunctions(self._session, name, self._slots.columns, schema)
            with self._lock:
                self._functions[uid, tag] = made
        return made


def _readers(declared: graph.Graph) -> tuple[_Reader, ...]:
    sinks = {(n.operator, n.tag, False) for n in declared.sinks if not isinstance(n.sink, FileSink)}
    inputs = [each.upstream for operator in declared.operators.values() for each in operator.inputs]
    operators = {(*upstream, True) for upstream in inputs if upstream is not None}
    return tuple(sinks | operators)
