"""A sketch of a set: how many distinct values there were, in a few hundred bytes, whatever they are.

It is the HyperLogLog of Flajolet and others with 64-bit hashes, and with Ertl's estimator (2017), which needs no table
of corrections: the error is about 1.04 / √(registers) for small and large sets alike. A register has the greatest
number of leading zeros, plus one, among the hashes that fell to it. Two sketches are merged register by register.

Stored, a sketch is one byte for its form, then either the registers, or the number (2 bytes, little endian) and the
content (1 byte) of each register that is not 0, whichever is shorter.
"""

from __future__ import annotations

import hashlib
import math
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Registers: TypeAlias = npt.NDArray[np.uint8]
Hashes: TypeAlias = npt.NDArray[np.uint64]

LEAST_BITS, MOST_BITS = 4, 16
_SPARSE, _DENSE = 1, 2
_ENTRY: Final = np.dtype([("register", "<u2"), ("content", "u1")])
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)


def bits_for(deviation: float) -> int:
    """Two to this power registers have at most this relative standard deviation; counted as Spark counts them."""
    return max(LEAST_BITS, math.ceil(2 * math.log2(1.106 / deviation)))


def hashes(values: pa.Array) -> Hashes:
    """A 64-bit hash of each value; equal values of one type have the same, in every process and version."""
    kind = values.type
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # -0.0 equals 0.0
        return _mixed(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _mixed(values.cast(pa.int64()).to_numpy().view(np.uint64))
    if pa.types.is_timestamp(kind):
        return _mixed(values.cast(pa.timestamp("us", kind.tz)).view(pa.int64()).to_numpy().view(np.uint64))
    if pa.types.is_date32(kind):
        return _mixed(values.view(pa.int32()).cast(pa.int64()).to_numpy().view(np.uint64))
    encoded = values.dictionary_encode()
    each = [_bytes_of(value) for value in encoded.dictionary.to_pylist()]
    found = [int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") for data in each]
    by_row: Hashes = np.array(found, np.uint64)[encoded.indices.to_numpy()]
    return by_row


def _bytes_of(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def _mixed(numbers: Hashes) -> Hashes:
    """Each bit of the result depends on all bits of the number (splitmix64)."""
    mixed: Hashes = numbers + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def contents(found: Hashes, bits: int) -> tuple[npt.NDArray[np.int64], Registers]:
    """The register of each hash, and what the hash puts there."""
    register = (found >> np.uint64(64 - bits)).astype(np.int64)
    # A bit behind the others bounds the zeros that are counted.
    rest = (found << np.uint64(bits)) | np.uint64(1 << (bits - 1))
    high, low = (rest >> np.uint64(32)).astype(np.float64), (rest & np.uint64(0xFFFFFFFF)).astype(np.float64)
    # The exponent of a float is its number of bits: exact for 32 of them.
    zeros = np.where(high > 0, 32 - np.frexp(high)[1], 64 - np.frexp(low)[1])
    return register, (zeros + 1).astype(np.uint8)


def encode(registers: Registers) -> bytes:
    """The stored form of one sketch."""
    places = np.flatnonzero(registers)
    if len(places) * _ENTRY.itemsize >= len(registers):
        return bytes([_DENSE]) + registers.tobytes()
    entries = np.empty(len(places), _ENTRY)
    entries["register"], entries["content"] = places, registers[places]
    return bytes([_SPARSE]) + entries.tobytes()


def merge_into(registers: Registers, stored: bytes) -> None:
    """Merge a stored sketch into an open one of as many registers."""
    if stored[0] == _DENSE:
        np.maximum(registers, np.frombuffer(stored, np.uint8, offset=1), out=registers)
        return
    entries = np.frombuffer(stored, _ENTRY, offset=1)
    places = entries["register"]
    registers[places] = np.maximum(registers[places], entries["content"])


def estimates(registers: Registers) -> npt.NDArray[np.int64]:
    """How many distinct values each sketch has seen; one sketch a row."""
    sketches, size = registers.shape
    longest = 64 - int(size).bit_length() + 1
    counts = np.zeros((sketches, longest + 2))
    flat = registers.astype(np.int64) + np.arange(sketches)[:, None] * (longest + 2)
    counts += np.bincount(flat.reshape(-1), minlength=counts.size).reshape(counts.shape)
    total = size * _tau(1 - counts[:, longest + 1] / size)
    for content in range(longest, 0, -1):
        total = (total + counts[:, content]) / 2
    total += size * _sigma(counts[:, 0] / size)
    found: npt.NDArray[np.float64] = size / (2 * math.log(2)) * size / total
    return np.rint(found).astype(np.int64)


def _sigma(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """x + Σ x^(2^k) 2^(k-1); infinite for 1, where no register was touched."""
    x, factor, total = shares.copy(), 1.0, shares.copy()
    is_open = shares < 1
    while True:
        x = x * x
        added = np.where(is_open, x * factor, 0)
        factor *= 2
        if not (total + added != total).any():
            return np.where(is_open, total, np.inf)
        total = total + added


def _tau(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(1 - x - Σ (1 - x^(2^-k))² 2^-k) / 3."""
    x, factor, total = shares.copy(), 1.0, 1 - shares
    is_inner = (shares > 0) & (shares < 1)
    while True:
        x = np.sqrt(x)
        factor /= 2
        removed = np.where(is_inner, (1 - x) ** 2 * factor, 0)
        if not (total - removed != total).any():
            return np.where(is_inner, total / 3, 0)
        total = total - removed
