"""What Flink itself puts out of windows: writes the fixture that ``unit/windows/test_as_flink.py`` compares with.

Not run by any test. It needs PyFlink, which the project does not depend on, in an environment of its own::

    python3.11 -m venv /tmp/pyflink && /tmp/pyflink/bin/pip install apache-flink==2.3.0
    /tmp/pyflink/bin/python tests/support/flink/windows.py > tests/unit/windows/fixtures/flink-2.3-windows.json

Each program is a list of rows ``[number, key, event time]``, a delay, and a window. A row waits for a moment before it
reaches the operators, so that the watermark of the row before is there first: the watermark follows each row.
"""

import json
import random
import sys
import time

from pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

PAUSE_S = 0.1
ROWS = 60
WINDOWS = ("tumbling", "sliding", "session", "every", "purging", "count", "slidingcount")


def program(seed, kind):
    chosen = random.Random(seed)
    rows, at = [], 100
    for number in range(ROWS):
        at += chosen.choice([-12, -3, -1, 0, 0, 1, 1, 2, 5, 9])
        rows.append([number, chosen.choice("ab"), at])
    lateness = chosen.choice([0, 5]) if "count" not in kind else 0
    return {"windows": kind, "delay": chosen.choice([0, 2, 6]), "lateness": lateness, "rows": rows}


class Times(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return json.loads(value)[2]


class Rows(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        name = [window.start, window.end] if isinstance(window, TimeWindow) else [window.id]
        yield json.dumps([key, name, [json.loads(each)[0] for each in elements]])


def slowly(row):
    time.sleep(PAUSE_S)
    return row


def windowed(keyed, kind):
    ms = Time.milliseconds
    tumbling = TumblingEventTimeWindows.of(ms(10), ms(3))
    if kind == "tumbling":
        return keyed.window(tumbling)
    if kind == "sliding":
        return keyed.window(SlidingEventTimeWindows.of(ms(12), ms(5), ms(-2)))
    if kind == "session":
        return keyed.window(EventTimeSessionWindows.with_gap(ms(4)))
    if kind == "every":
        return keyed.window(tumbling).trigger(ContinuousEventTimeTrigger.of(ms(4)))
    if kind == "purging":
        return keyed.window(tumbling).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return keyed.count_window(3) if kind == "count" else keyed.count_window(3, 2)


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
    delay = Duration.of_millis(described["delay"])
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(delay).with_timestamp_assigner(Times())
    rows = env.from_collection([json.dumps(row) for row in described["rows"]], type_info=text)
    timed = rows.map(slowly, output_type=text).assign_timestamps_and_watermarks(strategy)
    windows = windowed(timed.key_by(lambda row: json.loads(row)[1], key_type=text), described["windows"])
    tag = OutputTag("late", text)
    if "count" not in described["windows"]:
        windows = windows.allowed_lateness(described["lateness"]).side_output_late_data(tag)
    made = windows.process(Rows(), output_type=text)
    if "count" not in described["windows"]:
        late = made.get_side_output(tag)
        made = made.union(late.map(lambda row: json.dumps(["late", json.loads(row)[0]]), output_type=text))
    with made.execute_and_collect() as found:
        lines = [json.loads(line) for line in found]
    described["out"] = [line for line in lines if line[0] != "late"]
    described["late"] = sorted(line[1] for line in lines if line[0] == "late")
    return described


def main():
    programs = [outcome(program(seed, kind)) for seed, kind in enumerate(WINDOWS * 2)]
    lines = ",\n".join("  " + json.dumps(one, separators=(",", ":")) for one in programs)
    sys.stdout.write(f'{{"flink": "2.3.0", "programs": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
