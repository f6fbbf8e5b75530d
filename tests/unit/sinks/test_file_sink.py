from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.storage.stores import Crash, HookedStore

from sparkstate import errors, storage
from sparkstate.settings import S3Settings
from sparkstate.sinks import file_sink, publication
from sparkstate.sinks.file_sink import FileSink, FileSinkWriter
from sparkstate.storage.objectstore import ObjectInfo, ObjectStore

LINEAGE = "abcdef0123456789"


def writer(tmp_path: Path, sink: FileSink, incarnation: int = 1) -> FileSinkWriter:
    file_sink.begin(storage.open_store(sink.path), LINEAGE, incarnation)  # by the driver
    return FileSinkWriter(sink, "totals", 2, incarnation, LINEAGE, tmp_path / "held", S3Settings())


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"v": pa.array(values, pa.int64())})


def staged(
    tmp_path: Path, sink: FileSink, *values: int, checkpoint: int = 5, epoch: int = 17
) -> file_sink.Committable:
    made = writer(tmp_path, sink)
    made.hold([batch(*values)])
    rotated = made.rotate(checkpoint)
    assert rotated
    return made.stage(rotated, checkpoint, epoch)


def publish(store: ObjectStore, committable: file_sink.Committable, now_ms: int = 0) -> bool:
    return publication.publish(store, committable, now_ms)


def visible(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith(("_", ".")))


def test_nothing_is_visible_before_it_is_published_and_everything_after(tmp_path: Path) -> None:
    committable = staged(tmp_path, FileSink(str(tmp_path / "out")), 1, 2)
    assert visible(tmp_path / "out") == []
    assert publish(storage.open_store(str(tmp_path / "out")), committable)
    assert visible(tmp_path / "out") == ["part-00001-000000017-002-totals-abcdef01.parquet"]
    assert pq.read_table(tmp_path / "out" / committable.final)["v"].to_pylist() == [1, 2]
    assert committable.rows == 2


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    committable = staged(tmp_path, FileSink(str(tmp_path / "out")), 1)
    store = storage.open_store(str(tmp_path / "out"))
    assert publish(store, committable)
    before = (tmp_path / "out" / committable.final).read_bytes()
    assert not publish(store, committable)
    assert (tmp_path / "out" / committable.final).read_bytes() == before


def test_a_staged_file_that_is_gone_is_an_error_and_not_a_silence(tmp_path: Path) -> None:
    committable = staged(tmp_path, FileSink(str(tmp_path / "out")), 1)
    (tmp_path / "out" / committable.staged).unlink()
    with pytest.raises(errors.CorruptData, match="is missing"):
        publish(storage.open_store(str(tmp_path / "out")), committable)


def test_a_file_that_its_reader_has_taken_is_not_published_again(tmp_path: Path) -> None:
    committable = staged(tmp_path, FileSink(str(tmp_path / "out")), 1)
    content = (tmp_path / "out" / committable.staged).read_bytes()
    store = storage.open_store(str(tmp_path / "out"))
    publish(store, committable)
    (tmp_path / "out" / committable.final).unlink()
    assert not publish(store, committable)
    # As if the driver had died before it removed the staged file.
    (tmp_path / "out" / committable.staged).write_bytes(content)
    assert not publish(store, committable)
    assert visible(tmp_path / "out") == []
    publication.forget(store, [committable])
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == [file_sink.BEGUN]


@pytest.mark.parametrize("reader", ["reads", "takes"])
def test_a_file_that_another_publishes_meanwhile_is_published_and_not_missing(
    tmp_path: Path, reader: str
) -> None:
    """The thread of an older incarnation may finish it while the new one has begun to."""
    committable = staged(tmp_path, FileSink(str(tmp_path / "out")), 1)
    inner = storage.open_store(str(tmp_path / "out"))
    store = HookedStore(inner)

    def publish_first(operation: str, _key: str) -> None:
        if operation == "begin_move":
            assert publish(inner, committable)
            if reader == "takes":
                (tmp_path / "out" / committable.final).unlink()
            else:
                publication.forget(inner, [committable])

    store.before = publish_first
    assert not publish(store, committable)
    assert visible(tmp_path / "out") == ([committable.final] if reader == "reads" else [])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("reader", ["takes", "reads"])
def test_a_publication_that_is_cut_off_at_any_request_is_completed_and_shows_the_file_once(
    tmp_path: Path, reader: str, after: bool
) -> None:
    sink = FileSink(str(tmp_path / "out"))
    plain = storage.open_store(sink.path)
    appeared: list[str] = []

    def look() -> None:
        for name in visible(tmp_path / "out"):
            if name not in appeared or reader == "takes":
                appeared.append(name)
            if reader == "takes":
                (tmp_path / "out" / name).unlink()

    for crash_at in itertools.count(1):
        committable = staged(tmp_path, sink, 1, checkpoint=crash_at, epoch=crash_at)
        store = HookedStore(plain)

        seen = itertools.count(1)

        def crash(_operation: str, _key: str, seen: Iterator[int] = seen, crash_at: int = crash_at) -> None:
            look()
            if next(seen) == crash_at:
                raise Crash

        store.after, store.before = (crash, store.before) if after else (store.after, crash)
        with contextlib.suppress(Crash):
            publish(store, committable)
            break
        look()
        publish(plain, committable)
        look()
        assert appeared.count(committable.final) == 1
    assert crash_at == (6 if after else 8)  # two looks find nothing: nothing is after them
    look()
    assert sorted(appeared) == sorted(set(appeared))


