"""The session job, reading from a real Kafka broker: killed, restored, its sessions exact."""

import os
import signal

import pytest
from support.examples import sessions

from sparkstate_tools.parts import maven
from sparkstate_tools.servers import kafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with kafka.running_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.mark.timeout(600)
def test_a_job_that_reads_from_kafka_is_killed_and_its_sessions_are_exact(broker, tmp_path):
    regular = sessions.clicks.make_clicks(users=150, days=3)
    late = sessions.clicks.make_late_clicks(regular, 15)
    stream = sessions.clicks.with_late_clicks(regular, late)
    broker.create_topic("clicks", PARTITIONS)
    broker.produce("clicks", (click.to_json() for click in stream), PARTITIONS)
    assert broker.size("clicks", PARTITIONS) == len(stream)
    params = {
        "kafka": broker.bootstrap,
        "topic": "clicks",
        "rows_per_epoch": "500",
    }
    jars = ",".join(str(jar) for jar in maven.jars("spark-kafka"))
    job = sessions.process(tmp_path, "sessions-kafka", params, sparkConf={"spark.jars": jars})
    job.start()
    try:
        killed = job.wait_until("epochs after a completed checkpoint", lambda: replayable(job), 240)
        os.kill(killed["pid"], signal.SIGKILL)
        back = job.wait_until("the restored driver", lambda: restored(job, killed), 180)
        assert back["restored_from"] is not None
        assert back["incarnation"] > killed["incarnation"]
        newest = min(newest_ms(stream[first::PARTITIONS]) for first in range(PARTITIONS))
        end_ms = newest - 10 * 60_000 - 1
        job.wait_until(
            "the end of the topic", lambda: (job.status() or {}).get("watermark_ms") == end_ms, 120
        )
        job.request("POST", "/v1/savepoints", json={"trigger_id": "end", "stop": True, "drain": True})
        assert job.wait(120) == 0, job.last_words()
    finally:
        job.stop()

    assert sessions.check(tmp_path, regular, late) > 1_000


def replayable(job):
    """The status when there is a checkpoint, state, and later epochs that would have to be replayed."""
    status, driver = job.status(), job.driver()
    if status is None or driver is None or status["last_checkpoint"] is None:
        return None
    if status["epoch"] <= status["last_checkpoint"]["epoch"] or status["state_bytes"] == 0:
        return None
    return {**status, "pid": driver[0]}


def restored(job, killed):
    status, driver = job.status(), job.driver()
    if status is None or driver is None or driver[0] == killed["pid"] or status["phase"] != "RUNNING":
        return None
    return status


def newest_ms(some):
    return max(round(one.at.timestamp() * 1000) for one in some)
