"""PyFlink's DataStream API: a Python function with keyed state, ``mode`` ``process`` or ``thread``.

Rows come from Flink's own number sequence and their columns from SQL, both in the JVM, so that Python does the
keyed function alone.
"""

from __future__ import annotations

import random
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment


class Sum(KeyedProcessFunction):
    """Running sum per key, answered row by row."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


NOISE = random.Random(1).randbytes(1 << 20)
"""What no compression makes smaller."""
PADDING = 504


class PaddedSum(KeyedProcessFunction):
    """The running sum with 512 bytes of state for every key."""

    def open(self, runtime_context: Any) -> None:
        # The thread mode cannot store bytes as an array of bytes (PyFlink 2.3).
        kind = Types.PICKLED_BYTE_ARRAY()
        self.total = runtime_context.get_state(ValueStateDescriptor("total", kind))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        stored = self.total.value()
        total = value[1] if stored is None else int.from_bytes(stored[:8], "big") + value[1]
        start = (value[0] * 7919 + total) % (len(NOISE) - PADDING)
        self.total.update(total.to_bytes(8, "big") + NOISE[start : start + PADDING])
        yield value[0], total


def configuration(task: dict[str, str]) -> Configuration:
    """The same settings as ``Peer.java``, and those of Python."""
    scratch, slots = task["scratch"], int(task["slots"])
    chosen = Configuration()
    for name, value in {
        "state.backend.type": task["backend"],
        "state.backend.rocksdb.localdir": f"{scratch}/rocksdb",
        "execution.checkpointing.interval": f"{task['checkpoint_s']} s",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": f"file://{scratch}/checkpoints",
        "execution.checkpointing.incremental": "true",
        "io.tmp.dirs": scratch,
        "taskmanager.memory.managed.size": f"{slots * int(task['managed_mib'])} mb",
        "taskmanager.numberOfTaskSlots": str(slots),
        "restart-strategy.type": "none",  # a failure is to be seen, not tried again for ever
        "parallelism.default": str(slots),
        "pipeline.object-reuse": "true",
        "python.execution-mode": task["mode"],
        "python.pythonpath": sysconfig.get_paths()[
            "purelib"
        ],  # an embedded Python knows no virtual environment
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
    }.items():
        chosen.set_string(name, value)
    return chosen


def given(env: StreamExecutionEnvironment, task: dict[str, str]) -> Any:
    """The rows ``(k, v)``, spread over the subtasks as ``Rows.java`` does."""
    rows, slots = int(task["rows"]), int(task["slots"])
    part = rows // slots
    numbers = env.from_source(
        NumberSequenceSource(0, rows - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    tables = StreamTableEnvironment.create(env)
    tables.create_temporary_view("numbers", tables.from_data_stream(numbers).alias("j"))
    spread = f"SELECT MOD(j, {part}) * {slots} + j / {part} AS i FROM numbers"
    query = f"SELECT {task['key']} AS k, {task['value']} AS v FROM ({spread})"
    return tables.to_data_stream(tables.sql_query(query))


def main() -> None:
    """Run to the end of the input."""
    task = dict(word.split("=", 1) for word in sys.argv[1:])
    env = StreamExecutionEnvironment.get_execution_environment(configuration(task))
    function = PaddedSum() if task["load"] == "large" else Sum()
    answers = (
        given(env, task)
        .key_by(lambda row: row[0], key_type=Types.LONG())
        .process(function, output_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
    )
    if "answers" in task:
        lines = answers.map(lambda row: f"{row[0]},{row[1]}", output_type=Types.STRING())
        lines.sink_to(
            FileSink.for_row_format(task["answers"], Encoder.simple_string_encoder("UTF-8")).build()
        )
    else:
        discarding = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink
        answers._j_data_stream.sinkTo(discarding())
    env.execute("peer")


if __name__ == "__main__":
    main()
