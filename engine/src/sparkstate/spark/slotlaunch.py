"""Starting slots in Spark's executors, by tasks. Each ends with its executor's JVM."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparkstate import errors, keys, local_disk
from sparkstate.clock import Clock
from sparkstate.slots import places
from sparkstate.slots.client import SlotAddress, error_of
from sparkstate.slots.starting import Identity, Starting
from sparkstate.spark import java_errors

if TYPE_CHECKING:
    from pyspark import SparkContext

_ROUND_S = 0.5
_LOOK_S = 0.1
PATIENCE_S = 300.0
"""How long slots wait for executors: a new node may have to be started for them."""


@dataclass(frozen=True)
class NoPlace:
    """The task's executor already has as many slots as fit its memory."""

    slot: int
    host: str


@dataclass(frozen=True)
class NotStarted:
    """The slot could not be started, in words and as the name of our error. A task that fails instead would end the
    driver: Spark tries it again and again, and tells of it in a Java exception."""

    slot: int
    reason: str
    message: str


Answer = SlotAddress | NoPlace | NotStarted


@dataclass(frozen=True)
class StartSlot:
    """Runs in a Spark task: starts one slot in the executor.

    ``key``: the attempt's, for slots; empty: the pod has it. ``places``: how many slots fit an executor.
    """

    directory: str
    incarnation: int
    key: str = field(repr=False)
    python_path: tuple[str, ...]
    places: int

    def __call__(self, slots: Iterator[int]) -> Iterator[Answer]:
        for index in slots:
            yield self._answer(index)

    def _answer(self, index: int) -> Answer:
        what = f"slot {index} cannot be started on {socket.gethostname()}"
        try:
            with local_disk.needed_for(what, Path(self.directory)):
                return self._start(index)
        except errors.SparkstateError as error:
            return NotStarted(index, error.reason, str(error))

    def _start(self, index: int) -> SlotAddress | NoPlace:
        jvm, host = jvm_pid(), socket.gethostname()
        base = Path(self.directory) / f"executor-{jvm}"
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        places.clear_older(base, self.incarnation)
        if not places.take(base, self.incarnation, self.places, index):
            return NoPlace(index, host)
        identity = Identity(
            slot=index,
            incarnation=self.incarnation,
            key=keys.for_task(self.key),
            watched_pid=jvm,
            python_path=self.python_path,
            tcp_host=own_address(os.environ, host),
        )
        return Starting(base, index).become(identity)


def jvm_pid() -> int:
    """The executor's JVM: the nearest ancestor of this worker that is called java."""
    pid = os.getpid()
    while pid > 1:
        status = Path(f"/proc/{pid}/stat").read_text()
        name, rest = status[status.index("(") + 1 : status.rindex(")")], status[status.rindex(")") + 2 :]
        if name == "java":
            return pid
        pid = int(rest.split()[1])
    raise errors.SlotLost("no java process among the ancestors of this Spark worker")


def own_address(environ: Mapping[str, str], host: str) -> str:
    """Where other hosts reach this executor: the pod's address, or what Spark was told, or what the name means."""
    told = environ.get("SPARK_EXECUTOR_POD_IP") or environ.get("SPARK_LOCAL_IP")
    if told:
        return told.strip("[]")  # Spark writes IPv6 in brackets
    found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    by_family = {family: str(address[0]) for family, *_, address in found}
    return by_family.get(socket.AF_INET) or next(iter(by_family.values()))


def launch(
    context: SparkContext,
    slots: int,
    start: StartSlot,
    clock: Clock,
    executors: int = 0,
    patience_s: float = PATIENCE_S,
) -> tuple[SlotAddress, ...]:
    """Start ``slots`` slots, one Spark task each, and return their addresses in order.

    Waits for ``executors`` of them first: the first alone would be asked for all slots. Spark puts
    tasks wherever a core is free, so an executor may still be asked for more than fit it; those are asked for again
    until another executor takes them. After an executor was lost that lasts until Spark has replaced it. Raises
    ``SlotLost`` after ``patience_s``, or where Spark cannot run such a task, and the error of a slot that could not be
    started. Slots that were started beside it end when the next incarnation comes.
    """
    placed: dict[int, SlotAddress] = {}
    deadline = clock.monotonic() + patience_s
    while (known := _executors(context)) is not None and len(known) < executors:
        if clock.monotonic() > deadline:
            raise _nowhere(list(range(slots)), patience_s)
        clock.sleep(_LOOK_S)
    while missing := [slot for slot in range(slots) if slot not in placed]:
        if clock.monotonic() > deadline:
            raise _nowhere(missing, patience_s)
        for answer in _round(context, missing, start, deadline - clock.monotonic(), patience_s):
            if isinstance(answer, SlotAddress):
                placed[answer.slot] = answer
            elif isinstance(answer, NotStarted):
                raise error_of(answer.reason, answer.message)
        if len(placed) < slots:
            clock.sleep(_ROUND_S)
    return tuple(placed[slot] for slot in range(slots))


def at_home(addresses: Sequence[SlotAddress], before: Sequence[SlotAddress]) -> tuple[SlotAddress, ...]:
    """The same processes, in order; in an executor that is still there, as the slots that it had ``before``: their
    state lies on its disk (Flink prefers a task's former slot for this). They have not been told what they are yet."""
    free, placed = list(addresses), dict[int, SlotAddress]()
    for former in before:
        here = next((one for one in free if one.executor and one.executor == former.executor), None)
        if here is not None and former.slot < len(addresses):
            free.remove(here)
            placed[former.slot] = here
    found = (placed.get(slot) or free.pop(0) for slot in range(len(addresses)))
    return tuple(replace(one, slot=slot) for slot, one in enumerate(found))


def without_executor(context: SparkContext, addresses: Sequence[SlotAddress]) -> tuple[SlotAddress, ...]:
    """Those of these slots whose executor Spark has lost; none where Spark cannot tell.

    Spark is told by Kubernetes. A connection to a pod that is gone may stay open for ever, because nobody is left who
    could close it.
    """
    living = _executors(context) if any(address.executor for address in addresses) else None
    if living is None:
        return ()
    return tuple(one for one in addresses if one.executor and one.executor not in living)


def _executors(context: SparkContext) -> set[str] | None:
    """The ids of those that have registered; None if the JVM ends: callers that wait for it hear of that anyway."""
    try:
        return set(filter(None, str(context._jsc.sc().getExecutorIds().mkString(",")).split(",")))
    except Exception:
        return None


def _round(
    context: SparkContext, missing: list[int], start: StartSlot, seconds: float, patience_s: float
) -> list[Answer]:
    """One try. Without any executor Spark would wait for ever, so the job is cancelled when the time is over."""
    over = threading.Event()

    def cancel() -> None:
        over.set()
        context.cancelAllJobs()

    timer = threading.Timer(seconds, cancel)
    timer.daemon = True
    timer.start()
    try:
        answers: list[Answer] = context.parallelize(missing, len(missing)).mapPartitions(start).collect()
        return answers
    except Exception as error:
        if over.is_set():
            raise _nowhere(missing, patience_s) from error
        raise errors.SlotLost(
            f"Spark could not run the task that starts slot(s) {_listed(missing)}: {java_errors.told(error)}"
        ) from error
    finally:
        timer.cancel()


def _nowhere(missing: list[int], patience_s: float) -> errors.SlotLost:
    return errors.SlotLost(
        f"no executor had room for slot(s) {_listed(missing)} within {patience_s:g} s; look at the "
        "executor pods: kubectl get pods -l spark-role=executor"
    )


def _listed(slots: list[int]) -> str:
    return ", ".join(map(str, slots))
