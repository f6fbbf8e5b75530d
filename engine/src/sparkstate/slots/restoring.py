"""Filling a slot's fresh stores from a checkpoint or savepoint, and describing what they hold."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from sparkstate import storage
from sparkstate.backends import canonical, dropping
from sparkstate.backends.base import ShardStore, TableSpec
from sparkstate.checkpoint import operator_parts
from sparkstate.checkpoint.downloader import Downloader
from sparkstate.checkpoint.transfer import Transfer
from sparkstate.handles import ShardHandle, StateMeta
from sparkstate.keygroups import KeySpace
from sparkstate.local_state import folders, inheritance, reuse
from sparkstate.slots import protocol
from sparkstate.slots.plan import SlotPlan

_SHARDS_AHEAD = 2
"""Shards that are downloaded while another one is opened. All at once would fill the transfers' queue with the files
of shards that nobody waits for yet."""
_OPENED_AT_ONCE = 8
"""Shards whose databases are opened side by side: each waits several times for the disk, which is still busy with what
the slots before have written. Rows in the canonical format keep a processor busy instead,
and are loaded shard by shard."""


def restore_shards(
    plan: SlotPlan,
    stores: Mapping[int, ShardStore],
    request: protocol.RestoreShards,
    directory: Path,
    transfer: Transfer,
    renew: Callable[[int], ShardStore],
) -> protocol.Restored:
    """Find or download, and verify, what this slot's shards need, then fill them. Whole shards only: nothing is split.

    ``directory`` takes the files until then; it lies in the slot's folder. ``transfer`` counts the
    bytes that have arrived. ``renew`` puts an empty store into ``stores`` in the place of a shard's present one.
    """
    base = directory.parent.parent
    if not (request.shards and plan.backend.local_recovery):
        inheritance.discard(base)
    if not request.shards:
        return protocol.Restored(bytes_read=0)
    store = storage.open_made(request.base_url, plan.s3)
    downloader = Downloader(store, plan.backend.transfer_threads, transfer)
    ahead = ThreadPoolExecutor(_SHARDS_AHEAD, thread_name_prefix="restore")
    opening = ThreadPoolExecutor(_OPENED_AT_ONCE, thread_name_prefix="open")
    try:
        wanted = [(handle, folders.shard_folder(directory, handle.shard)) for handle in request.shards]
        right = [reuse.link_files(base, handle, folder) for handle, folder in wanted]
        downloader.expect(list(zip(request.shards, right, strict=True)), directory)
        fetched = [
            (handle, ahead.submit(downloader.fetch, handle, folder, names))
            for (handle, folder), names in zip(wanted, right, strict=True)
        ]
        opened = []
        for handle, files in fetched:
            folder = folders.shard_folder(directory, handle.shard)
            opened.append(
                opening.submit(_open, stores[handle.shard], handle, files.result(), folder, request.dropped)
            )
            if handle.format == canonical.FORMAT:
                opened[-1].result()
        for each in opened:
            each.result()
    finally:
        downloader.close()
        ahead.shutdown(wait=True, cancel_futures=True)
        opening.shutdown(wait=True, cancel_futures=True)
    if request.dropped:
        _drop(stores, request.dropped, directory, renew)
    return protocol.Restored(
        bytes_read=sum(file.size for handle in request.shards for file in handle.files),
        bytes_found=downloader.found_bytes,
        states=tuple(f"{meta.uid}/{meta.name}" for meta in state_metas(stores)),
    )


def restore_operator_state(
    plan: SlotPlan, request: protocol.RestoreShards
) -> tuple[operator_parts.StoredState, ...]:
    """This slot's share of the operator state that all slots of the snapshot had."""
    if not request.operator_state:
        return ()
    downloader = Downloader(storage.open_made(request.base_url, plan.s3), plan.backend.transfer_threads)
    with contextlib.closing(downloader):
        parts = operator_parts.read(downloader, request.operator_state, request.base_url)
    return operator_parts.dealt_to(plan.slot, plan.slots, parts)


def operator_metas(states: Iterable[operator_parts.StoredState]) -> list[StateMeta]:
    """Every operator state, as ``_metadata`` names it beside the keyed ones."""
    return [
        StateMeta(
            uid=state.uid,
            name=state.name,
            kind=operator_parts.KINDS[state.mode],
            key_type="",
            namespace_type="",
            value_type=state.value_type,
            user_key_type=state.key_type,
        )
        for state in states
    ]


def _open(
    store: ShardStore, handle: ShardHandle, files: Mapping[str, Path], folder: Path, dropped: Collection[str]
) -> None:
    if dropped and handle.format == canonical.FORMAT:
        files = dropping.without(files, dropped)
    store.restore(files, handle.format)
    shutil.rmtree(folder, ignore_errors=True)


def _drop(
    stores: Mapping[int, ShardStore],
    uids: Collection[str],
    directory: Path,
    renew: Callable[[int], ShardStore],
) -> None:
    """Store by store: one that is filled a second time is not in memory twice, nor are two of them."""
    for shard in list(stores):
        folder = folders.shard_folder(directory, shard)
        dropping.drop(stores[shard], uids, folder, partial(renew, shard))
        shutil.rmtree(folder, ignore_errors=True)


def shards_needed(
    plan_space: KeySpace, slot: int, slots: int, handles: Iterable[ShardHandle]
) -> tuple[ShardHandle, ...]:
    """The handles of the shards that slot ``slot`` of ``slots`` owns."""
    mine = plan_space.shards_of_slot(slot, slots)
    return tuple(handle for handle in handles if handle.shard in mine)


def state_metas(stores: Mapping[int, ShardStore]) -> list[StateMeta]:
    """Every table of the slot once, in order."""
    specs: dict[tuple[str, str], TableSpec] = {}
    for store in stores.values():
        for spec in store.tables():
            specs.setdefault((spec.uid, spec.name), spec)
    return [_meta(spec) for _, spec in sorted(specs.items())]


def _meta(spec: TableSpec) -> StateMeta:
    return StateMeta(**msgspec.structs.asdict(canonical.describe_table(spec)))
