"""The job of ``expiring.py`` whose slot kills itself once: in the middle of a sweep, or while a state takes up another
time-to-live (``params["moment"]``). ``params["died"]`` is the file that says it has."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

import expiring
import totals

import sparkstate
from sparkstate.backends.hashmap.store import HashMapShardStore
from sparkstate.backends.rocksdb.store import RocksDBShardStore

CALLS = 4
"""Of the moment's method for one state, one call per shard: before and after the death, some shards are done."""


class Death:
    """The end of the slot's process at the moment that the job names."""

    def __init__(self, params: dict[str, str]) -> None:
        self.moment, self.file = params["moment"], params["died"]

    def lies_in_wait(self) -> None:
        """From now on, stores of this process carry it out."""
        method, state = {"sweeping": ("expire", "total"), "adopting": ("adopt", "rows")}[self.moment]
        for kind in (HashMapShardStore, RocksDBShardStore):
            setattr(kind, method, self._deadly(getattr(kind, method), state))

    def _deadly(self, method: Callable[..., Any], state: str) -> Callable[..., Any]:
        calls = 0

        def deadly(store: Any, spec: Any, *arguments: Any) -> Any:
            nonlocal calls
            done = method(store, spec, *arguments)
            # A sweep counts from the first one on that has removed something.
            if spec.name == state and (self.moment == "adopting" or done or calls):
                calls += 1
            if calls == CALLS:
                self._die()
            return done

        return deadly

    def _die(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)


class DyingSweeps(expiring.Expiring):
    """The same, with a death."""

    def __init__(self, death: Death, ttl_ms: int, rows_expire: bool) -> None:
        super().__init__(ttl_ms, rows_expire)
        self._death = death

    def open(self, ctx: Any) -> None:
        self._death.lies_in_wait()
        super().open(ctx)


def job(spark: Any, params: dict[str, str]) -> None:
    rows = totals.source(spark, params)
    sparkstate.keyed(rows, "k", event_time="at", delay=0).process(
        DyingSweeps(Death(params), int(params["ttl"]), "rows_expire" in params),
        uid="expiring",
        output_schema=expiring.SCHEMA,
    ).sink(sparkstate.FileSink(f"{params['output']}/expiring"))
