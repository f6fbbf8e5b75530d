"""The rows of a large-state input, as pure arithmetic on numpy arrays: input, expectation and check share only
this file's definition of the rows; the expectation never runs the job's code."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
STEP = 1_000_003
"""A checksum is the one before times this, plus the record's value, modulo 2^63."""
FILE = "plan.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """``keys`` keys with ``value_bytes`` of state each; ``passes`` over them, the first over all, each later one over
    one key in ``one_in``; ``rows_per_file`` records in a file, which becomes an epoch."""

    keys: int
    value_bytes: int = 1000
    passes: int = 2
    one_in: int = 4
    rows_per_file: int = 200_000
    seed: int = 1

    def save(self, folder: Path) -> None:
        """Beside the input's files."""
        (folder / FILE).write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Plan:
        """The plan that :meth:`save` wrote."""
        return cls(**json.loads((folder / FILE).read_text()))

    def visits(self, number: int, keys: Numbers) -> npt.NDArray[np.bool_]:
        """Which of these keys pass ``number`` visits."""
        if number == 0:
            return np.ones(len(keys), bool)
        chosen: npt.NDArray[np.bool_] = self._mix(keys, number, 1) % np.uint64(self.one_in) == 0
        return chosen

    def values(self, number: int, keys: Numbers) -> Numbers:
        """The values of pass ``number`` for these keys, below 2^32."""
        return self._mix(keys, number, 2) >> np.uint64(32)

    def _mix(self, keys: Numbers, number: int, purpose: int) -> Numbers:
        salt = (self.seed * 1_000 + number) * 10 + purpose
        return mix(keys + np.uint64(salt * _GOLDEN % (1 << 64)))

    def records(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Keys and values, file by file. A key is at most once in a file, so the order within one does not matter."""
        stride = _coprime(self.keys)
        for number in range(self.passes):
            for start in range(0, self.keys, self.rows_per_file):
                places = np.arange(start, min(start + self.rows_per_file, self.keys), dtype=np.uint64)
                keys = places * np.uint64(stride) % np.uint64(self.keys)
                keys = keys[self.visits(number, keys)]
                if len(keys):
                    yield keys, self.values(number, keys)

    def expected(self, chunk: int = 1 << 18) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Keys, counts and checksums of all rows that the job must put out, in no particular order."""
        for start in range(0, self.keys, chunk):
            keys = np.arange(start, min(start + chunk, self.keys), dtype=np.uint64)
            counts, sums = np.zeros_like(keys), np.zeros_like(keys)
            for number in range(self.passes):
                visited = self.visits(number, keys)
                counts[visited] += np.uint64(1)
                sums[visited] = fold(sums[visited], self.values(number, keys[visited]))
                yield keys[visited], counts[visited], sums[visited]

    def checksums(self, keys: Numbers, counts: Numbers) -> Numbers:
        """The right checksum for each (key, count); 0 where the key is never counted so far."""
        found, seen, sums = (np.zeros_like(keys) for _ in range(3))
        for number in range(self.passes):
            visited = self.visits(number, keys)
            seen[visited] += np.uint64(1)
            sums[visited] = fold(sums[visited], self.values(number, keys[visited]))
            hit = visited & (seen == counts)
            found[hit] = sums[hit]
        return found


def fold(sums: Numbers, values: Numbers) -> Numbers:
    """The next checksums."""
    return (sums * np.uint64(STEP) + values) & np.uint64((1 << 63) - 1)


def mix(numbers: Numbers) -> Numbers:
    """A 64-bit hash (the finaliser of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[1]
    return numbers ^ (numbers >> np.uint64(31))


def fingerprint(keys: Numbers, counts: Numbers, sums: Numbers) -> int:
    """A number that depends on all rows and not on their order; add those of parts, modulo 2^64."""
    return int(mix(mix(mix(keys + np.uint64(_GOLDEN)) + counts) + sums).sum(dtype=np.uint64))


def _coprime(count: int) -> int:
    """A stride that visits every place once and jumps far."""
    stride = int(count * 0.618) | 1
    while np.gcd(stride, count) != 1:
        stride += 2
    return stride
