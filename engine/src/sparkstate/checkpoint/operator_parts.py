"""The file of a slot's operator state, and how it comes to other slots (docs/formats.md).

A part has the frame of everything small, magic ``SSOS``, and one msgpack map as its payload. Values are bytes that
only their declared types can read, so reading a part runs no code.

Which slot gets which values is decided at the restore: ``dealt_to`` is pure, and needs the parts of all slots.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from sparkstate import errors
from sparkstate.checkpoint.downloader import Downloader
from sparkstate.handles import FileHandle
from sparkstate.log import framing
from sparkstate.serde import types
from sparkstate.state import descriptors

MAGIC: Final = b"SSOS"
VERSION: Final = 1

Mode: TypeAlias = Literal["split", "union", "broadcast"]
"""How a state's values come to slots."""
KINDS: Final[Mapping[Mode, str]] = {
    "split": "operator list",
    "union": "operator union list",
    "broadcast": "broadcast",
}
"""The kinds of operator state, as ``_metadata`` and commands name them."""


class StoredState(msgspec.Struct, frozen=True, kw_only=True):
    """One operator state of one slot, or, once it is dealt out, what one slot gets of it.

    Types are the stable descriptions of ``serde.types``. ``keys`` has the encoded map keys of broadcast state
    (``serde.composite``), each beside its value; of lists there are values alone. An empty value is None.

    ``kept`` marks a union list that the slot has restored and does not declare. It is a copy of the union at that
    restore, and the list of any slot that declares the state is newer.
    """

    uid: str
    name: str
    mode: Mode
    value_type: str
    key_type: str = ""
    values: tuple[bytes, ...] = ()
    keys: tuple[bytes, ...] = ()
    kept: bool = False


class OperatorPart(msgspec.Struct, frozen=True, kw_only=True):
    """The operator state of slot ``slot`` of ``slots``."""

    slot: int
    slots: int
    states: tuple[StoredState, ...] = ()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(OperatorPart)


def encode(part: OperatorPart) -> bytes:
    """The bytes of the file."""
    return framing.frame(MAGIC, VERSION, _ENCODER.encode(part))


def decode(data: bytes, name: str) -> OperatorPart:
    """The inverse of :func:`encode`; ``name`` is for messages. Raises ``CorruptData``, and ``UnknownFormat`` for a file
    of a later version."""
    part = framing.parse(_DECODER, framing.unframe(MAGIC, VERSION, data, name), name)
    problem = _problem(part)
    if problem:
        raise errors.CorruptData(f"{name} {problem}")
    return part


def read(downloader: Downloader, files: Sequence[FileHandle], url: str) -> list[OperatorPart]:
    """The parts of all slots of a snapshot; ``url`` is where the paths of ``files`` begin. Raises ``CorruptData`` for
    files that are damaged, missing, or of several snapshots."""
    names = [f"{url}/{file.path}" if file.path else f"inline file {file.name} under {url}" for file in files]
    parts = [decode(downloader.read(file), name) for file, name in zip(files, names, strict=True)]
    check_together(parts, names)
    return parts


def in_force(parts: Sequence[OperatorPart]) -> list[OperatorPart]:
    """The parts without the kept copies of union lists that another slot declares: with both, a union would hold the
    elements of that slot twice, and once more after every restore."""
    declared = {_name(state) for part in parts for state in part.states if not state.kept}
    return [
        msgspec.structs.replace(
            part, states=tuple(each for each in part.states if not (each.kept and _name(each) in declared))
        )
        for part in parts
    ]


def dealt_to(slot: int, slots: int, parts: Sequence[OperatorPart]) -> tuple[StoredState, ...]:
    """The share of slot ``slot`` of ``slots``. ``parts`` are those of all slots of the snapshot, in order.

    With as many slots as before, each keeps the elements of its split lists. Otherwise the elements of all slots, in
    order, are dealt out in turn. A slot that gets none of a
    state's values still gets the state. It gets a list once for each type of its share of the elements.
    """
    found: dict[tuple[str, str], list[StoredState]] = {}
    current = in_force(parts)
    for state in (state for part in current for state in part.states):
        found.setdefault(_name(state), []).append(state)
    own = current[slot] if slots == len(parts) else None
    return tuple(state for _, states in sorted(found.items()) for state in _dealt(states, slot, slots, own))


