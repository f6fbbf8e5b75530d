"""A real Kafka broker for the tests: one node (KRaft) on the loopback, in a process of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support import maven

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


@dataclass(frozen=True)
class Broker:
    """A running broker: where clients reach it, and its process."""

    bootstrap: str
    pid: int

    def create_topic(self, name: str, partitions: int) -> None:
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        client.create_topics([NewTopic(name, partitions, 1)])[name].result(timeout=30)

    def produce(self, topic: str, messages: Iterable[str], partitions: int) -> int:
        """Deal the messages out to the partitions in turn;

        returns their number when the broker has them all.
        """
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})
        count = 0
        for count, message in enumerate(messages, start=1):
            producer.produce(topic, message.encode(), partition=count % partitions)
            producer.poll(0)
        if remaining := producer.flush(60):
            raise RuntimeError(f"{remaining} of {count} messages did not reach the broker {self.bootstrap}")
        return count


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """Start a broker whose files are in ``folder``. It is killed at the end, its data is of no more use."""
    ports = dict(zip(("broker", "controller"), _free_ports(2), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "server.properties"
    properties.write_text(PROPERTIES.format(data=folder / "data", **ports))
    java = _java_command()
    _format(java, properties)
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)],
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


def _java_command() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise RuntimeError("a Kafka broker needs Java: apt-get install openjdk-17-jre-headless")
    classpath = os.pathsep.join(str(path) for path in maven.jars("kafka-broker"))
    return [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath]


def _format(java: list[str], properties: Path) -> None:
    command = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
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
