"""What Flink itself puts out of windows: writes the fixture that ``unit/windows/test_as_flink.py`` compares with.

Not run by any test. It needs PyFlink, which the project does not depend on, in an environment of its own::

    python3.11 -m venv /tmp/pyflink && /tmp/pyflink/bin/pip install apache-flink==2.3.0 pemja==0.5.7
    export PATH=/tmp/pyflink/bin:$PATH
    python tests/support/flink/windows.py > tests/unit/windows/fixtures/flink-2.3-windows.json

Each program is a list of rows ``[number, key, event time]``, a delay, a window, and the function of its rows. A row
waits for a moment before it reaches the operators, so that the watermark of the row before is there first: the
watermark follows each row.

Where sessions merge under ``reduce`` or ``aggregate``, PyFlink 2.3 forgets the rows of the session whose state the
merged one takes (``merge_namespaces`` in ``fn_execution/datastream/embedded/state_impl.py``). With processes in place
of threads it forgets others. The windows are right, and so are those of ``process``.
"""

import json
import random
import sys
import time

from pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    CountWindow,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

PAUSE_S = 0.1
ROWS = 60
WINDOWS = ("tumbling", "sliding", "session", "every", "purging", "count", "slidingcount")
FOLDED = (
    ("sliding", "reduce"),
    ("session", "reduce"),
    ("count", "reduce"),
    ("sliding", "aggregate"),
    ("session", "aggregate"),
    ("dynamic", "aggregate"),
    ("dynamic", "process"),
    ("global", "process"),
    ("global", "reduce"),
)
"""Windows, and the function of their rows."""
WITHOUT_TIME = ("count", "slidingcount", "global")


def program(seed, kind, by):
    chosen = random.Random(seed)
    rows, at = [], 100
    for number in range(ROWS):
        at += chosen.choice([-12, -3, -1, 0, 0, 1, 1, 2, 5, 9])
        rows.append([number, chosen.choice("ab"), at])
    lateness = chosen.choice([0, 5]) if kind not in WITHOUT_TIME else 0
    return {"windows": kind, "by": by, "delay": chosen.choice([0, 2, 6]), "lateness": lateness, "rows": rows}


class Times(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return json.loads(value)[2]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return json.loads(element)[0] % 5 + 1


class Rows(ProcessWindowFunction):
    """The numbers of all rows; of a row that others were folded into, those of all of them."""

    def process(self, key, context, elements):
        window, name = context.window(), []
        if isinstance(window, TimeWindow):
            name = [window.start, window.end]
        elif isinstance(window, CountWindow):
            name = [window.id]
        yield json.dumps([key, name, [number for each in elements for number in numbers(each)]])


class Numbers(AggregateFunction):
    """The numbers of all rows, as text."""

    def create_accumulator(self):
        return "[[]]"

    def add(self, value, accumulator):
        return json.dumps([numbers(accumulator) + numbers(value)])

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return json.dumps([numbers(acc_a) + numbers(acc_b)])


def numbers(text):
    """Those of a row, of a folded one, or of an accumulator: what is in front."""
    found = json.loads(text)[0]
    return found if isinstance(found, list) else [found]


def both(one, other):
    """A row with the numbers of both; its key and time are those of the first."""
    return json.dumps([numbers(one) + numbers(other), *json.loads(one)[1:]])


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
    if kind == "dynamic":
        return keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap()))
    if kind == "global":
        return keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(4))
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
    kind, by = described["windows"], described["by"]
    windows = windowed(timed.key_by(lambda row: json.loads(row)[1], key_type=text), kind)
    tag = OutputTag("late", text)
    if kind not in WITHOUT_TIME:
        windows = windows.allowed_lateness(described["lateness"]).side_output_late_data(tag)
    if by == "reduce":
        made = windows.reduce(both, Rows(), output_type=text)
    elif by == "aggregate":
        made = windows.aggregate(Numbers(), Rows(), accumulator_type=text, output_type=text)
    else:
        made = windows.process(Rows(), output_type=text)
    if kind not in WITHOUT_TIME:
        late = made.get_side_output(tag)
        made = made.union(late.map(lambda row: json.dumps(["late", json.loads(row)[0]]), output_type=text))
    with made.execute_and_collect() as found:
        lines = [json.loads(line) for line in found]
    described["out"] = [line for line in lines if line[0] != "late"]
    described["late"] = sorted(line[1] for line in lines if line[0] == "late")
    return described


def main():
    kinds = [*((kind, "process") for kind in WINDOWS * 2), *FOLDED]
    programs = [outcome(program(seed, kind, by)) for seed, (kind, by) in enumerate(kinds)]
    lines = ",\n".join("  " + json.dumps(one, separators=(",", ":")) for one in programs)
    sys.stdout.write(f'{{"flink": "2.3.0", "programs": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
