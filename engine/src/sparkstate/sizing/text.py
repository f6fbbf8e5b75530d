"""An estimate as a table for people and as a document for programs, held against what the job gives."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from sparkstate.settings import MIB, JobSettings
from sparkstate.sizing.estimate import BUSY, Estimate, given_processors
from sparkstate_spec import units

HEADER = ("NEED", "VALUE", "THE JOB")
FOOT = (
    "from constants measured on one machine; docs/sizing.md has each with its command\n"
    "off by: bytes 25 %, requests 10 %, processors a factor of 2, seconds a factor of 3"
)
_SIZES = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


_FUNCTIONS = {
    "record": "a function that is called per record",
    "record-compiled": "a function that is called per record, on the compiled path",
    "batch": "a function on Arrow batches",
    "batch-per-key": "a function on Arrow batches that answers once per key",
}


_VALUES = {"any": "", "numbers": " of numbers"}


def title(needed: Estimate, job: JobSettings) -> str:
    """The load in words."""
    size = needed.size
    return (
        f"{size.rows_per_s:,} rows/s, {size.keys:,} keys of {size.key_bytes:,} bytes{_VALUES[needed.values]}; "
        f"{job.backend.type}, {_FUNCTIONS[needed.function]}"
    )


def rows(needed: Estimate, job: JobSettings) -> list[tuple[str, str, str]]:
    """The table's rows: what is needed, how much, and what the job has or should have."""
    return [
        *_processor_rows(needed, job),
        _state_row(needed, job),
        ("checkpoint, first", size_text(needed.checkpoint.first), ""),
        ("checkpoint, each later one", size_text(needed.checkpoint.each), _how_often(job)),
        (
            "checkpoints in the bucket",
            size_text(needed.checkpoint.stored),
            f"retained: {job.checkpoint.retained}",
        ),
        ("upload", f"{size_text(needed.upload_bytes_per_s)}/s", "on average"),
        (
            "rows between tasks and slots",
            f"{size_text(needed.row_bytes_per_s)}/s",
            "rows of two longs, both ways",
        ),
        ("S3 requests an hour", _request_text(needed), f"shards: {job.shards or 'by default'}"),
        _recovery_row(needed),
    ]


def document(needed: Estimate, job: JobSettings) -> dict[str, Any]:
    """The same numbers, unrounded, with their units in the names."""
    recovery = needed.recovery
    return {
        "rowsPerSecond": needed.size.rows_per_s,
        "keys": needed.size.keys,
        "bytesPerKey": needed.size.key_bytes,
        "function": needed.function,
        "values": needed.values,
        "processors": {
            "spark": round(needed.processors.spark, 3),
            "slots": round(needed.processors.slots, 3),
            "needed": needed.processors.to_give,
            "given": given_processors(job),
        },
        "slots": {"needed": needed.slots_needed, "given": job.slots},
        "stateMemoryPerSlotBytes": needed.state.memory,
        "diskPerSlotBytes": needed.state.disk,
        "cachedShare": round(needed.state.cached, 3),
        "checkpoint": {
            f"{name}Bytes": value for name, value in dataclasses.asdict(needed.checkpoint).items()
        },
        "uploadBytesPerSecond": needed.upload_bytes_per_s,
        "rowBytesPerSecond": needed.row_bytes_per_s,
        "requestsPerHour": dataclasses.asdict(needed.requests),
        "recoverySeconds": {
            "restart": recovery.restart_s,
            "restore": round(recovery.restore_s, 1),
            "catchUp": None if recovery.catch_up_s is None else round(recovery.catch_up_s, 1),
        },
    }


def size_text(size: int) -> str:
    """Bytes in the largest unit of which there is at least one, with three digits: ``1.91 GiB``, ``512 B``."""
    for unit, each in _SIZES:
        if size >= each:
            number = size / each
            return f"{number:,.{max(0, 2 - int(math.log10(number)))}f} {unit}"
    return f"{size} B"


def _processor_rows(needed: Estimate, job: JobSettings) -> list[tuple[str, str, str]]:
    processors, given = needed.processors, given_processors(job)
    field = "driver.cores" if job.deployment == "local" else "executor.cores x executors"
    busy = f"{processors.busy:.2f} busy (Spark {processors.spark:.2f}, slots {processors.slots:.2f})"
    return [
        ("processors", f"{processors.to_give}", _verdict(f"{field}: {given}", given >= processors.to_give)),
        ("", busy, f"may be at most {BUSY:.0%} busy"),
        (
            "slots",
            f"{needed.slots_needed}",
            _verdict(f"slots: {job.slots}", job.slots >= needed.slots_needed),
        ),
    ]


def _state_row(needed: Estimate, job: JobSettings) -> tuple[str, str, str]:
    state = needed.state
    if state.memory is None:
        assert state.disk is not None
        kept = "all of it" if state.cached == 1 else f"{state.cached:.0%} of it"
        return "disk of a slot", size_text(state.disk), f"managed memory holds {kept}"
    has = job.backend.heap_state_bytes
    told = f"stateMemoryPerSlot: {units.format_bytes(has)}"
    return "memory of a slot's state", size_text(state.memory), _verdict(told, has >= state.memory)


def remedies(needed: Estimate, job: JobSettings) -> list[str]:
    """One sentence for each field of the job that is too small."""
    found = []
    field = "driver.cores" if job.deployment == "local" else "executor.cores"
    if needed.processors.to_give > given_processors(job):
        found.append(f"raise {field}, until the job has {needed.processors.to_give} processors")
    if needed.processors.slots_needed > job.slots:
        found.append(f"raise slots to {needed.processors.slots_needed}, for the rows")
    memory = needed.state.memory
    if memory is not None and memory > job.backend.heap_state_bytes:
        enough = f"{math.ceil(memory / MIB)}Mi"
        found.append(
            f"the state does not fit: raise stateMemoryPerSlot to {enough}, or slots to {needed.state.memory_slots}, "
            "or set stateBackend.type: rocksdb"
        )
    return found


def _verdict(has: str, enough: bool) -> str:
    return f"{has}, {'enough' if enough else 'TOO LITTLE'}"


def _how_often(job: JobSettings) -> str:
    kind = "incremental" if job.backend.type == "rocksdb" and job.backend.incremental else "full"
    return f"{kind}, every {units.format_duration(round(job.checkpoint.interval_s * 1000))}"


def _request_text(needed: Estimate) -> str:
    asked = needed.requests
    return f"{asked.put:,} PUT, {asked.get:,} GET, {asked.list:,} LIST, {asked.delete:,} DELETE"


def _recovery_row(needed: Estimate) -> tuple[str, str, str]:
    recovery = needed.recovery
    parts = f"restart {recovery.restart_s:.0f}, restore {recovery.restore_s:.0f}"
    if recovery.catch_up_s is None:
        return "recovery", "never caught up", f"{parts} s, and no processor left for the backlog"
    total = recovery.restart_s + recovery.restore_s + recovery.catch_up_s
    return "recovery", f"{total:.0f} s", f"{parts}, catch up {recovery.catch_up_s:.0f}"