def test_what_the_storage_no_longer_knows_of_a_publication_is_published_anew_where_it_is_old(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a bucket's rule that drops unfinished uploads does, days after a driver died between two requests."""
    committable, ticket, dropping = cut_off_before_it_appears(tmp_path)
    hours = 3_600_000
    assert publish(dropping, committable, ticket.modified_ms + 13 * hours)
    assert dropping.used == ["rename", "another"]
    assert visible(tmp_path / "out") == [committable.final]
    assert "it comes twice" in caplog.text


def test_a_ticket_that_is_not_old_and_not_honoured_was_used_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    committable, ticket, dropping = cut_off_before_it_appears(tmp_path)
    assert not publish(dropping, committable, ticket.modified_ms + 3_600_000)
    assert visible(tmp_path / "out") == []
    assert "unless somebody has aborted its upload" in caplog.text


def test_a_file_that_an_older_version_has_copied_is_not_touched_again(tmp_path: Path) -> None:
    """It died between the copy and its note, and knew no tickets; a reader that has read the file would see another."""
    committable = staged(tmp_path, FileSink(str(tmp_path / "out")), 1)
    out = tmp_path / "out"
    shutil.copy(out / committable.staged, out / committable.final)
    before = (out / committable.final).stat()
    store = storage.open_store(str(out))
    assert not publication.publish(store, committable, 0, restored=True)
    assert (out / committable.final).stat() == before
    (out / committable.final).unlink()
    assert not publication.publish(store, committable, 0, restored=True)
    assert visible(out) == []


def test_a_driver_that_was_fenced_off_and_goes_on_too_late_shows_nothing(tmp_path: Path) -> None:
    committable = staged(tmp_path, FileSink(str(tmp_path / "out")), 1)
    plain = storage.open_store(str(tmp_path / "out"))
    late = HookedStore(plain)

    def meanwhile(operation: str, _key: str) -> None:
        if operation == "put_if_absent" and visible(tmp_path / "out") == []:
            assert publish(plain, committable)
            publication.forget(plain, [committable])

    late.before = meanwhile
    assert not publish(late, committable)
    assert visible(tmp_path / "out") == [committable.final]


def cut_off_before_it_appears(folder: Path) -> tuple[file_sink.Committable, ObjectInfo, Dropping]:
    """A driver dies when the ticket is stored and not used; then the storage drops it."""
    committable = staged(folder, FileSink(str(folder / "out")), 1)
    store = HookedStore(storage.open_store(str(folder / "out")))

    def crash(operation: str, _key: str) -> None:
        if operation == "move":
            raise Crash

    store.before = crash
    with pytest.raises(Crash):
        publish(store, committable)
    (ticket,) = (info for info in store.list("") if info.key.endswith(".ticket"))
    return committable, ticket, Dropping(store.store)


class Dropping(HookedStore):
    """Has dropped the first ticket, and makes others."""

    used: list[str]

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.used = []

    def begin_move(self, source: str, target: str) -> str:
        super().begin_move(source, target)
        return "another"

    def move(self, ticket: str, source: str, target: str, size: int) -> bool:
        self.used.append(ticket)
        return ticket == "another" and super().move(ticket, source, target, size)


def test_what_an_older_version_published_may_be_gone(tmp_path: Path) -> None:
    """It left no note, and removed what was staged only after it had published it."""
    committable = staged(tmp_path, FileSink(str(tmp_path / "out")), 1)
    (tmp_path / "out" / committable.staged).unlink()
    older = msgspec.structs.replace(committable, url="")
    assert not publish(storage.open_store(str(tmp_path / "out")), older)


def test_an_upload_that_fails_leaves_no_local_copy(tmp_path: Path) -> None:
    name = "000000005-002-totals-abcdef01.parquet"
    (tmp_path / "out" / file_sink.STAGING / LINEAGE / "00001" / name / "in-the-way").mkdir(parents=True)
    with pytest.raises(errors.StorageError):
        staged(tmp_path, FileSink(str(tmp_path / "out")), 1)
    assert [path.name for path in (tmp_path / "held").iterdir()] == ["rotated-totals-5.arrow"]


def test_without_output_there_is_no_file(tmp_path: Path) -> None:
    made = writer(tmp_path, FileSink(str(tmp_path / "out")))
    made.hold([batch()])
    assert made.rotate(1) == ()


def test_output_of_several_epochs_becomes_one_file_and_the_next_checkpoint_another(tmp_path: Path) -> None:
    made = writer(tmp_path, FileSink(str(tmp_path / "out"), "json"))
    store = storage.open_store(str(tmp_path / "out"))
    made.hold([batch(1)])
    made.hold([batch(2), batch(3)])
    for checkpoint, epoch in ((1, 8), (2, 9)):
        rotated = made.rotate(checkpoint)
        publish(store, made.stage(rotated, checkpoint, epoch))
        made.forget(rotated)
        made.hold([batch(4)])
    lines = [(tmp_path / "out" / name).read_text().splitlines() for name in visible(tmp_path / "out")]
    assert [[json.loads(line)["v"] for line in file] for file in lines] == [[1, 2, 3], [4]]


def test_csv_has_a_header_and_the_wanted_delimiter(tmp_path: Path) -> None:
    committable = staged(tmp_path, FileSink(str(tmp_path / "out"), "csv", {"delimiter": ";"}), 7)
    assert (tmp_path / "out" / committable.staged).read_text() == '"v"\n7\n'


def test_a_sweep_takes_what_older_incarnations_staged_and_nothing_else(tmp_path: Path) -> None:
    old = staged(tmp_path, FileSink(str(tmp_path / "out")), 1)
    store = storage.open_store(str(tmp_path / "out"))
    assert file_sink.sweep_staging(store, "another-lineage", 9) == 0
    assert file_sink.sweep_staging(store, LINEAGE, 1) == 0
    assert file_sink.sweep_staging(store, LINEAGE, 2) == 1
    assert not (tmp_path / "out" / old.staged).exists()


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [("", "parquet", "empty"), ("/x", "orc", "is not known; use one of parquet, json, csv")],
)
def test_a_wrong_sink_says_what_to_write(path: str, kind: str, message: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=message):
        FileSink(path, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("csv", {"compression": "gzip"}, "has 'compression'; the options of csv are: delimiter"),
        ("json", {"lines": "true"}, "has 'lines'; the options of json are: none"),
        ("parquet", {"compresion": "zstd"}, "has 'compresion'; the options of parquet are: compression"),
    ],
)
def test_options_that_nobody_reads_are_refused(kind: Any, options: dict[str, str], message: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=message):
        FileSink("/out", kind, options)


