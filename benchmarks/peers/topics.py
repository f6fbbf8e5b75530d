"""The rows of a load in a topic of Kafka, for an engine that reads from nowhere else.

The broker runs beside the measured command, and has all rows before that begins.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from peers import loads
from peers.installing import Unavailable
from peers.loads import Load
from sparkstate_tools.servers import kafka

TOPIC = "rows"
BROKER = {"group.initial.rebalance.delay.ms": "3000"}
"""Kafka's own value: all processes of a group join before the first partition is assigned."""
JVM = ("-Xmx2g",)
PRODUCER = {
    "partitioner": "murmur2_random",  # of Kafka and of Quix
    "linger.ms": 50,
    "batch.size": 1 << 20,
}
FLUSH_LIMIT_S = 60.0


@contextmanager
def filled(folder: Path, load: Load, rows: int, partitions: int) -> Iterator[dict[str, str]]:
    """A broker with the rows, as words for the program. Raises Unavailable if there is no such broker to be had."""
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(kafka.running_broker(folder, jvm=JVM, settings=BROKER))
            broker.create_topic(TOPIC, partitions)
            fill(broker.bootstrap, load, rows)
            kept = broker.size(TOPIC, partitions)
            if kept != rows:
                raise RuntimeError(f"it has {kept:,} of {rows:,} rows")
        except (OSError, RuntimeError, subprocess.SubprocessError, KafkaException) as error:
            raise Unavailable(f"Kafka's broker: {str(error).splitlines()[0]}") from error
        yield {"bootstrap": broker.bootstrap, "topic": TOPIC}


def fill(bootstrap: str, load: Load, rows: int) -> None:
    """Send the rows, each to the partition of its key."""
    producer = Producer({"bootstrap.servers": bootstrap, **PRODUCER})
    for key, value in zip(loads.keys(load, rows).tolist(), loads.values(rows).tolist(), strict=True):
        message = encoded(key, value)
        while True:
            try:
                producer.produce(TOPIC, key=message[0], value=message[1])
                break
            except BufferError:  # the producer's queue is full
                producer.poll(0.1)
    producer.flush(FLUSH_LIMIT_S)


def encoded(key: int, value: int) -> tuple[bytes, bytes]:
    """A message: the key in digits, the value as Kafka's IntegerSerializer writes it."""
    return str(key).encode(), struct.pack(">i", value)
