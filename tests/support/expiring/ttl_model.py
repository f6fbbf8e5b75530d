"""State that expires, as plain Python has it: every value with the time of its last access, judged by definition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparkstate.durations import Time
from sparkstate.state.ttl import StateTtlConfig

UNKNOWN = None
"""The stamp of a value that was written before any time was known: it stays."""


@dataclass(frozen=True)
class Rule:
    """A time-to-live. ``length`` None: nothing expires."""

    length: int | None
    in_event_time: bool = False
    by_reading: bool = False

    def config(self) -> StateTtlConfig | None:
        """The same as a job says it."""
        if self.length is None:
            return None
        builder = StateTtlConfig.new_builder(Time.milliseconds(self.length))
        if self.in_event_time:
            builder.use_event_time()
        if self.by_reading:
            builder.update_ttl_on_read_and_write()
        return builder.build()


@dataclass
class Moment:
    """The times that a call sees: ``processing``, the watermark from before the epoch (None: no watermark yet), the
    event time of the row, or of the event-time timer that fires."""

    processing: int
    watermark: int | None
    event: int | None = None
    fires: bool = False

    def judging(self, rule: Rule) -> int | None:
        if not rule.in_event_time:
            return self.processing
        return self.latest() if self.fires else self.watermark

    def writing(self, rule: Rule) -> int | None:
        if not rule.in_event_time:
            return self.processing
        return self.latest()

    def latest(self) -> int | None:
        known = [time for time in (self.watermark, self.event) if time is not None]
        return max(known, default=UNKNOWN)


@dataclass
class KeyState:
    """All states of one key; each value is ``[stamp, value]``."""

    value: list[Any] | None = None
    folded: list[Any] | None = None
    elements: list[list[Any]] = field(default_factory=list)
    entries: dict[int, list[Any]] = field(default_factory=dict)


class Model:
    """The states of all keys under one rule."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.keys: dict[str, KeyState] = {}

    def of(self, key: str) -> KeyState:
        return self.keys.setdefault(key, KeyState())

    def lives(self, pair: list[Any] | None, now: int | None) -> bool:
        if pair is None:
            return False
        if self.rule.length is None or now is None or pair[0] is UNKNOWN:
            return True
        return bool(pair[0] + self.rule.length > now)

    def _read(self, pair: list[Any] | None, moment: Moment) -> Any:
        if pair is None or not self.lives(pair, moment.judging(self.rule)):
            return None
        if self.rule.by_reading:
            stamp = moment.writing(self.rule)
            if stamp is not UNKNOWN:
                pair[0] = stamp if pair[0] is UNKNOWN else max(pair[0], stamp)
        return pair[1]

    def _new(self, value: Any, moment: Moment) -> list[Any]:
        return [moment.writing(self.rule), value]

    def do(self, key: str, operation: str, argument: int, moment: Moment) -> Any:
        """The answer of one operation."""
        state = self.of(key)
        match operation:
            case "value":
                return self._read(state.value, moment)
            case "update":
                state.value = self._new(argument, moment)
            case "clear":
                state.value = None
            case "fold":
                before = self._read(state.folded, moment)
                state.folded = self._new(argument if before is None else before + argument, moment)
            case "folded":
                return self._read(state.folded, moment)
            case "list":
                read = [self._read(pair, moment) for pair in state.elements]
                return [each for each in read if each is not None]
            case "add":
                state.elements.append(self._new(argument, moment))
            case "replace":
                state.elements = [self._new(argument, moment), self._new(argument + 1, moment)]
            case "map":
                read_all = {name: self._read(pair, moment) for name, pair in state.entries.items()}
                return {name: each for name, each in read_all.items() if each is not None}
            case "get":
                return self._read(state.entries.get(argument % 3), moment)
            case "put":
                state.entries[argument % 3] = self._new(argument, moment)
            case "remove":
                state.entries.pop(argument % 3, None)
            case _:
                raise AssertionError(operation)
        return None

    def restored(self, rule: Rule, moment: Moment) -> Model:
        """The state as it is under another rule, from a restore on."""
        made = Model(rule)
        for key, state in self.keys.items():
            to = made.of(key)
            to.value, to.folded = (
                self._taken(state.value, rule, moment),
                self._taken(state.folded, rule, moment),
            )
            to.elements = [
                taken for pair in state.elements if (taken := self._taken(pair, rule, moment)) is not None
            ]
            to.entries = {
                name: taken
                for name, pair in state.entries.items()
                if (taken := self._taken(pair, rule, moment)) is not None
            }
        return made

    def _taken(self, pair: list[Any] | None, rule: Rule, moment: Moment) -> list[Any] | None:
        if pair is None or not self.lives(pair, moment.judging(self.rule)):
            return None
        is_stamped = self.rule.length is not None and self.rule.in_event_time == rule.in_event_time
        return [pair[0] if is_stamped else moment.judging(rule), pair[1]]