@pytest.mark.parametrize("column", [pa.binary(), pa.large_binary(), pa.binary(4), pa.binary_view()], ids=str)
def test_csv_takes_no_bytes_of_which_some_may_be_no_text(column: pa.DataType) -> None:
    """The first value that is no UTF-8 failed a checkpoint, and each one after it."""
    schema = pa.schema([pa.field("c", pa.int64()), pa.field("raw", column)])
    with pytest.raises(errors.SpecInvalid, match=r"sink of 'totals' .* column 'raw' is binary, .*base64"):
        FileSink("/out", "csv").check(schema, "totals")
    FileSink("/out", "json").check(schema, "totals")


@pytest.mark.parametrize(
    ("sink", "column"),
    [
        (FileSink("/out", options={"compression": "snapy"}), pa.int64()),
        (FileSink("/out", "csv", {"delimiter": "||"}), pa.int64()),
        (FileSink("/out", "csv", {"delimiter": ""}), pa.int64()),
        (FileSink("/out", "csv"), pa.list_(pa.int64())),
        (FileSink("/out", "csv"), pa.struct([("a", pa.int64())])),
        (FileSink("/out", "csv"), pa.map_(pa.string(), pa.int64())),
    ],
    ids=str,
)
def test_what_no_file_can_hold_is_found_before_the_first_checkpoint(
    sink: FileSink, column: pa.DataType
) -> None:
    with pytest.raises(
        errors.SpecInvalid, match=r"the sink of 'totals' is FileSink\('/out'.* cannot write its columns"
    ):
        sink.check(pa.schema([pa.field("c", column)]), "totals")


@pytest.mark.parametrize(
    "sink",
    [
        FileSink("/out"),
        FileSink("/out", options={"compression": "ZSTD"}),
        FileSink("/out", options={"compression": "none"}),
        FileSink("/out", "csv", {"delimiter": "\t"}),
        FileSink("/out", "json"),
    ],
    ids=str,
)
def test_a_row_of_all_other_types_can_be_written(sink: FileSink) -> None:
    kinds = [
        pa.int8(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
        pa.string(),
        pa.date32(),
    ]
    kinds += [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(12, 2), pa.duration("us")]
    if sink.format != "csv":
        kinds += [pa.binary()]
        kinds += [pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64()), pa.struct([("a", pa.int64())])]
        kinds += [
            pa.struct([pa.field("a", pa.int64(), nullable=False)]),
            pa.list_(pa.field("e", pa.int8(), False)),
        ]
    sink.check(pa.schema([pa.field(f"c{n}", kind, n > 2) for n, kind in enumerate(kinds)]), "totals")


def test_the_output_of_a_checkpoint_that_failed_is_in_the_next_one(tmp_path: Path) -> None:
    made = writer(tmp_path, FileSink(str(tmp_path / "out")))
    made.hold([batch(1)])
    failed = made.rotate(1)
    made.stage(failed, 1, 8)
    made.hold([batch(2)])
    committable = made.stage(made.rotate(2), 2, 9)
    assert pq.read_table(tmp_path / "out" / committable.staged)["v"].to_pylist() == [1, 2]
    assert committable.rows == 2
