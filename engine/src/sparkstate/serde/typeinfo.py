"""The abilities of a type of stored values. The types themselves are in ``scalars`` and ``containers``.

A value has three forms:

*value*
    what the user's code sees.
*stored*
    what overlays, changes and stores carry. For immutable types it is the value itself; for mutable ones
    (lists, maps, pickled objects) the encoded bytes, so that nothing a user still holds can change what was
    stored, and every read gives a fresh copy. Enums are stored as bytes too, because a store knows their names alone.
*bytes*
    what a byte store and the snapshot files keep: one byte of schema id, then msgpack.

``freeze``/``thaw`` go between value and stored (the state handles do that); ``encode``/``decode`` between
stored and bytes (the stores do that, and for mutable types it is nothing at all).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sparkstate import errors

SCHEMA_ID = 0
"""Schema id of everything written by this version: "as the table's own type description says"."""
SCHEMA_PREFIX = bytes([SCHEMA_ID])

pack_bytes = msgspec.msgpack.Encoder().encode


def require_whole_text(value: Any) -> None:
    """Raise ``UnicodeEncodeError`` for text with half of a character (a lone surrogate, as ``json.loads`` makes them):
    no bytes stand for it, so a store in memory would take it and no checkpoint could hold it."""
    if isinstance(value, str):
        if not value.isascii():
            value.encode()
    elif isinstance(value, tuple):
        for item in value:
            require_whole_text(item)


_MADE_ON_USE = frozenset({"_unpack_bytes", "normalize_map_key"})


class TypeInformation(ABC):
    """A type of keys or values. Made by ``Types``; equal when the descriptions are equal."""

    is_immutable: bool = True
    """Whether a value can be shared between the store and the user's code."""
    is_key_type: bool = False
    """Whether values may be keys or map keys: their normalised form is immutable, with a defined byte order."""
    has_text = False
    """Whether there may be text in a value that is immutable."""
    wire: Any = None
    """The annotation by which msgspec checks what it decodes."""
    thaw_key: Callable[[Any], Any] | None = None
    """A normalised key as the user's code sees it; None: that is the same."""

    @abstractmethod
    def describe(self) -> str:
        """Stable description, e.g. ``TUPLE<LONG,STRING>``; ``types.parse`` is the inverse. Part of stored formats."""

    @abstractmethod
    def normalize(self, value: Any) -> Any:
        """The value in its one canonical Python form (``numpy.int64(1)`` becomes ``1``), or ``SerializationError``."""

    def normalize_key(self, key: Any) -> Any:
        """The same for a stream's key. It comes from columns: it may be null, and so may fields of a composite key."""
        return None if key is None else self.normalize(key)

    @functools.cached_property
    def normalize_map_key(self) -> Callable[[Any], Any]:
        """The same for a key of a map. Equal keys become one: that which comes back from the key's stored form."""
        return self.normalize

    def pack(self, value: Any) -> Any:
        """A normalised value as msgpack's own types."""
        return value

    def unpack(self, packed: Any) -> Any:
        """The inverse of :meth:`pack`."""
        return packed

    @functools.cached_property
    def _unpack_bytes(self) -> Any:
        return msgspec.msgpack.Decoder(self.wire).decode

    def plain(self) -> TypeInformation:
        """The same type without a class of the user's: a constant of an enum is its name."""
        return self

    def freeze(self, value: Any) -> Any:
        """Value → stored. Raises ``SerializationError`` when the value is not of this type."""
        normal = self.normalize(value)
        try:
            if not self.is_immutable:
                return SCHEMA_PREFIX + pack_bytes(self.pack(normal))
            if self.has_text:
                require_whole_text(normal)
        except UnicodeEncodeError:
            raise self.refuse_half(value) from None
        return normal

    def thaw(self, stored: Any) -> Any:
        """Stored → value; a fresh copy for mutable types."""
        return stored if self.is_immutable else self._decode_value(stored)

    def encode(self, stored: Any) -> bytes:
        """Stored → bytes. None, which only entries of maps can be, becomes an empty string."""
        if stored is None:
            return b""
        return SCHEMA_PREFIX + pack_bytes(self.pack(stored)) if self.is_immutable else stored

    def encode_all(self, stored: Sequence[Any]) -> list[bytes | None]:
        """The same for many; None for None."""
        encode = self.encode
        return [None if each is None else encode(each) for each in stored]

    def decode(self, data: bytes) -> Any:
        """Bytes → stored. Raises ``CorruptData`` if the bytes are not of this type, ``UnknownFormat`` if a later
        version wrote them."""
        if not data:
            return None
        return self._decode_value(data) if self.is_immutable else data

    def decode_all(self, found: Sequence[bytes | None]) -> list[Any]:
        """The same for many; None for None."""
        decode = self.decode
        return [None if data is None else decode(data) for data in found]

    def _decode_value(self, data: bytes) -> Any:
        if data[:1] != SCHEMA_PREFIX:
            raise errors.UnknownFormat(
                f"a stored value of type {self.describe()} has schema id {data[:1].hex() or 'none'}; "
                f"this version reads schema id {SCHEMA_ID} only; use the sparkstate version that wrote it, or restore "
                "an older checkpoint"
            )
        try:
            return self.unpack(self._unpack_bytes(data[1:]))
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise errors.CorruptData(f"a stored value is not of type {self.describe()}: {error}") from error

    def refuse(self, value: Any) -> errors.SerializationError:
        """The error for a value that is not of this type."""
        shown = repr(value)
        if len(shown) > 200:
            shown = shown[:200] + "…"
        return errors.SerializationError(
            f"{shown} (Python type {type(value).__qualname__}) does not fit the declared type "
            f"{self.describe()}"
        )

    def refuse_half(self, value: Any) -> errors.SerializationError:
        """The error for text that :func:`require_whole_text` does not let through."""
        return errors.SerializationError(
            f"{self.refuse(value)}: it holds half of a character (a lone surrogate), and no bytes stand for that; "
            "write text.encode('utf-8', 'replace').decode()"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made on use. A function may hold a descriptor that was used already, and the decoder
        cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name not in _MADE_ON_USE}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeInformation) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.describe())

    def __repr__(self) -> str:
        return f"Types.{self.describe()}"
