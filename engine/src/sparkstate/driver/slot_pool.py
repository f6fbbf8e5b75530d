"""The slots of one incarnation, as the driver starts, fills, asks and stops them."""

from __future__ import annotations

import contextlib
import json
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
from pydantic import JsonValue

from sparkstate import errors
from sparkstate.checkpoint import restore
from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.control.documents import LongWorkKind
from sparkstate.driver import restoring
from sparkstate.driver.long_work import Rescale
from sparkstate.driver.parts import Parts
from sparkstate.keygroups import KeySpace
from sparkstate.local_state import folders, inheritance
from sparkstate.operators.state import asked_keys, inspection
from sparkstate.settings import MIB
from sparkstate.slots import places, protocol
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.group import SlotGroup
from sparkstate.slots.plan import SlotPlan
from sparkstate.slots.restoring import shards_needed
from sparkstate.spark import graph, planning, plans, slotlaunch

_LOOK_S = 1.0
_PROGRESS_LOOK_S = 0.5
_STOP_LOOK_S = 0.2
_STOP_TIMEOUT_S = 10.0
_STOP_ANSWER_S = 5.0
"""A slot on a host that vanished does not answer, and nobody waits longer for it."""


class SlotPool:
    """Slots that were started and configured. ``group`` speaks to all of them."""

    def __init__(self, parts: Parts, number: int, key_space: KeySpace, group: SlotGroup) -> None:
        self._parts = parts
        self._number = number
        self._key_space = key_space
        self.group = group

    @classmethod
    def start(
        cls, parts: Parts, number: int, key_space: KeySpace, before: tuple[SlotAddress, ...] = ()
    ) -> SlotPool:
        """Start one process per slot, here or by tasks in Spark's executors, and tell each what it is. If that fails,
        none is left.

        ``before``: where this driver's slots have been, and their state is.
        """
        here, key = parts.context.slots_here, parts.context.keys.slots
        if here is not None:
            addresses = here.start(number, key, parts.prepared.python_path)
        else:
            addresses = slotlaunch.at_home(cls._start_in_executors(parts, number), before)
        group = SlotGroup(addresses, key, number, socket.gethostname(), _for_tasks(parts))
        slot_pool = cls(parts, number, key_space, group)
        try:
            group.each(lambda slot: protocol.Configure(plan=pickled(slot_pool._plan(slot))), protocol.Ok)
        except BaseException:
            slot_pool.stop()
            raise
        return slot_pool

    @staticmethod
    def _start_in_executors(parts: Parts, number: int) -> tuple[SlotAddress, ...]:
        context, settings = parts.context, parts.context.settings
        start = slotlaunch.StartSlot(
            str(context.work_dir / folders.SLOTS),
            number,
            _for_tasks(parts),
            parts.prepared.python_path,
            places=settings.slots_per_executor,
        )
        return slotlaunch.launch(
            parts.prepared.session.sparkContext, settings.slots, start, context.clock, settings.executors
        )

    def _plan(self, slot: int) -> SlotPlan:
        settings, job_storage = self._parts.context.settings, self._parts.job_storage
        declared = self._parts.prepared.declared
        return SlotPlan(
            slot=slot,
            slots=settings.slots,
            incarnation=self._number,
            lineage=job_storage.lineage.id,
            key_space=self._key_space,
            operators=planning.operator_specs(declared),
            sinks=planning.sink_plans(declared),
            backend=settings.backend,
            storage_url=job_storage.root.url,
            s3=settings.s3,
            inline_threshold_bytes=settings.checkpoint.inline_threshold_bytes,
            write_buffer_bytes=settings.checkpoint.write_buffer_bytes,
            max_state_bytes=settings.checkpoint.max_state_bytes,
            parameters=settings.entry.params,
        )

    def restore(self, restored: RestoredSnapshot) -> str:
        """Fill every slot with its shards, or let it begin empty; then its operators are open. Says what was read."""
        metadata, store = restored.metadata, restored.store
        if metadata is None or store is None:
            self.group.each(lambda _: protocol.RestoreShards(), protocol.Restored)
            return "it begins empty"
        own = restored.same_lineage and metadata.kind == "checkpoint"
        before_end = metadata.watermark_before_end
        size = sum(file.size for shard in metadata.shards for file in shard.files)
        dropped = restoring.gone_operators(restored, self._parts.prepared.declared)
        rescale = None if metadata.slots == len(self.group) else (metadata.slots, len(self.group))
        with restore.blocked_by_damage(restored.plan), self._restore_shown(size, rescale):
            told = self.group.each(
                lambda slot: protocol.RestoreShards(
                    shards=shards_needed(self._key_space, slot, len(self.group), metadata.shards),
                    base_url=store.url,
                    checkpoint_id=metadata.checkpoint_id if own else -1,
                    operator_state=metadata.operator_state,
                    restored_id=metadata.checkpoint_id,
                    watermark=metadata.watermark if before_end is None else before_end,
                    dropped=dropped,
                ),
                protocol.Restored,
            )
        read, found = sum(each.bytes_read for each in told), sum(each.bytes_found for each in told)
        let_go = f"; that of {', '.join(dropped)} is dropped" if dropped else ""
        return f"{read / MIB:,.1f} MiB, {found / MIB:,.1f} MiB of them from this disk{let_go}"

    @contextlib.contextmanager
    def _restore_shown(self, size_bytes: int, rescale: Rescale | None = None) -> Iterator[None]:
        """Meanwhile the view knows how far the slots are."""
        work, over = self._parts.context.view.long_work, threading.Event()
        work.note(LongWorkKind.RESTORE, 0, size_bytes, rescale=rescale)

        def look() -> None:
            try:
                while not over.wait(_PROGRESS_LOOK_S):
                    with contextlib.suppress(errors.SparkstateError):  # who restores sees what is lost
                        told = self.group.ask(lambda _: protocol.RestorePoll(), protocol.Transferred, _LOOK_S)
                        done, total = sum(t.done_bytes for t in told), sum(t.total_bytes for t in told)
                        work.note(LongWorkKind.RESTORE, done, total)
            finally:
                work.end(LongWorkKind.RESTORE)

        threading.Thread(target=look, name="restore-progress", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def watch_executors(self, over: threading.Event, lost: Callable[[errors.SlotLost], None]) -> None:
        """Until ``over``: when Spark has lost a slot's executor, say so to ``lost``, and let all calls under way fail.

        The connection to a pod that was deleted may stay open for ever, because nobody is left to close it: two of five
        deleted executors were noticed only after a minute. Spark hears of it from Kubernetes at once.
        """

        def watch() -> None:
            while not over.wait(_LOOK_S):
                gone = self._lost()
                if gone:
                    what = f"slot {gone[0].slot} (pid {gone[0].pid}): Spark has lost its executor {gone[0].executor}"
                    lost(errors.SlotLost(what))  # before calls fail for another reason
                    self._give_up(gone)
                    self.group.interrupt()
                    return

        self._beside(watch)

    def _beside(self, watch: Callable[[], None]) -> None:
        """Where executors have names, so that Spark can tell which of them it has lost."""
        if any(address.executor for address in self.group.addresses):
            threading.Thread(target=watch, name="executor-watch", daemon=True).start()

    def _lost(self) -> tuple[SlotAddress, ...]:
        """The slots whose executors Spark has lost."""
        return slotlaunch.without_executor(self._parts.prepared.session.sparkContext, self.group.addresses)

    def _give_up(self, gone: tuple[SlotAddress, ...]) -> None:
        for slot in gone:
            self.group.give_up(slot.slot)

    @contextlib.contextmanager
    def _giving_up_lost(self) -> Iterator[None]:
        """Meanwhile nobody waits for slots whose executors Spark has lost. Spark often hears of that only after their
        connections have ended, and a new one to a pod that is gone took up to 30 s to fail."""
        over = threading.Event()

        def watch() -> None:
            while True:
                self._give_up(self._lost())
                if over.wait(_STOP_LOOK_S):
                    return

        self._beside(watch)
        try:
            yield
        finally:
            over.set()

    def read_state(self, uid: str, state: str, key: JsonValue, namespace: JsonValue) -> tuple[str, JsonValue]:
        """One key's committed state: its kind and its value. Raises ``SerializationError`` for what cannot be such a
        key or a namespace."""
        prepared = self._parts.prepared
        operator = self._require_operator(uid)
        if not operator.keys:
            raise errors.SpecInvalid(
                f"the rows of operator {uid!r} have no keys, so it has no state by key; ask for the operator state of "
                "a slot"
            )
        parts = planning.key_of(prepared.declared, operator, key)
        asked_keys.namespace_of(namespace)
        group = plans.key_group_of(
            prepared.session,
            plans.input_type(prepared.declared, operator),
            operator.keys,
            parts,
            self._key_space.max_parallelism,
        )
        slot = self._key_space.slot_of_shard(self._key_space.shard_of_key_group(group), len(self.group))
        request = protocol.ReadState(
            operator=uid,
            state=state,
            key=json.dumps(inspection.to_json(parts if len(parts) > 1 else parts[0])),
            key_group=group,
            namespace=None if namespace is None else json.dumps(namespace),
        )
        reply = self.group.ask_one(slot, request, protocol.StateValue)
        return reply.kind, json.loads(reply.value)

    def read_operator_state(self, uid: str, state: str, slot: int) -> tuple[str, JsonValue]:
        """One slot's committed operator state: its kind and its value."""
        self._require_operator(uid)
        if not 0 <= slot < len(self.group):
            raise errors.SpecInvalid(
                f"there is no slot {slot}; this job has the slots 0 to {len(self.group) - 1}"
            )
        request = protocol.ReadOperatorState(operator=uid, state=state)
        reply = self.group.ask_one(slot, request, protocol.StateValue)
        return reply.kind, json.loads(reply.value)

    def _require_operator(self, uid: str) -> graph.Operator:
        declared = self._parts.prepared.declared
        operator = declared.operators.get(uid)
        if operator is None:
            known = ", ".join(sorted(declared.operators))
            raise errors.SpecInvalid(f"there is no operator {uid!r}; this job has {known}")
        return operator

    def read_log(self, slot: int) -> tuple[str, ...]:
        """The last lines of a slot's log, oldest first."""
        return self.group.ask_one(slot, protocol.ReadLog(), protocol.LogLines).lines

    def quiesce(self) -> None:
        """Tell every slot that only a last snapshot comes. One that does not hear it merely does more than it must."""
        with contextlib.suppress(errors.SparkstateError):
            self.group.end(protocol.Quiesce(), _STOP_ANSWER_S)

    def stop(self) -> None:
        """Stop every slot. Their files on the disk stay for the next ones."""
        with self._giving_up_lost(), contextlib.suppress(errors.SparkstateError):
            self.group.end(protocol.Stop(), _STOP_ANSWER_S)
        self._await_gone(self.group.addresses)
        self.group.close()

    def _await_gone(self, addresses: tuple[SlotAddress, ...]) -> None:
        """A stopped slot leaves its folder under another name; a killed one's is renamed here.

        Only on this host: elsewhere the next incarnation's slots see to it before they start.
        """
        clock = self._parts.context.clock
        deadline = clock.monotonic() + _STOP_TIMEOUT_S
        for address in addresses:
            if address.host != socket.gethostname():
                continue
            folder = Path(address.unix_path).parent
            alive = Path(f"/proc/{address.pid}")
            while alive.exists() and folder.exists() and clock.monotonic() < deadline:
                clock.sleep(0.05)
            if folder.exists():
                places.kill(address.pid)
                inheritance.retire(folder)


def _for_tasks(parts: Parts) -> str:
    """The key for slots as tasks are told it: nothing where their pod has it, so that it does not travel."""
    context = parts.context
    in_pods = context.slots_here is None and context.keys.in_files
    return "" if in_pods else context.keys.slots


def pickled(plan: object) -> bytes:
    """The job's functions, in whatever holds them: they travel to the slots by value. Raises ``DeclarationError`` for
    one that cannot."""
    try:
        data: bytes = cloudpickle.dumps(plan)
        return data
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise errors.DeclarationError(
            f"the job's functions cannot be sent to the slots: {type(error).__name__}: {error}; make connections, "
            "locks and clients in open(), not in __init__ or outside of the class"
        ) from error
    except Exception as error:  # this may pass, so the restart strategy decides
        raise errors.SparkstateError(
            f"the job's functions could not be pickled: {type(error).__name__}: {error}"
        ) from error
