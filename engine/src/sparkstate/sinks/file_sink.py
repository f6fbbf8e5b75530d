"""``FileSink``: exactly-once files.

Every slot holds the output of its epochs on local disk. A checkpoint turns what is held into one staged file per slot
(below ``_sparkstate_staging/``, which Spark and pyarrow readers skip), named in the checkpoint's metadata. When the
checkpoint has committed, the driver publishes the staged files under their final names (``publication``); after a crash
a restore does it again unless the log says that it was done: a name is used once and its content never changes, and
readers may take away what is visible. The idea is that of Flink's ``FileSink`` with ``OnCheckpointRollingPolicy``.

Final names: ``part-<incarnation>-<last epoch>-<slot>-<sink>-<lineage>.<format>``, so that a reader can tell up to which
epoch a file reaches.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from sparkstate import errors, settings, storage
from sparkstate.checkpoint.metadata import Committable
from sparkstate.sinks import far_times, json_rows
from sparkstate.storage import arriving, naming
from sparkstate.storage.objectstore import ObjectStore

Format = Literal["parquet", "json", "csv"]
_OPTIONS: Mapping[str, frozenset[str]] = {
    "parquet": frozenset({"compression"}),
    "json": frozenset(),
    "csv": frozenset({"delimiter"}),
}
STAGING = "_sparkstate_staging"
BEGUN = "begun"
"""The driver's mark in the staging folder of an incarnation."""


@dataclass(frozen=True)
class FileSink:
    """Write an operator's output as files, each record exactly once.

    ``path`` is a folder (an absolute path or ``file://``) or ``s3://bucket/prefix``; ``format`` is ``parquet``
    (default), ``json`` (one object a line; ``docs/formats.md`` has the form of each type) or ``csv``. Files appear when
    a checkpoint commits, one per slot with output.
    """

    path: str
    format: Format = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    """``compression`` for parquet (default ``snappy``); ``delimiter`` for csv, one character (default a comma)."""

    def __post_init__(self) -> None:
        if not self.path:
            raise errors.SpecInvalid("FileSink(path=…) is empty; give a folder or an s3:// URL")
        if self.format not in get_args(Format):
            raise errors.SpecInvalid(
                f"FileSink(format={self.format!r}) is not known; use one of {', '.join(get_args(Format))}"
            )
        unknown = sorted(set(self.options) - _OPTIONS[self.format])
        if unknown:
            known = ", ".join(sorted(_OPTIONS[self.format])) or "none"
            raise errors.SpecInvalid(
                f"FileSink(options=…) has {', '.join(map(repr, unknown))}; the options of {self.format} are: {known}"
            )

    def check(self, schema: pa.Schema, uid: str) -> None:
        """Raise ``SpecInvalid`` unless rows of this schema can be written with these options; otherwise the first
        checkpoint would fail, and each one after it. A table is written to a file that nobody keeps. ``uid`` is the
        name of the sink.
        """
        binary = [field.name for field in schema if _is_binary(field.type)]
        if self.format == "csv" and binary:
            # pyarrow writes bytes as text until the first that are no UTF-8.
            raise errors.SpecInvalid(
                f"the sink of {uid!r} is FileSink({self.path!r}, format='csv'), and its column {binary[0]!r} is "
                "binary, for which CSV has no form; put out text (base64, for example), or use parquet or json"
            )
        # CSV refuses a column by its first row. Other forms do by the type, and some of their columns take no null.
        rows = int(self.format == "csv")
        table = pa.table({str(n): pa.nulls(rows, each.type) for n, each in enumerate(schema)})
        if not rows:
            table = schema.empty_table()
        with tempfile.TemporaryDirectory() as folder:
            try:
                _WRITERS[self.format](table, Path(folder, "trial"), self.options)
            except (pa.ArrowException, ValueError, TypeError) as error:
                raise errors.SpecInvalid(
                    f"the sink of {uid!r} is FileSink({self.path!r}, format={self.format!r}, "
                    f"options={dict(self.options)!r}), and pyarrow cannot write its columns so: {error}"
                ) from error


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(test(kind) for test in tests)


def _write_parquet(table: pa.Table, target: Path, options: Mapping[str, str]) -> None:
    pyarrow.parquet.write_table(table, target, compression=options.get("compression", "snappy"))


def _write_csv(table: pa.Table, target: Path, options: Mapping[str, str]) -> None:
    pyarrow.csv.write_csv(
        _with_texts(table),
        target,
        pyarrow.csv.WriteOptions(delimiter=options.get("delimiter", ","), quoting_style="needed"),
    )


