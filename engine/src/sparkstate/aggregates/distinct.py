"""How many distinct values a window has, approximately: a sketch per key and slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate import errors
from sparkstate.aggregates import sketch
from sparkstate.aggregates.aggregate import Accumulators, Aggregate, Codes, Part, Rows
from sparkstate.serde.types import Types

_REGISTERS_AT_ONCE: Final = 1 << 22
"""Open sketches take a byte for each register."""


@dataclass(frozen=True)
class DistinctCount(Aggregate):
    """The number of distinct values that are not null, with a relative standard deviation of at most ``deviation``."""

    deviation: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.deviation <= 0.39 or sketch.bits_for(self.deviation) > sketch.MOST_BITS:
            least = 1.106 / 2 ** (sketch.MOST_BITS / 2)
            raise errors.SpecInvalid(
                f"approx_count_distinct(rsd={self.deviation!r}): it must lie between {least:.4f} and 0.39; a sketch is "
                "kept for each key and slice, and takes (1.1 / rsd)² bytes"
            )

    @property
    def _bits(self) -> int:
        return sketch.bits_for(self.deviation)

    @property
    def parts(self) -> tuple[Part, ...]:
        # Sketches of other sizes cannot be merged, so each size is a state of its own.
        return (Part(f"sketch-{self._bits}", Types.PRIMITIVE_ARRAY(Types.BYTE())),)

    @property
    def options(self) -> str:
        return f", rsd {self.deviation}"

    def fold(self, before: Accumulators, rows: Rows) -> Accumulators:
        is_valid = rows.values.is_valid()
        codes = rows.codes[is_valid.to_numpy(zero_copy_only=False)]
        registers, contents = sketch.contents(sketch.hashes(rows.values.filter(is_valid)), self._bits)
        stored = before[0].to_pylist()
        size = 1 << self._bits
        order = np.argsort(codes, kind="stable")
        sorted_codes = codes[order]
        step = max(1, _REGISTERS_AT_ONCE >> self._bits)
        for start in range(0, rows.count, step):
            part = order[slice(*np.searchsorted(sorted_codes, (start, start + step)))]
            opened = np.zeros((min(step, rows.count - start), size), np.uint8)
            touched = np.unique(codes[part] - start)
            for place in touched.tolist():
                if stored[start + place] is not None:
                    sketch.merge_into(opened[place], stored[start + place])
            np.maximum.at(opened.reshape(-1), (codes[part] - start) * size + registers[part], contents[part])
            for place in touched.tolist():
                stored[start + place] = sketch.encode(opened[place])
        return [pa.array(stored, pa.binary())]

    def merge(self, parts: Accumulators, codes: Codes, count: int) -> Accumulators:
        merged: list[bytes | None] = [None] * count
        several: dict[int, npt.NDArray[np.uint8]] = {}
        for code, stored in zip(codes.tolist(), parts[0].to_pylist(), strict=True):
            before = merged[code]
            if stored is None or before is None:
                merged[code] = before if stored is None else stored
                continue
            if code not in several:
                several[code] = np.zeros(1 << self._bits, np.uint8)
                sketch.merge_into(several[code], before)
            sketch.merge_into(several[code], stored)
        for code, registers in several.items():
            merged[code] = sketch.encode(registers)
        return [pa.array(merged, pa.binary())]

    def result(self, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
        found = np.zeros(len(rows), np.int64)
        stored = parts[0].to_pylist()
        step = max(1, _REGISTERS_AT_ONCE >> (self._bits + 3))
        for start in range(0, len(stored), step):
            chunk = stored[start : start + step]
            opened = np.zeros((len(chunk), 1 << self._bits), np.uint8)
            for place, each in enumerate(chunk):
                if each is not None:
                    sketch.merge_into(opened[place], each)
            found[start : start + step] = sketch.estimates(opened)
        return pa.array(found)
