"""Functions whose state depends on the order of the rows of a key."""

from __future__ import annotations

import pyarrow as pa

from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor


class Trail(KeyedProcessFunction):
    """Keeps a text that depends on the order of a key's rows, and a mark that comes and goes."""

    def __init__(self, timers: bool = False) -> None:
        self.timers = timers

    def open(self, ctx):
        self.trail = ctx.get_state(ValueStateDescriptor("trail", Types.STRING()))
        self.mark = ctx.get_state(ValueStateDescriptor("mark", Types.STRING()))

    def process_element(self, row, ctx):
        trail = ((self.trail.value() or "") + f"{row.amount},")[-60:]
        self.trail.update(trail)
        self.mark.update("m" * 50) if row.amount % 3 else self.mark.clear()
        if self.timers and row.amount % 5 == 0:
            ctx.timer_service().register_event_time_timer(row.amount % 40)
        yield row.user, len(trail)

    def on_timer(self, timestamp, ctx):
        trail = self.trail.value() or ""
        if timestamp % 7 == 0:
            self.trail.clear()
        else:
            self.trail.update(f"{trail[-50:]}!")
        yield ctx.get_current_key(), -len(trail)


class TrailOfBatches(KeyedBatchFunction):
    """The same text, by batches."""

    def open(self, ctx):
        self.trail = ctx.get_state(ValueStateDescriptor("trail", Types.STRING()))

    def process_batch(self, batch, keys, ctx):
        before = self.trail.get(keys).to_pylist()
        amounts = batch.column("amount").to_pylist()
        lengths = []
        for row, code in enumerate(keys.codes.tolist()):
            before[code] = ((before[code] or "") + f"{amounts[row]},")[-60:]
            lengths.append(len(before[code]))
        self.trail.update(keys, pa.array(before, pa.string()))
        yield pa.record_batch([batch.column("user"), pa.array(lengths, pa.int64())], names=["user", "amount"])