def _with_texts(table: pa.Table) -> pa.Table:
    """The table with texts for the columns of which Arrow writes values in a form that Spark reads otherwise."""
    for index, column in enumerate(table.columns):
        texts = None
        if far_times.is_time(column.type) and far_times.has_far_times(column):
            texts = far_times.csv_texts(column)
        elif pa.types.is_floating(column.type):
            texts = _not_finite_texts(column)
        if texts is not None:
            table = table.set_column(index, table.field(index).with_type(pa.string()), texts)
    return table


def _not_finite_texts(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Spark reads Arrow's ``nan`` and ``inf`` as null. The texts are those of Java, which pandas knows as well; None if
    all numbers are finite."""
    is_finite = pc.is_finite(column)
    if pc.all(is_finite, skip_nulls=True).as_py():
        return None
    infinite = pc.if_else(pc.less(column, 0), "-Infinity", "Infinity")
    return pc.if_else(is_finite, column.cast(pa.string()), pc.if_else(pc.is_nan(column), "NaN", infinite))


def _write_json(table: pa.Table, target: Path, options: Mapping[str, str]) -> None:
    del options
    with target.open("w", encoding="utf-8") as file:
        for batch in table.to_batches():
            file.writelines(f"{line}\n" for line in json_rows.lines(batch))


_WRITERS: dict[str, Callable[[pa.Table, Path, Mapping[str, str]], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "json": _write_json,
}


@dataclass(frozen=True)
class RotatedOutput:
    """Held output that was set aside: an Arrow file, its rows and its bytes."""

    path: Path
    rows: int
    size: int


class FileSinkWriter:
    """One slot's end of a ``FileSink``. ``directory`` is a private local folder."""

    def __init__(
        self,
        sink: FileSink,
        uid: str,
        slot: int,
        incarnation: int,
        lineage: str,
        directory: Path,
        s3: settings.S3Settings,
    ) -> None:
        self.sink = sink
        self.uid = uid
        self._slot = slot
        self._suffix = f"{slot:03d}-{uid}-{lineage[:8]}.{sink.format}"
        self._staging = _staging(lineage, incarnation)
        self._incarnation = incarnation
        self._directory = directory
        self._s3 = s3
        self._store: ObjectStore | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._held = directory / f"held-{uid}.arrow"
        self._rows = 0
        self._pending: list[RotatedOutput] = []
        directory.mkdir(parents=True, exist_ok=True)

    def hold(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep the output of a committed epoch until the next checkpoint."""
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if self._writer is None:
                self._writer = pa.ipc.new_file(str(self._held), batch.schema)
            self._writer.write_batch(batch)
            self._rows += batch.num_rows

    @property
    def held_bytes(self) -> int:
        """The output that is on the disk until a checkpoint has committed."""
        current = self._held.stat().st_size if self._writer is not None else 0
        return current + sum(part.size for part in tuple(self._pending))

    def rotate(self, checkpoint_id: int) -> tuple[RotatedOutput, ...]:
        """The short part of a checkpoint: set aside what is held. Output that was set aside for failed checkpoints
        comes along, until :meth:`forget`: the epochs that made it are committed and do not run again."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            path = self._directory / f"rotated-{self.uid}-{checkpoint_id}.arrow"
            self._held.rename(path)
            self._pending.append(RotatedOutput(path, self._rows, path.stat().st_size))
            self._rows = 0
        return tuple(self._pending)

    def stage(self, rotated: Sequence[RotatedOutput], checkpoint_id: int, epoch: int) -> Committable:
        """The long part: write one file in the sink's format and store it under its staging name."""
        target = self._directory / f"staged-{self.uid}-{checkpoint_id}.{self.sink.format}"
        try:
            self._write(rotated, target)
            return self._store_staged(rotated, target, checkpoint_id, epoch)
        finally:
            target.unlink(missing_ok=True)

    def _write(self, rotated: Sequence[RotatedOutput], target: Path) -> None:
        with contextlib.ExitStack() as stack:
            tables = [
                pa.ipc.open_file(stack.enter_context(pa.memory_map(str(part.path)))).read_all()
                for part in rotated
            ]
            _WRITERS[self.sink.format](pa.concat_tables(tables), target, self.sink.options)

    def _store_staged(
        self, rotated: Sequence[RotatedOutput], target: Path, checkpoint_id: int, epoch: int
    ) -> Committable:
        store = self._open_store()
        staged = Committable(
            sink=self.uid,
            slot=self._slot,
            staged=f"{self._staging}/{checkpoint_id:09d}-{self._suffix}",
            final=f"part-{self._incarnation:05d}-{epoch:09d}-{self._suffix}",
            size=target.stat().st_size,
            checksum=arriving.file_checksum(target),
            rows=sum(part.rows for part in rotated),
            url=store.url,
        )
        store.put_file(staged.staged, target)
        return staged

    def forget(self, rotated: Sequence[RotatedOutput]) -> None:
        """The checkpoint that staged these has committed: forget them."""
        for part in rotated:
            self._pending.remove(part)
            part.path.unlink(missing_ok=True)

    def _open_store(self) -> ObjectStore:
        if self._store is None:
            # The driver has made it: on a mount point without its volume a slot makes none, and writes nothing.
            store = storage.open_made(self.sink.path, self._s3)
            _require_begun(store, self._staging)
            self._store = store
        return self._store

    def close(self) -> None:
        """Drop what is held."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def begin(store: ObjectStore, lineage: str, incarnation: int) -> None:
    """Mark a sink's folder on a disk as that of an incarnation, for its slots. Idempotent.

    The folder may be the mount point itself, which is there without its volume; the mark is not. A bucket needs none.
    """
    if naming.is_local(store.url):
        with contextlib.suppress(errors.AlreadyExists):
            store.put_if_absent(f"{_staging(lineage, incarnation)}/{BEGUN}", b"")


def end(store: ObjectStore, lineage: str, incarnation: int) -> None:
    """Take that mark away, when no slot of the incarnation writes any more. Idempotent."""
    if naming.is_local(store.url):
        store.delete([f"{_staging(lineage, incarnation)}/{BEGUN}"])


def _require_begun(store: ObjectStore, staging: str) -> None:
    if not naming.is_local(store.url):
        return
    try:
        store.head(f"{staging}/{BEGUN}")
    except errors.NotFound as error:
        raise errors.StorageUnavailable(
            f"cannot write to {store.url}: the driver's mark {staging}/{BEGUN} is not there; is the volume mounted?"
        ) from error


def _staging(lineage: str, incarnation: int) -> str:
    return f"{STAGING}/{lineage}/{incarnation:05d}"


def sweep_staging(store: ObjectStore, lineage: str, before_incarnation: int) -> int:
    """Delete what incarnations before ``before_incarnation`` staged and never committed. Returns the number of files.

    Call it after the committables of the restored record were published.
    """
    prefix = f"{STAGING}/{lineage}/"
    old = [
        info.key
        for info in store.list(prefix)
        if info.key[len(prefix) :].split("/", 1)[0].isdigit()
        and int(info.key[len(prefix) :].split("/", 1)[0]) < before_incarnation
    ]
    store.delete(old)
    return sum(not key.endswith(f"/{BEGUN}") for key in old)


def discard_staged(store: ObjectStore, lineage: str, incarnation: int, checkpoint_id: int) -> int:
    """Delete what that incarnation staged for a checkpoint that never becomes complete. Returns the number of files."""
    staged = [info.key for info in store.list(f"{_staging(lineage, incarnation)}/{checkpoint_id:09d}-")]
    store.delete(staged)
    return len(staged)


def abort_uploads(
    store: ObjectStore,
    lineage: str,
    before_incarnation: int,
    before_ms: int | None = None,
    *,
    staged_before: int | None = None,
) -> int:
    """Drop what incarnations before ``before_incarnation`` had sent of files that they staged or published when they
    were killed, as far as it was begun before ``before_ms``. ``staged_before`` is the same for staged files alone: once
    its slots have ended, those of the present incarnation are dead as well. Returns the number of uploads.

    Call it after the committables of the restored record were published: an upload may be the one by which a file
    is to appear. The present incarnation's may still be needed at its end: the next one publishes by them what this one
    has committed and not published."""
    prefix = f"{STAGING}/{lineage}/"
    final = re.compile(rf"part-(\d+)-.*-{re.escape(lineage[:8])}\.[a-z]+")
    dead_staged = before_incarnation if staged_before is None else staged_before

    def is_dead(key: str) -> bool:
        match = final.fullmatch(key)
        number = match[1] if match else key.removeprefix(prefix).split("/", 1)[0]
        return number.isdigit() and int(number) < (before_incarnation if match else dead_staged)

    return sum(store.abort_uploads(each, is_dead, before_ms) for each in (prefix, "part-"))
