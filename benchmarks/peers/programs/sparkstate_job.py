"""sparkstate's job for each load; ``params`` come from ``on_sparkstate.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keyed_sums

import sparkstate

FUNCTIONS = {**keyed_sums.FUNCTIONS, "record": keyed_sums.Sum}


def sink(answers: str | None) -> Callable[[Any, int], None]:
    """Read the output and drop it, or write it down."""

    def write(frame: Any, epoch: int) -> None:
        if answers:
            frame.write.mode("append").csv(answers)
        else:
            frame.write.format("noop").mode("overwrite").save()

    return write


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls."""
    from peers import chunks
    from peers.programs import sparkstate_session

    given = params["input"], int(params["slots"]), params["key"], params["value"]
    if params["load"] == "session":
        rows = chunks.stream(spark, *given, params["time"])
        rows = rows.withWatermark("ts", f"{params['delay_ms']} milliseconds")
        function: Any = sparkstate_session.Sessions(int(params["gap_ms"]))
        answer = sparkstate_session.ANSWER
    else:
        rows = chunks.stream(spark, *given)
        chosen = "padded" if params["load"] == "large" else params["function"]
        function, answer = FUNCTIONS[chosen](), "k long, total long"
    answered = sparkstate.keyed(rows, "k").process(function, uid="answer", output_schema=answer)
    answered.sink(sink(params.get("answers")))
