"""A topic one of whose partitions was away for ten minutes: its rows are late, or not, as the job says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from sparkstate.control import documents
from sparkstate_tools.drivers import driving
from sparkstate_tools.parts import maven
from sparkstate_tools.servers import kafka

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.fault_on("hashmap, a folder"),
]

BEFORE = range(0, 10_000, 100)
"""Event times (ms) of both partitions before the outage; the allowed delay is 5 s."""
MEANWHILE = range(10_000, 600_000, 1_000)
"""Those of the partition that stayed, and later those of the other one."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    with kafka.running_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def manifest(folder: Path, broker: kafka.Broker, parts: str) -> dict[str, Any]:
    return driving.manifest(
        folder,
        "partitions.py",
        params={"kafka": broker.bootstrap, "topic": parts, "parts": parts},
        trigger={"processingTime": "100ms"},
        sparkConf={"spark.jars": ",".join(str(jar) for jar in maven.jars("spark-kafka"))},
    )


def send(broker: kafka.Broker, topic: str, times: range, partition: int) -> None:
    broker.produce(topic, map(str, times), 2, only=partition)


def until_read(driver: driving.Driver, rows: int) -> None:
    client = driver.client()
    driving.wait_for(
        lambda: client.status().rows_total >= rows, driving.PATIENCE_S, f"{rows} rows", driver.process
    )


def times_in(folder: Path) -> dict[int, list[int]]:
    """Event times by partition."""
    found: dict[int, list[int]] = {0: [], 1: []}
    for row in pyarrow.dataset.dataset(sorted(folder.glob("part-*"))).to_table().to_pylist():
        found[row["partition"]].append(row["at"])
    return {partition: sorted(times) for partition, times in found.items()}


@pytest.mark.fault(
    broken="one partition of a topic is read ten minutes of event time behind the other",
    when="after an outage, the driver killed in between",
    expected="its rows are in time where partitions have watermarks, and late where they share one",
)
@pytest.mark.parametrize("parts", ["own", pytest.param("none", marks=pytest.mark.extra)])
def test_rows_of_a_partition_that_was_away_are_late_only_where_partitions_share_a_watermark(
    parts: str, broker: kafka.Broker, tmp_path: Path
) -> None:
    broker.create_topic(parts, 2)
    for partition in (0, 1):
        send(broker, parts, BEFORE, partition)
    document = manifest(tmp_path, broker, parts)
    with driving.Driver(tmp_path, document) as driver:
        until_read(driver, 2 * len(BEFORE))
        send(broker, parts, MEANWHILE, 0)
        until_read(driver, 2 * len(BEFORE) + len(MEANWHILE))
        for _ in range(2):  # the first may have begun before the last rows came
            save(driver)
        told = any("watermark_partition" in notice for notice in driver.client().status().notices)
        assert told == (parts == "none")
        driver.process.kill()
    with driving.Driver(tmp_path, document, attempt=2) as driver:
        send(broker, parts, MEANWHILE, 1)
        until_read(driver, len(MEANWHILE))
        status = driver.client().status()
        driver.client().trigger_savepoint(documents.SavepointRequest(trigger_id="end", stop=True, drain=True))
        driver.finish()

    newest = MEANWHILE[-1] - 5_000 - 1
    assert status.watermark_ms == newest
    late = [] if parts == "own" else [at for at in MEANWHILE if at <= newest]
    assert status.late_rows_total == len(late)
    everything = [*BEFORE, *MEANWHILE]
    if parts == "own":
        assert times_in(tmp_path / "out") == {0: everything, 1: everything}
        return
    assert len(late) > 500
    assert times_in(tmp_path / "out-late")[1] == late


def save(driver: driving.Driver) -> None:
    client = driver.client()
    wanted = client.trigger_checkpoint()

    def is_there() -> bool:
        last = client.status().last_checkpoint
        return last is not None and last.id >= wanted

    driving.wait_for(is_there, driving.PATIENCE_S, f"checkpoint {wanted}", driver.process)
