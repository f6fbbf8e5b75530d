"""A file source that has seen many files: its position is stored in pieces, and a restore goes on exactly."""

from __future__ import annotations

import time
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from sparkstate.checkpoint import Downloader
from sparkstate.checkpoint import metadata as codec
from sparkstate.checkpoint.metadata import CheckpointMetadata
from sparkstate.spark.position import PART_BYTES, Archive
from sparkstate.spark.seen_files import Forgotten
from sparkstate.storage import open_store
from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.fault_on("hashmap"), pytest.mark.spark]
FILES, AT_ONCE = 147, 7
FORGETS_AT = 16
"""The log has 112 files of 600 bytes then."""
FORGOTTEN = 4 * AT_ONCE
"""At least: those of the first entries are too old by then. A first look leaves 70 of 112, the next comes at double."""


def many_files(folder: Path) -> list[totals.Row]:
    """Write them; the rows of all."""
    return [
        row
        for number in range(FILES)
        for row in totals.make_input(folder, files=1, rows=8, first=number, prefix=f"of-{number}")
    ]


def newest_checkpoint(folder: Path) -> tuple[Path, CheckpointMetadata]:
    """The lineage's folder and what the newest checkpoint says of itself; the one before may not be deleted yet."""
    found = folder.glob("checkpoints/*/chk-*/_metadata")
    path = max(found, key=lambda each: int(each.parent.name.removeprefix("chk-")))
    return path.parents[1], codec.decode(path.read_bytes(), str(path))


@pytest.mark.fault(
    broken="the driver is killed (SIGKILL); its file source has seen so many files that Spark has compacted their log",
    when="between two checkpoints, and again in the next attempt",
    expected="each attempt goes on from the newest compact entry and what follows it; output exact",
)
def test_a_source_that_has_seen_many_files_goes_on_exactly(tmp_path: Path) -> None:
    folder = tmp_path / ("in-" + "x" * 200)  # long paths make a large log of few files
    rows = many_files(folder)
    document = driving.manifest(
        tmp_path,
        "totals.py",
        params={"input": str(folder), "files": str(AT_ONCE), "delay": "1000000"},
        sparkConf={"spark.sql.streaming.fileSource.log.compactInterval": "4"},
    )
    for attempt, epoch in ((1, 13), (2, 17)):
        with driving.Driver(tmp_path, document, attempt=attempt) as driver:
            driving.wait_for(
                lambda epoch=epoch: any(  # type: ignore[misc]
                    one["phase"] == "checkpoint-complete" and one["epoch"] >= epoch for one in driver.phases()
                ),
                driving.PATIENCE_S,
                f"a checkpoint of epoch {epoch}",
                driver.process,
            )
            driver.process.kill()
            driver.wait()
    root, metadata = newest_checkpoint(tmp_path)
    (part,) = [handle for handle in metadata.source_files if handle.name.startswith("position-")]
    downloader = Downloader(open_store(str(root)), 1)
    assert metadata.source_position is not None
    archive = downloader.read(metadata.source_position)
    downloader.close()
    assert archive.count(b".compact") == 2, "one compact entry and its checksum"
    assert part.size + len(archive) < PART_BYTES, "of a log of more than that"
    with driving.Driver(tmp_path, document, attempt=3) as driver:
        driver.finish()
    totals.check(tmp_path / "out", rows)


@pytest.mark.fault(
    broken="the driver is killed (SIGKILL); then the job is changed to remember files for longer (maxFileAge)",
    when="its file source has forgotten files that are older than it remembers",
    expected="the longer time is refused before a file is read twice; with the old one output is exact",
)
def test_a_source_forgets_old_files_and_reads_none_of_them_again(tmp_path: Path) -> None:
    folder = tmp_path / ("in-" + "x" * 240) / ("and-" + "y" * 240)
    rows = many_files(folder)

    def document(age: str, files: int = AT_ONCE) -> dict[str, object]:
        return driving.manifest(
            tmp_path,
            "totals.py",
            params={"input": str(folder), "files": str(files), "delay": "1000000", "max_file_age": age},
            sparkConf={"spark.sql.streaming.fileSource.log.compactInterval": "4"},
        )

    with driving.Driver(tmp_path, document("20s"), attempt=1) as driver:
        driving.wait_for(
            lambda: any(
                one["phase"] == "checkpoint-complete" and one["epoch"] >= FORGETS_AT
                for one in driver.phases()
            ),
            driving.PATIENCE_S,
            f"a checkpoint of epoch {FORGETS_AT}",
            driver.process,
        )
        driver.process.kill()
        driver.wait()
    root, metadata = newest_checkpoint(tmp_path)
    downloader = Downloader(open_store(str(root)), 1)
    assert metadata.source_position is not None
    archive = msgspec.msgpack.decode(downloader.read(metadata.source_position), type=Archive)
    stored = {handle.name: handle for handle in metadata.source_files}
    for path, name in archive.parts.items():
        # On a busy machine the kill comes one compact entry later.
        read = (int(Path(path).stem) + 1) * AT_ONCE
        listed = zlib.decompress(downloader.read(stored[name])).count(b'"path"')
        assert 20 <= listed <= read - FORGOTTEN, f"{path}, of {read} files"
    assert archive.parts
    downloader.close()
    forgotten = msgspec.json.decode(archive.files["sources/0/forgotten"], type=Forgotten)
    # The shortest age that reaches back to a forgotten file, from the newest that was read; files lie a second apart.
    newest_ms = totals.changed_s((archive.epoch + 1) * AT_ONCE - 1) * 1000
    too_long_s = (newest_ms - forgotten.before_ms) // 1000 + 1
    # All that are left in one epoch: with them the source remembers no further back than what was forgotten, but they
    # were chosen together with some that it had read.
    with driving.Driver(tmp_path, document(f"{too_long_s}s", files=1000), attempt=2) as driver:
        assert driver.wait() == 3, driver.log()
        assert "Set maxFileAge to at most 20000ms" in driver.log()
    with driving.Driver(tmp_path, document("20s"), attempt=3) as driver:
        driver.finish()
    totals.check(tmp_path / "out", rows)


@pytest.mark.extra
def test_compact_entries_of_a_source_s_log_do_not_pile_up_on_the_driver_s_disk(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    rows = many_files(folder)
    document = driving.manifest(
        tmp_path,
        "totals.py",
        params={"input": str(folder), "files": "1", "delay": "1000000"},
        sparkConf={
            "spark.sql.streaming.fileSource.log.compactInterval": "2",
            "spark.sql.streaming.minBatchesToRetain": "4",
        },
    )
    ages_s: list[float] = []
    with driving.Driver(tmp_path, document, attempt=1) as driver:
        while driver.process.poll() is None:
            with suppress(FileNotFoundError):  # Spark deletes them meanwhile
                written = [path.stat().st_mtime for path in tmp_path.rglob("sources/0/*.compact")]
                ages_s += [max(written) - min(written)] if written else []
            time.sleep(0.2)
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert len(ages_s) > 20
    assert max(ages_s) < 14, "ten seconds, and what lies between two compactions"
