"""The ways to set RocksDB up that the trial compares, by name, one change each or several."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rocksdict

from sparkstate.backends.rocksdb import native
from sparkstate.backends.rocksdb.effective import EffectiveOptions
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.backends.rocksdb.index_parts import IndexParts
from sparkstate.clock import Clock
from sparkstate.settings import StateBackendSettings

KIB = 1024
MIB = 1024 * KIB
Raw = Callable[[Any, Any], None]
"""Sets what the engine has no name for, on rocksdict's own options; the slot's cache comes second."""


@dataclass(frozen=True)
class Candidate:
    """Changes to the options with which stores are opened; values of None are taken out."""

    db: Mapping[str, Any] = field(default_factory=dict)
    column: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)
    raw: tuple[Raw, ...] = ()
    spill: Candidate | None = None
    """What spilled overlays have beyond that."""

    def __or__(self, other: Candidate) -> Candidate:
        return Candidate(
            {**self.db, **other.db},
            {**self.column, **other.column},
            {**self.table, **other.table},
            self.raw + other.raw,
            (self.spill or Candidate()) | other.spill if other.spill else self.spill,
        )

    def applied_to(self, options: EffectiveOptions) -> EffectiveOptions:
        """The same with the changes."""
        return dataclasses.replace(
            options,
            db=_merged(options.db, self.db),
            column=_merged(options.column, self.column),
            table=_merged(options.table, self.table),
        )


def _merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


class TrialFactory(RocksDBStoreFactory):
    """The engine's factory with a candidate's options; without a candidate, with the engine's own."""

    def __init__(
        self, settings: StateBackendSettings, directory: Path, clock: Clock, candidate: Candidate | None
    ) -> None:
        super().__init__(settings, directory, clock)
        self._candidate = candidate
        self._bare = self.options if candidate is None else (BEFORE | candidate).applied_to(self.options)
        if candidate is not None:  # it keeps the form of the index that it names
            self.index_parts = IndexParts(False, self.plan.cache, clock)

    def _new_options(self, families: int) -> tuple[Any, list[Any]]:
        if self._candidate is None:
            return super()._new_options(families)
        return self._built(self._bare, self._candidate.raw)

    def _new_spill_options(self, families: int) -> tuple[Any, list[Any]]:
        if self._candidate is None:
            return super()._new_spill_options(families)
        spill = self._candidate.spill or Candidate()
        return self._built(spill.applied_to(self._bare), self._candidate.raw + spill.raw)

    def _built(self, chosen: EffectiveOptions, raw: Iterable[Raw]) -> tuple[Any, list[Any]]:
        options, caches = native.build_options(chosen, self._memory, bool(self._metric_names))
        for change in raw:
            change(options, self._memory.cache)
        return options, caches


def _call(name: str, *arguments: Any) -> Raw:
    return lambda options, _cache: getattr(options, name)(*arguments)


def _universal(**values: int) -> Raw:
    def change(options: Any, _cache: Any) -> None:
        universal = rocksdict.UniversalCompactOptions()
        for name, value in values.items():
            setattr(universal, name, value)
        options.set_universal_compaction_options(universal)

    return change


def _blobs(least: int, collect: bool = True) -> Candidate:
    raw = [
        _call("set_enable_blob_files", True),
        _call("set_min_blob_size", least),
        _call("set_blob_file_size", 16 * MIB),
        _call("set_enable_blob_gc", collect),
    ]
    return Candidate(raw=tuple(raw))


BLOOM = Candidate(table={"bloom_bits_per_key": 10.0, "bloom_block_based": False})
BEFORE = Candidate(
    column={"compaction_style": "UNIVERSAL", "level_zero_file_num_compaction_trigger": 8},
    table={
        "bloom_bits_per_key": None,
        "two_level_index": None,
        "partition_filters": None,
        "pin_top_level_index_and_filter": None,
        "block_size": 4 * KIB,
    },
) | Candidate(column={"compression_per_level": ("SNAPPY",)})
"""The defaults before RFC 0040. Every candidate adds to them."""
PARTITIONED = Candidate(
    table={"two_level_index": True, "partition_filters": True, "pin_top_level_index_and_filter": True}
)
HASH = Candidate(
    table={
        "data_block_index_type": rocksdict.DataBlockIndexType.binary_and_hash(),
        "data_block_hash_ratio": 0.75,
    }
)


def _block(kib: int) -> Candidate:
    return Candidate(table={"block_size": kib * KIB})


def _compression(*names: str) -> Candidate:
    return Candidate(column={"compression_per_level": names})


LEVEL = Candidate(column={"compaction_style": "LEVEL"})
DYNAMIC = LEVEL | Candidate(column={"level_compaction_dynamic_level_bytes": True})


def _trigger(files: int) -> Candidate:
    return Candidate(column={"level_zero_file_num_compaction_trigger": files})


CANDIDATES: Mapping[str, Candidate | None] = {
    "the defaults": None,
    "as it was": Candidate(),
    "block 2k": _block(2),
    "bloom": BLOOM,
    "bloom 5": Candidate(table={"bloom_bits_per_key": 5.0}),
    "bloom 16": Candidate(table={"bloom_bits_per_key": 16.0}),
    "bloom, not below": BLOOM | Candidate(column={"optimize_filters_for_hits": True}),
    "partitioned": PARTITIONED,
    "bloom partitioned": BLOOM | PARTITIONED,
    "block 8k": _block(8),
    "block 16k": _block(16),
    "block 32k": _block(32),
    "hash index": HASH,
    "no compression": _compression("NO"),
    "lz4": _compression("LZ4"),
    "zstd below": Candidate(
        raw=(_call("set_bottommost_compression_type", rocksdict.DBCompressionType.zstd()),)
    ),
    "zstd": _compression("ZSTD"),
    "lz4, zstd below": _compression("LZ4")
    | Candidate(raw=(_call("set_bottommost_compression_type", rocksdict.DBCompressionType.zstd()),)),
    "trigger 4": _trigger(4),
    "trigger 16": _trigger(16),
    "level": LEVEL,
    "level dynamic": DYNAMIC,
    "subcompactions 2": Candidate(db={"max_subcompactions": 2}),
    "readahead 0": Candidate(db={"compaction_readahead_size": 0}),
    "readahead 256k": Candidate(db={"compaction_readahead_size": 256 * KIB}),
    "universal 1.5": Candidate(raw=(_universal(max_size_amplification_percent=50),)),
    "universal 5": Candidate(raw=(_universal(max_size_amplification_percent=400),)),
    "universal ratio 20": Candidate(raw=(_universal(size_ratio=20),)),
    "blobs 256": _blobs(256),
    "blobs 4096": _blobs(4096),
    "blobs 256, not collected": _blobs(256, collect=False),
    "bloom partitioned, blobs 256": BLOOM | PARTITIONED | _blobs(256),
    "direct reads": Candidate(db={"use_direct_reads": True}),
    "row cache": Candidate(raw=(lambda options, cache: options.set_row_cache(cache),)),
    "bloom, spills bare": BLOOM | Candidate(spill=_compression("NO")),
    "bloom, spills trigger 32": BLOOM | Candidate(spill=_trigger(32)),
    "bloom, spills not merged": BLOOM | Candidate(spill=Candidate(column={"compaction_style": "NONE"})),
    "bloom, spills bare, 32": BLOOM | Candidate(spill=_trigger(32) | _compression("NO")),
    "bloom in spills": Candidate(spill=BLOOM),
    "bloom partitioned, spills bare, 32": BLOOM
    | PARTITIONED
    | Candidate(spill=_trigger(32) | _compression("NO")),
}
