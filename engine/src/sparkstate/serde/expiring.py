"""Values that expire: a stamp and a value of another type.

The stamp is the time of the last access that counts, in milliseconds. Stored, it is a pair of stamp and stored value.
As bytes, a mark comes first, then the stamp (8 bytes, in the order of the numbers), then the value's own bytes. The
mark differs from every schema id, so a reader that does not know of stamps refuses the bytes. The type describes itself
by a prefix before the value's own type: ``TTL(processing,3600000) LONG``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from sparkstate import errors
from sparkstate.serde.typeinfo import TypeInformation

NO_STAMP: Final = -(2**63)
"""The stamp of a value that was written when no time was known yet. It does not expire until it is written again."""
END_OF_TIME: Final = 2**63 - 1
"""The watermark when the input has ended. Nothing expires by it: the last timers find their state."""
MARK: Final = b"\xff"
STAMP_BYTES: Final = 9
"""Of the mark and the stamp."""
_STAMP = struct.Struct(">cQ")
_SIGN: Final = 1 << 63
_PREFIX = re.compile(r"TTL\((processing|event),([1-9][0-9]{0,18})\) ")

Stamped: TypeAlias = tuple[int, Any]
"""Stamp and stored value."""
Convert: TypeAlias = Callable[[bytes], bytes | None]
"""From the bytes of a value to those of the same value; None: it has expired."""


class TimeToLive(NamedTuple):
    """For how long a value lives after its stamp, and by which time."""

    length_ms: int
    in_event_time: bool = False

    def describe(self) -> str:
        """The prefix of a type's description."""
        return f"TTL({'event' if self.in_event_time else 'processing'},{self.length_ms}) "

    def cutoff(self, now: int) -> int:
        """Values with this stamp or an older one have expired at that time; ``NO_STAMP``: none has."""
        if now in (NO_STAMP, END_OF_TIME):
            return NO_STAMP
        return max(NO_STAMP, now - self.length_ms)


class Times(NamedTuple):
    """The two times at one moment, in ms."""

    processing_time: int
    watermark: int

    def by(self, ttl: TimeToLive) -> int:
        """The one that counts."""
        return self.watermark if ttl.in_event_time else self.processing_time


class ExpiringType(TypeInformation):
    """A type of stored values with stamps. ``value_type`` is the type that the user's code sees."""

    def __init__(self, value_type: TypeInformation, ttl: TimeToLive) -> None:
        self.value_type = value_type
        self.ttl = ttl

    def describe(self) -> str:
        return self.ttl.describe() + self.value_type.describe()

    def normalize(self, value: Any) -> Any:
        return self.value_type.normalize(value)

    def freeze(self, value: Any) -> Stamped:
        """A value without a known time; state handles stamp values themselves."""
        return NO_STAMP, self.value_type.freeze(value)

    def thaw(self, stored: Stamped) -> Any:
        """The value alone."""
        return None if stored[1] is None else self.value_type.thaw(stored[1])

    def encode(self, stored: Stamped) -> bytes:
        return _STAMP.pack(MARK, stored[0] + _SIGN) + self.value_type.encode(stored[1])

    def plain(self) -> TypeInformation:
        return ExpiringType(self.value_type.plain(), self.ttl)

    def decode(self, data: bytes) -> Stamped:
        return stamp_of(data), self.value_type.decode(data[STAMP_BYTES:])


def split(description: str) -> tuple[TimeToLive | None, str]:
    """The time-to-live of a type's description (None: values of that type do not expire), and the description of the
    value's own type."""
    match = _PREFIX.match(description)
    if match is None:
        return None, description
    return TimeToLive(int(match[2]), match[1] == "event"), description[match.end() :]


def value_type_of(stored_type: TypeInformation) -> TypeInformation:
    """The type that the user's code sees."""
    return stored_type.value_type if isinstance(stored_type, ExpiringType) else stored_type


def ttl_of(stored_type: TypeInformation | None) -> TimeToLive | None:
    """The time-to-live of values of that type; None: they do not expire."""
    return stored_type.ttl if isinstance(stored_type, ExpiringType) else None


def with_ttl(stored_type: TypeInformation, ttl: TimeToLive | None) -> TypeInformation:
    """The same type with another time-to-live, or without one."""
    value_type = value_type_of(stored_type)
    return value_type if ttl is None else ExpiringType(value_type, ttl)


def is_live(stamp: int, cutoff: int) -> bool:
    """Whether a value with that stamp has not expired."""
    return stamp > cutoff or stamp == NO_STAMP


def live_part(stored: Any, cutoff: int) -> Any:
    """The part of a stored value, list or map that has not expired: the same object if that is all of it, None if a
    value has expired."""
    if isinstance(stored, tuple):
        return stored if is_live(stored[0], cutoff) else None
    if isinstance(stored, dict):
        live = {key: each for key, each in stored.items() if is_live(each[0], cutoff)}
        return stored if len(live) == len(stored) else live
    elements = [each for each in stored if is_live(each[0], cutoff)]
    return stored if len(elements) == len(stored) else elements


# --- the same on bytes, which need not be decoded


def stamp_of(data: bytes) -> int:
    """The stamp of a value's bytes. Raises ``CorruptData`` where there is none."""
    if data[:1] != MARK or len(data) < STAMP_BYTES:
        raise _stampless(data)
    stamp: int = _STAMP.unpack_from(data)[1]
    return stamp - _SIGN


def _stampless(data: bytes) -> errors.CorruptData:
    return errors.CorruptData(
        f"a stored value has no stamp: its {len(data)} bytes begin with {data[:STAMP_BYTES].hex()!r}. Restore an "
        "earlier checkpoint or savepoint"
    )


def expired_bytes(cutoff: int) -> Callable[[bytes], bool]:
    """Whether a value has expired, by its bytes. Stamps are in the order of their bytes. The result raises
    ``CorruptData`` for bytes without a stamp: a part of one may look like a stamp of long ago."""
    never, last = _STAMP.pack(MARK, 0), _STAMP.pack(MARK, cutoff + _SIGN)

    def has_expired(data: bytes) -> bool:
        stamp = data[:STAMP_BYTES]
        if len(stamp) < STAMP_BYTES or stamp < never:
            raise _stampless(data)
        return never < stamp <= last

    return has_expired


def rewrites(stored: TimeToLive | None, declared: TimeToLive | None) -> bool:
    """Whether values of one time-to-live have to be written anew to be values of the other."""
    return converter(stored, declared, Times(0, 0)) is not None


def converter(stored: TimeToLive | None, declared: TimeToLive | None, times: Times) -> Convert | None:
    """Makes values of one time-to-live those of another; None: they are such values already.

    A value without a stamp, or with one of the other time, counts as written now. A value that had expired stays so.
    """
    if stored == declared:
        return None
    if stored is None:
        assert declared is not None
        return _stamping(times.by(declared))
    has_expired = expired_bytes(stored.cutoff(times.by(stored)))
    if declared is None:
        return lambda data: None if has_expired(data) else data[STAMP_BYTES:]
    if declared.in_event_time != stored.in_event_time:
        stamp = _stamping(times.by(declared))
        return lambda data: None if has_expired(data) else stamp(data[STAMP_BYTES:])
    if declared.length_ms < stored.length_ms:
        return None
    return lambda data: None if has_expired(data) else data


def _stamping(now: int) -> Callable[[bytes], bytes]:
    stamp = _STAMP.pack(MARK, (NO_STAMP if now == END_OF_TIME else now) + _SIGN)
    return lambda data: stamp + data
