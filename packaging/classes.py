"""Makes the archive of Java classes with which Spark's JVMs start in job images. Used by the Dockerfile.

    classes.py /opt/sparkstate/spark

writes ``classes.jsa`` and ``classes.jar`` into that folder. A JVM takes classes from the archive as they were after
loading and checking, instead of reading each out of its jar; it does so only where the class path begins as it did
when the archive was made. Spark's own class path is ``jars/*`` in the order of the directory, which differs between
file systems, so ``classes.jar`` names the jars one by one and comes before it. A JVM that finds anything changed
(a jar, the Java itself) leaves the archive alone and starts without it.

What is in the archive is what a small streaming query loads that does what the engine asks of Spark: files (of lines,
and Parquet's, whose reading loads a thousand classes of its own), a watermark, ``foreachBatch``, ``repartitionById``,
``mapInArrow``. It runs on Kubernetes, or so Spark thinks (``cluster.py``), for there driver and executors load more
than in one process. The engine itself is not there yet: its changes are frequent, and shall not make this layer anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ARCHIVE, CLASS_PATH = "classes.jsa", "classes.jar"
YEAR_2000 = 946_684_800
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
LINE = 70
"""Bytes of a line in a manifest, without its end; the rest goes to lines that begin with a space."""
EPOCHS, ROWS = 2, 100
FORMATS = "json", "parquet"
DUMP_TIMEOUT_S = 1800
"""Minutes where another processor is emulated."""


def class_path(spark: Path) -> None:
    """Write the jar that names all others, in the order of their names; the same jars give the same file."""
    value = "Class-Path: " + " ".join(f"jars/{jar.name}" for jar in sorted((spark / "jars").glob("*.jar")))
    lines = ["Manifest-Version: 1.0", value[:LINE]]
    lines += [f" {value[at : at + LINE - 1]}" for at in range(LINE, len(value), LINE - 1)]
    with zipfile.ZipFile(spark / CLASS_PATH, "w") as jar:
        jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", ZIP_EPOCH), "\r\n".join([*lines, "", ""]))
    os.utime(spark / CLASS_PATH, (YEAR_2000, YEAR_2000))


def record(spark: Path, folder: Path) -> None:
    """Run the query in a JVM that writes the archive when it ends."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
    kubernetes, loaded = cluster.Cluster(folder), folder / "executor.classes"
    settings = {
        **kubernetes.conf(),
        "spark.app.name": "classes",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": str(spark / CLASS_PATH),
        "spark.driver.extraJavaOptions": f"-Xss8m -Xlog:disable -XX:ArchiveClassesAtExit={spark / ARCHIVE}",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": f"-XX:DumpLoadedClassList={loaded}",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.authenticate": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = launch_gateway(conf)
    session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    try:
        query(session, folder)
    finally:
        session.stop()
        kubernetes.stop()
        load(gateway.jvm, loaded.read_text().splitlines())
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(DUMP_TIMEOUT_S)


def load(jvm: Any, names: Sequence[str]) -> None:
    """Load an executor's classes too, so that one archive is enough for both. Some it has made itself: left out."""
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for name in names:
        if name[:1] not in "#@":
            with contextlib.suppress(Exception):
                jvm.java.lang.Class.forName(name.split()[0].replace("/", "."), False, loader)


def write(folder: Path) -> None:
    """The input: a folder for each format, a file for each epoch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in FORMATS:
        (folder / name).mkdir()
    for file in range(EPOCHS):
        rows = [{"key": f"k{n % 7}", "value": n, "at": "2026-01-01T00:00:00Z"} for n in range(ROWS)]
        (folder / "json" / f"{file}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        times = pa.array([1_767_225_600_000_000] * ROWS, pa.timestamp("us", "UTC"))
        table = pa.Table.from_pylist(rows)
        table = table.set_column(table.schema.get_field_index("at"), "at", times)
        pq.write_table(table, folder / "parquet" / f"{file}.parquet")


def query(session: Any, folder: Path) -> None:
    """A streaming query: an epoch for each file."""
    from pyspark.sql import functions as F

    write(folder)
    session.sparkContext.parallelize([0], 1).mapPartitions(lambda rows: rows).collect()
    reader = session.readStream.schema("key string, value long, at timestamp").option("maxFilesPerTrigger", 1)
    files = [reader.format(name).load(str(folder / name)).withWatermark("at", "1 minute") for name in FORMATS]
    frame = files[0].union(files[1])
    beats = session.readStream.format("rate").option("rowsPerSecond", 1).load().where(F.lit(False))
    beats = beats.select(*[F.lit(None).cast(f.dataType).alias(f.name) for f in frame.schema.fields])
    seen: list[int] = []

    def epoch(rows: DataFrame, number: int) -> None:
        if len(seen) >= EPOCHS:
            return  # the query is about to be stopped, better not in the middle of a job
        back = session.range(0, 2, 1, 2).mapInArrow(answer, "rows bigint, text string")
        slot = F.pmod(F.xxhash64("key"), F.lit(2)).cast("int")
        sent = rows.select("key", "value", F.unix_millis("at").alias("ms"), slot.alias("slot"))
        count = 0
        for part in (sent.limit(1), sent):
            fed = part.repartitionById(2, F.col("slot")).mapInArrow(answer, "rows bigint, text string")
            count = sum(row.rows for row in fed.collect())
        back.collect()
        seen.append(count)

    stream = (
        frame.union(beats)
        .writeStream.foreachBatch(epoch)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    while stream.isActive and len(seen) < EPOCHS:
        stream.awaitTermination(1)
    stream.stop()
    if sum(seen) != EPOCHS * ROWS * len(FORMATS):
        sys.exit(f"the query that loads Spark's classes has seen {seen} rows: {stream.exception()}")


def answer(batches: Iterator[Any]) -> Iterator[Any]:
    """One row a batch, as slots answer."""
    import pyarrow as pa

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "text": [str(batch.num_rows)]})


def main(spark: Path) -> None:
    """Write both files, and say how large they are."""
    class_path(spark)
    with tempfile.TemporaryDirectory(prefix="classes-") as folder:
        try:
            record(spark, Path(folder))
        except BaseException:
            for log in Path(folder).glob("*.log"):
                print(log.read_text(), file=sys.stderr)
            raise
    if not (spark / ARCHIVE).is_file():
        sys.exit(f"Spark's JVM ended without writing {spark / ARCHIVE}; what it said is above")
    print(f"{spark / ARCHIVE}: {(spark / ARCHIVE).stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
