"""What Flink itself says of watermarks, late rows and event-time timers: writes the fixture that tests compare with.

Not run by any test. It needs PyFlink, which the project does not depend on, in an environment of its own::

    python3.11 -m venv /tmp/pyflink && /tmp/pyflink/bin/pip install apache-flink==2.3.0
    /tmp/pyflink/bin/python tests/support/flink/golden.py > tests/unit/operators/fixtures/flink-2.3-event-time.json

Each program is a list of rows and a delay. A row waits for a moment before it reaches the operators, so that Flink's
periodic watermark of the row before is always there first: the watermark follows each row. What is written down:

- ``events``: ``["row", n, timestamp, watermark seen]`` and ``["timer", timestamp, key, watermark seen]`` in order;
- ``late``: the rows that a window of one millisecond finds late, which is Flink's definition for a single row.
"""

import json
import random
import sys
import time

from pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.window import TumblingEventTimeWindows

PAUSE_S = 0.04
PROGRAMS = 6
ROWS = 60


def program(seed):
    """Rows ``[number, key, event time, timer]``: the row registers a timer at ``event time + timer``, if that is not
    None; small numbers, so that rows and timers often meet the watermark at its edge."""
    chosen = random.Random(seed)
    delay = chosen.choice([0, 0, 1, 5, 20])
    rows, at = [], 100
    for number in range(ROWS):
        at += chosen.choice([-6, -3, -1, 0, 0, 1, 1, 2, 5])
        timer = chosen.choice([None, -10, -2, -1, 0, 0, 1, 2, 7])
        rows.append([number, chosen.choice("abc"), at, timer])
    return {"seed": seed, "delay": delay, "rows": rows}


class Times(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return json.loads(value)[2]


class Probe(KeyedProcessFunction):
    def process_element(self, value, ctx):
        number, _, _, timer = json.loads(value)
        timers = ctx.timer_service()
        if timer is not None:
            timers.register_event_time_timer(ctx.timestamp() + timer)
        yield json.dumps(["row", number, ctx.timestamp(), timers.current_watermark()])

    def on_timer(self, timestamp, ctx):
        if timestamp % 5 == 0:
            ctx.timer_service().register_event_time_timer(timestamp - 3)
            ctx.timer_service().register_event_time_timer(timestamp + 4)
        yield json.dumps(["timer", timestamp, ctx.get_current_key(), ctx.timer_service().current_watermark()])


class Kept(ProcessWindowFunction):
    def process(self, key, context, elements):
        return []


def slowly(row):
    time.sleep(PAUSE_S)
    return row


def outcome(described):
    configuration = Configuration()
    configuration.set_string("python.execution-mode", "thread")
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("pipeline.auto-watermark-interval", "1 ms")
    # Else rows travel by the buffer, and the source's thread keeps the lock that the watermarks need.
    configuration.set_string("execution.buffer-timeout.interval", "0 ms")
    configuration.set_string("pipeline.operator-chaining.enabled", "false")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    text = Types.STRING()  # rows as JSON
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(described["delay"])
    ).with_timestamp_assigner(Times())
    rows = env.from_collection([json.dumps(row) for row in described["rows"]], type_info=text)
    timed = rows.map(slowly, output_type=text).assign_timestamps_and_watermarks(strategy)
    keyed = timed.key_by(lambda row: json.loads(row)[1], key_type=text)
    events = keyed.process(Probe(), output_type=text)
    tag = OutputTag("late", text)
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(1))).side_output_late_data(tag)
    late = windows.process(Kept(), output_type=text).get_side_output(tag)
    told = events.union(late.map(lambda row: json.dumps(["late", json.loads(row)[0]]), output_type=text))
    with told.execute_and_collect() as found:
        lines = [json.loads(line) for line in found]
    described["events"] = [line for line in lines if line[0] != "late"]
    described["late"] = sorted(line[1] for line in lines if line[0] == "late")
    return described


def main():
    programs = [outcome(program(seed)) for seed in range(PROGRAMS)]
    lines = ",\n".join("  " + json.dumps(one, separators=(",", ":")) for one in programs)
    sys.stdout.write(f'{{"flink": "2.3.0", "programs": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