def _name(state: StoredState) -> tuple[str, str]:
    return state.uid, state.name


def _dealt(
    states: list[StoredState], slot: int, slots: int, own: OperatorPart | None
) -> Sequence[StoredState]:
    """``own`` is the slot's own part, if there are as many slots as before."""
    first = states[0]
    if first.mode == "broadcast":
        return (first,)
    elements = ((state.value_type, value) for state in states for value in state.values)
    if first.mode == "union":
        return _by_type(first, elements)
    if own is None:
        return _by_type(first, itertools.islice(elements, slot, None, slots))
    before = [state for state in own.states if _name(state) == _name(first)]
    return before or _by_type(first, ())


def _by_type(state: StoredState, elements: Iterable[tuple[str, bytes]]) -> list[StoredState]:
    """The state with these elements, once for each of their types; without elements it is empty. Elements of several
    types are in no order that a function could know."""
    values: dict[str, list[bytes]] = {}
    for value_type, value in elements:
        values.setdefault(value_type, []).append(value)
    return [
        msgspec.structs.replace(state, value_type=value_type, values=tuple(own), kept=False)
        for value_type, own in (values or {state.value_type: []}).items()
    ]


def check_together(parts: Sequence[OperatorPart], names: Sequence[str]) -> None:
    """Raises ``CorruptData`` unless these are the parts of one snapshot, in order. ``names`` are for messages.

    The type of a state's values is that of every slot which declares it. A slot that does not declare a state writes it
    as it was restored: a split list may have another type in each slot, and a kept union list too.
    """
    declared: dict[tuple[str, str], tuple[str, str, str]] = {}
    for number, (part, name) in enumerate(zip(parts, names, strict=True)):
        if (part.slot, part.slots) != (number, len(parts)):
            raise errors.CorruptData(
                f"{name} is the operator state of slot {part.slot} of {part.slots}, "
                f"not of slot {number} of {len(parts)}"
            )
        for state in (state for state in part.states if not state.kept):
            mine = (state.mode, "" if state.mode == "split" else state.value_type, state.key_type)
            if declared.setdefault(_name(state), mine) != mine:
                raise errors.CorruptData(
                    f"{name} has state {state.name!r} of operator {state.uid!r} as {_shown(mine)}, another slot's file "
                    f"as {_shown(declared[_name(state)])}"
                )


def _shown(declared: tuple[str, str, str]) -> str:
    return " of ".join(part for part in declared if part)


def _problem(part: OperatorPart) -> str:
    if not 0 <= part.slot < part.slots:
        return f"is of slot {part.slot} of {part.slots}, which there cannot be"
    if _has_one_twice(part.states):
        return "has a state twice"
    for state in part.states:
        problem = _problem_of(state)
        if problem:
            return f"has state {state.name!r} of operator {state.uid!r}, which {problem}"
    return ""


def _has_one_twice(states: Sequence[StoredState]) -> bool:
    """A split list may be there once for each type of its values, any other state once."""
    lists = [(*_name(state), state.value_type) for state in states if state.mode == "split"]
    named = [_name(state) for state in states if state.mode != "split"] + [*{each[:2] for each in lists}]
    return len(set(lists)) != len(lists) or len(set(named)) != len(named)


def _problem_of(state: StoredState) -> str:
    if not 1 <= len(state.name) <= descriptors.NAME_LENGTH_MAX:
        return f"has a name of {len(state.name)} characters"
    try:
        types.parse(state.value_type)
        if state.key_type and not types.parse(state.key_type).is_key_type:
            return f"has the key type {state.key_type}, which cannot be that of a key"
    except errors.SparkstateError as error:
        return f"has a type that cannot be read: {error}"
    if (state.mode == "broadcast") != bool(state.key_type):
        return f"is {state.mode} and has the key type {state.key_type or 'none'}"
    if state.mode != "broadcast" and b"" in state.values:
        return "has an element without a value"
    if state.kept and state.mode != "union":
        return f"is {state.mode} and marked as kept"
    expected = len(state.values) if state.mode == "broadcast" else 0
    if len(state.keys) != expected:
        return f"has {len(state.keys)} keys for {len(state.values)} values"
    return ""
