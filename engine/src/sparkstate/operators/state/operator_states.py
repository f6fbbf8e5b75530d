"""The operator state of one operator in one slot.

A handle reads what is committed together with the *changes* that it is bound to, and writes to these alone. In an epoch
they belong to the overlay of an attempt, so that an attempt that is dropped leaves no trace. In ``initialize_state``,
``open`` and ``snapshot_state`` there is no epoch: :meth:`OperatorStates.at_once` binds changes of their own and commits
them if the call succeeds.

States that were restored and that nobody has declared yet are kept as bytes, and go into the next snapshot as they are.
So a list that only some slots declare comes back in several types once its type has changed.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from sparkstate import errors
from sparkstate.checkpoint.operator_parts import Mode, StoredState
from sparkstate.operators.base import StateImage
from sparkstate.operators.state import inspection, operator_state_memory
from sparkstate.operators.state.operator_handles import BroadcastHandle, Changes, ListHandle
from sparkstate.operators.state.operator_state_memory import OperatorStateMemory, OperatorStateSize
from sparkstate.serde import composite, containers, evolution
from sparkstate.serde.evolution import StateTypes
from sparkstate.serde.migration import Migration
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.state import descriptors, operator_state

_Handle: TypeAlias = ListHandle | BroadcastHandle


class _Image:
    """A declared state; nothing changes it."""

    def __init__(self, handle: _Handle) -> None:
        self._handle = handle
        self._keys: list[Any] = []
        if isinstance(handle, BroadcastHandle):
            self._keys, self._values = list(handle.committed), list(handle.committed.values())
        else:
            self._values = list(handle.committed)

    def encode(self) -> StoredState:
        """Its stored form."""
        handle = self._handle
        keys: tuple[bytes, ...] = ()
        if handle.key_type is not None:
            keys = tuple(map(composite.key_codec(handle.key_type).encode, self._keys))
        return StoredState(
            uid=handle.uid,
            name=handle.name,
            mode=handle.mode,
            value_type=handle.value_type.describe(),
            key_type=_described(handle.key_type),
            values=tuple(map(handle.value_type.encode, self._values)),
            keys=keys,
        )


class _Kept:
    """A state that nobody has declared."""

    def __init__(self, stored: StoredState) -> None:
        self._stored = stored

    def encode(self) -> StoredState:
        """As it was restored; a union list is marked, because every slot that declares it has a newer one."""
        return msgspec.structs.replace(self._stored, kept=self._stored.mode == "union")


class OperatorStates(operator_state.OperatorStateStore):
    """Not thread-safe: the operator calls it under its lock. ``restored``: what this slot got. ``memory``: that of the
    slot; None: it has no limit."""

    def __init__(
        self, uid: str, restored: Sequence[StoredState] = (), memory: OperatorStateMemory | None = None
    ) -> None:
        self._uid = uid
        self._memory = memory or OperatorStateMemory()
        self._undeclared: dict[str, list[StoredState]] = {}
        """By name; a list once for each type of its values."""
        for state in restored:
            self._undeclared.setdefault(state.name, []).append(state)
        self._handles: dict[str, _Handle] = {}
        self._at_once: Changes | None = None
        """Within :meth:`at_once`, its changes."""
        self.may_declare = True
        """Until the function is open."""

    # --- declaring

    def get_list_state(
        self, state_descriptor: descriptors.ListStateDescriptor
    ) -> operator_state.OperatorListState[Any]:
        return self._list(state_descriptor, "split")

    def get_union_list_state(
        self, state_descriptor: descriptors.ListStateDescriptor
    ) -> operator_state.OperatorListState[Any]:
        return self._list(state_descriptor, "union")

    def get_broadcast_state(
        self, state_descriptor: descriptors.MapStateDescriptor
    ) -> operator_state.BroadcastState[Any, Any]:
        """As the contract says; the operator of a broadcast stream has it from here too."""
        self._require(state_descriptor, descriptors.MapStateDescriptor)
        key_type, value_type = state_descriptor.key_type_info, state_descriptor.type_info
        known = self._known(state_descriptor.name, "broadcast", value_type, key_type)
        if isinstance(known, BroadcastHandle):
            return known
        handle = BroadcastHandle(self._uid, state_descriptor.name, key_type, value_type)
        for stored in self._take(state_descriptor.name, "broadcast", value_type, key_type):
            unpacked = (self._unpacked(state_descriptor.name, key_type, key) for key in stored.keys)
            handle.restore(dict(zip(unpacked, map(value_type.decode, stored.values), strict=True)))
        self._add(handle)
        return handle

    def _unpacked(self, name: str, key_type: TypeInformation, key: bytes) -> Any:
        """The map key of these bytes."""
        try:
            found, end = composite.key_codec(key_type).decode(key)
        except (ValueError, IndexError, struct.error) as error:
            raise self._wrong_key(name, key_type, key) from error
        if end != len(key):
            raise self._wrong_key(name, key_type, key)
        return found

    def _wrong_key(self, name: str, key_type: TypeInformation, key: bytes) -> errors.CorruptData:
        return errors.CorruptData(
            f"operator state {name!r} of operator {self._uid!r}: the stored map key {key[:50].hex()} is not of type "
            f"{key_type.describe()}; restore from an older checkpoint or a savepoint with restoreFrom"
        )

    def _list(self, descriptor: descriptors.ListStateDescriptor, mode: Mode) -> ListHandle:
        self._require(descriptor, descriptors.ListStateDescriptor)
        known = self._known(descriptor.name, mode, descriptor.type_info, None)
        if isinstance(known, ListHandle):
            return known
        handle = ListHandle(self._uid, descriptor.name, mode, descriptor.type_info)
        stored = self._take(descriptor.name, mode, descriptor.type_info, None)
        if stored:
            decode = descriptor.type_info.decode
            handle.restore([decode(value) for each in stored for value in each.values])
        self._add(handle)
        return handle

    def _add(self, handle: _Handle) -> None:
        self._handles[handle.name] = handle
        if self._at_once is not None:
            self.bind(self._at_once)

    def _require(self, descriptor: Any, wanted: type[descriptors.StateDescriptor]) -> None:
        if not isinstance(descriptor, wanted):
            raise errors.StateError(
                f"operator {self._uid!r}: expected a {wanted.__name__}, got {descriptor!r}"
            )
        if descriptor.ttl_config is not None and descriptor.ttl_config.is_enabled():
            raise errors.StateError(
                f"operator {self._uid!r}: operator state {descriptor.name!r} cannot expire, as in Flink; leave "
                "enable_time_to_live(…) out, or keep the values in keyed state"
            )
        if not self.may_declare and descriptor.name not in self._handles:
            raise errors.StateError(
                f"operator {self._uid!r}: operator state {descriptor.name!r} was first asked for after open(); ask for "
                "it in initialize_state()"
            )

    def _known(
        self, name: str, mode: Mode, value_type: TypeInformation, key_type: TypeInformation | None
    ) -> _Handle | None:
        handle = self._handles.get(name)
        if handle is None:
            return None
        before = _shown(handle.mode, handle.value_type.describe(), _described(handle.key_type))
        now = _shown(mode, value_type.describe(), _described(key_type))
        if before != now:
            raise errors.StateError(
                f"operator {self._uid!r}: operator state {name!r} was declared as {before} and is asked for as {now}; "
                "give the second one another name"
            )
        return handle

    def _take(
        self, name: str, mode: Mode, value_type: TypeInformation, key_type: TypeInformation | None
    ) -> list[StoredState]:
        """The stored state, all of it in the type that is declared now; empty if there is none."""
        declared = StateTypes(self._uid, name, mode, key_type, value_type)
        taken = [self._migrated(stored, declared) for stored in self._undeclared.get(name, ())]
        self._undeclared.pop(name, None)
        return taken

    def _migrated(self, stored: StoredState, declared: StateTypes) -> StoredState:
        before = _shown(stored.mode, stored.value_type, stored.key_type)
        now = _shown(declared.kind, _described(declared.value_type), _described(declared.key_type))
        if before == now:
            return stored
        was = StateTypes.parse(self._uid, stored.name, stored.mode, stored.key_type, stored.value_type)
        verdict = evolution.compare(was, declared, reads_all=True)
        if verdict.is_refused:
            where = f" (at {verdict.field}: {verdict.before} and {verdict.now})" if verdict.field else ""
            raise errors.StateMigrationError(
                f"operator state {stored.name!r} of operator {self._uid!r} was {before} when it was stored and is now "
                f"{now}{where}; {verdict.remedy}"
            )
        if verdict.plan is None:
            return stored
        assert was.value_type is not None
        migrate = Migration(was.value_type, (verdict.plan,))
        return msgspec.structs.replace(stored, values=tuple(map(migrate, stored.values)))

    # --- epochs and snapshots

    def declared(self) -> list[StateTypes]:
        """All that were asked for; the kind is the mode."""
        return [
            StateTypes(self._uid, h.name, h.mode, value_type=h.value_type, user_key_type=h.key_type)
            for h in self._handles.values()
        ]

    @property
    def is_empty(self) -> bool:
        """Whether no state was declared or restored, so that there is nothing to bind or to store."""
        return not self._handles and not self._undeclared

    def bind(self, changes: Changes) -> None:
        """Let all handles write to ``changes``, and read them over what is committed."""
        for name, handle in self._handles.items():
            found = changes.get(name)
            if found is None:
                found = changes[name] = handle.no_changes()
            handle.bind(found)

    def unbind(self) -> None:
        """Every use of a handle is refused."""
        for handle in self._handles.values():
            handle.unbind()

    def commit(self, changes: Changes) -> None:
        """Make ``changes`` state, and forget them there."""
        if not changes and self.is_empty:
            return
        for name, changed in changes.items():
            self._handles[name].commit(changed)
        changes.clear()
        self._memory.note(self._uid, self._sizes())

    def require_room(self, changes: Changes, *, is_end: bool = False) -> None:
        """Raise ``OperatorStateTooLarge`` if the slot has no room for the state that ``changes`` would make. Before the
        end of an epoch a guess is enough that there is."""
        if not changes and not self._undeclared:
            return
        if is_end or not self._memory.has_room(self._uid, self._sizes_with(changes, is_guess=True)):
            self._memory.require(self._uid, self._sizes_with(changes, is_guess=False))

    def _sizes_with(self, changes: Changes, is_guess: bool) -> dict[str, int]:
        """Bytes of each state with ``changes``."""
        sizes = {name: _size_of(kept) for name, kept in self._undeclared.items()}
        for name, handle in self._handles.items():
            judge = handle.guess_with if is_guess else handle.size_with
            sizes[name] = judge(changes[name]) if name in changes else handle.size_bytes
        return sizes

    def _sizes(self) -> list[OperatorStateSize]:
        handles = [
            OperatorStateSize(self._uid, h.name, h.mode, len(h.committed), h.size_bytes)
            for h in self._handles.values()
        ]
        kept = [
            OperatorStateSize(
                self._uid, name, kept[0].mode, sum(len(each.values) for each in kept), _size_of(kept)
            )
            for name, kept in self._undeclared.items()
        ]
        return [*handles, *kept]

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Meanwhile handles may be used, those declared meanwhile too; their changes are committed at the end, and
        dropped if an error is raised. Raises ``OperatorStateTooLarge``."""
        changes: Changes = {}
        self._at_once = changes
        self.bind(changes)
        try:
            yield
            self.require_room(changes, is_end=True)
            self.commit(changes)
        finally:
            self._at_once = None
            self.unbind()

    def read(self, name: str) -> list[Any] | dict[Any, Any]:
        """The committed state of that name."""
        handle = self._declared(name)
        handle.bind(handle.no_changes())
        try:
            return dict(handle.items()) if isinstance(handle, BroadcastHandle) else handle.get()
        finally:
            handle.unbind()

    def shown(self, name: str) -> tuple[Mode, Any]:
        """The mode of the state, and the committed content as JSON can carry it. Runs no code that was stored."""
        handle = self._declared(name)
        if containers.holds_pickled(handle.value_type):
            raise errors.StateError(
                f"operator {self._uid!r}: the values of operator state {name!r} are pickled; reading them runs code, "
                "so they are not shown"
            )
        return handle.mode, inspection.to_json(self.read(name))

    def _declared(self, name: str) -> _Handle:
        handle = self._handles.get(name)
        if handle is None:
            known = ", ".join(sorted(self._handles)) or "none"
            raise errors.StateError(
                f"operator {self._uid!r} has no operator state {name!r}; its operator states are: {known}"
            )
        return handle

    def images(self, is_first: bool) -> list[StateImage]:
        """The committed state for a snapshot. Broadcast state is in that of the first slot alone. So is a union that
        is not declared: every slot holds all of it, and the next restore gives every slot all parts."""
        handles = [h for h in self._handles.values() if is_first or h.mode != "broadcast"]
        undeclared = itertools.chain.from_iterable(self._undeclared.values())
        kept = [state for state in undeclared if is_first or state.mode == "split"]
        return [*map(_Image, handles), *map(_Kept, kept)]


def _size_of(kept: Sequence[StoredState]) -> int:
    """Bytes of a state that nobody has declared."""
    return sum(map(operator_state_memory.of_stored, kept))


def _described(kind: TypeInformation | None) -> str:
    return "" if kind is None else kind.describe()


def _shown(mode: str, value_type: str, key_type: str) -> str:
    """Kind and types of a state, as an error tells them."""
    if mode == "broadcast":
        return f"broadcast state of {key_type} to {value_type}"
    return f"a {mode} list of {value_type}"
