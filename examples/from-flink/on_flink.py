"""The total of each device and day, in PyFlink: ``python on_flink.py INPUT_FOLDER``. Prints a line for each total."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyflink.common import Duration, Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

DAY_MS = 24 * 3_600_000
READING = Types.ROW_NAMED(["device", "value", "at"], [Types.STRING(), Types.LONG(), Types.LONG()])


class DailyTotals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.totals = runtime_context.get_map_state(MapStateDescriptor("totals", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        day = ctx.timestamp() // DAY_MS
        self.totals.put(day, (self.totals.get(day) or 0) + value.value)
        ctx.timer_service().register_event_time_timer((day + 1) * DAY_MS - 1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        day = timestamp // DAY_MS
        yield Row(ctx.get_current_key(), day, self.totals.get(day))
        self.totals.remove(day)


class At(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value.at


def main(folder: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rows = [row for path in sorted(Path(folder).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    readings = [Row(row["device"], row["value"], int(row["at"].timestamp() * 1000)) for row in rows]
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(10))
    (
        env.from_collection(readings, READING)
        .assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(At()))
        .key_by(lambda reading: reading.device, Types.STRING())
        .process(DailyTotals(), Types.ROW([Types.STRING(), Types.LONG(), Types.LONG()]))
        .print()
    )
    env.execute("daily-totals")


if __name__ == "__main__":
    main(sys.argv[1])
