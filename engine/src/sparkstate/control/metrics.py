"""Prometheus metrics of one job, in a registry of their own.

Values of a status document are read at the moment of a scrape; the driver observes durations as they
happen, because a histogram cannot be made from the last value. Documented in ``docs/metrics.md``, which is
generated from the tables here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from typing import Final

import prometheus_client
from prometheus_client import core

from sparkstate import clock as clocks
from sparkstate.control import documents, port

CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST
EPOCH_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
CHECKPOINT_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
EPOCH_HELP: Final = "Duration of an epoch from its start in Spark to its commit."
CHECKPOINT_HELP: Final = "Duration of a checkpoint or savepoint from its trigger to its commit in the log."
PAUSE_HELP: Final = "The time that an epoch had to wait for a checkpoint."

_AWAY: Final = "sparkstate_storage_away_seconds"
GAUGES: Final[dict[str, str]] = {
    "sparkstate_epoch": "The last committed epoch.",
    "sparkstate_rows_per_second": "Current rate of rows fed into keyed operators, per second.",
    "sparkstate_watermark_timestamp_seconds": "The event-time watermark, in seconds since the Unix epoch.",
    "sparkstate_watermark_lag_seconds": "Wall time minus watermark.",
    "sparkstate_state_bytes": "Bytes of the whole committed state.",
    "sparkstate_checkpoints_in_progress": "Checkpoints and savepoints in progress.",
    "sparkstate_last_checkpoint_size_bytes": 'Size of the newest completed checkpoint; part="full": the '
    'state that it represents, part="delta": the bytes that had to be uploaded.',
    "sparkstate_last_checkpoint_age_seconds": "Time since the trigger of the newest completed checkpoint; it grows "
    "while there is no input, since nothing changes.",
    "sparkstate_incarnation": "Number of the restore from which the job runs.",
    "sparkstate_slot_up": "1 while the slot's process is alive.",
    "sparkstate_slot_state_bytes": "Bytes of committed state in the slot.",
    "sparkstate_slot_state_rows": "Rows of committed state in the slot.",
    "sparkstate_slot_memory_bytes": "Memory of the state backend: budget, cache, write_buffers, tables, overlays; "
    "and of operator state: operator_state, operator_state_limit.",
    "sparkstate_slot_operator_state_bytes": "Memory of a list or a broadcast map of operator state in the slot; an "
    "estimate.",
    "sparkstate_slot_operator_state_elements": "Elements of that list, or entries of that map.",
    "sparkstate_slot_resident_memory_bytes": "Resident memory of the slot's process.",
    "sparkstate_slot_held_output_bytes": "Output of file sinks on the slot's disk, which the next checkpoints publish.",
    "sparkstate_storage_away_seconds": "The time for which a storage that the job needs has not answered.",
    "sparkstate_user_counter": "A function's own counter. It may decrease, and starts at 0 with the slot.",
    "sparkstate_user_gauge": "A function's own gauge, as of the end of an epoch.",
    "sparkstate_user_meter_events_per_second": "Rate of a function's own meter, over its time span.",
    "sparkstate_user_distribution_values": "Number of values in a function's own distribution since the "
    "slot began.",
    "sparkstate_user_distribution_sum": "Sum of the finite values in the distribution.",
    "sparkstate_user_distribution_least": "Smallest value in the distribution.",
    "sparkstate_user_distribution_largest": "Largest value in the distribution.",
}
COUNTERS: Final[dict[str, str]] = {
    "sparkstate_rows": "Rows fed into keyed operators since the driver started.",
    "sparkstate_late_rows": "Rows whose event time was not after the watermark, since the driver started.",
    "sparkstate_dropped_rows": "Rows for side outputs without a reader in the job, since the driver started.",
    "sparkstate_restarts": "Restarts after a failure.",
    "sparkstate_storage_failures": "Calls that failed because a storage was away, since the driver started.",
    "sparkstate_checkpoints_completed": "Completed checkpoints and savepoints.",
    "sparkstate_checkpoints_failed": "Failed checkpoints and savepoints.",
    "sparkstate_user_meter_events": "Events of a function's own meter since the slot began.",
}
"""The text format adds ``_total`` to the names of counters."""
LABELS: Final[dict[str, tuple[str, ...]]] = {
    "sparkstate_last_checkpoint_size_bytes": ("part",),
    "sparkstate_slot_up": ("slot",),
    "sparkstate_slot_state_bytes": ("slot",),
    "sparkstate_slot_state_rows": ("slot",),
    "sparkstate_slot_memory_bytes": ("slot", "part"),
    "sparkstate_slot_operator_state_bytes": ("slot", "operator", "state", "kind"),
    "sparkstate_slot_operator_state_elements": ("slot", "operator", "state", "kind"),
    "sparkstate_slot_resident_memory_bytes": ("slot",),
    "sparkstate_slot_held_output_bytes": ("slot",),
    "sparkstate_storage_away_seconds": ("url",),
    **dict.fromkeys(
        (name for name in [*GAUGES, *COUNTERS] if name.startswith("sparkstate_user_")),
        ("slot", "operator", "metric"),
    ),
}
_USER_FAMILIES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "counter": (("sparkstate_user_counter", "count"),),
    "gauge": (("sparkstate_user_gauge", "largest"),),
    "meter": (
        ("sparkstate_user_meter_events", "count"),
        ("sparkstate_user_meter_events_per_second", "rate"),
    ),
    "distribution": (
        ("sparkstate_user_distribution_values", "count"),
        ("sparkstate_user_distribution_sum", "sum"),
        ("sparkstate_user_distribution_least", "least"),
        ("sparkstate_user_distribution_largest", "largest"),
    ),
}
"""By kind: families and the fields of ``documents.UserMetric`` that they show. A function's names are values of labels,
so they need no alphabet, and a name can be a counter in one operator and a gauge in another."""
Reading = tuple[str, tuple[str, ...], float]
"""Name, values of the labels in the order of ``LABELS``, value."""


class JobMetrics:
    """The registry of one job. ``observe_*`` may be called from any thread."""

    def __init__(self, job: port.JobControl, clock: clocks.Clock) -> None:
        self._registry = prometheus_client.CollectorRegistry()
        self._epochs = prometheus_client.Histogram(
            "sparkstate_epoch_duration_seconds", EPOCH_HELP, buckets=EPOCH_BUCKETS, registry=self._registry
        )
        self._checkpoints = prometheus_client.Histogram(
            "sparkstate_checkpoint_duration_seconds",
            CHECKPOINT_HELP,
            ("kind",),
            buckets=CHECKPOINT_BUCKETS,
            registry=self._registry,
        )
        self._pauses = prometheus_client.Histogram(
            "sparkstate_checkpoint_pause_seconds",
            PAUSE_HELP,
            ("kind",),
            buckets=EPOCH_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_JobCollector(job, clock, names_places=True))
        self._open = prometheus_client.CollectorRegistry()
        for shared in (self._epochs, self._checkpoints, self._pauses):
            self._open.register(shared)
        self._open.register(_JobCollector(job, clock, names_places=False))
        self._scrape = threading.Lock()

    def observe_epoch(self, seconds: float) -> None:
        """An epoch was committed ``seconds`` after its start."""
        self._epochs.observe(seconds)

    def observe_checkpoint(self, info: documents.CheckpointInfo) -> None:
        """A checkpoint or savepoint completed; others carry no duration and are not counted here."""
        if info.status is not documents.CheckpointStatus.COMPLETED:
            return
        if info.duration_ms is not None:
            self._checkpoints.labels(info.kind.value).observe(info.duration_ms / 1000)
        if info.sync_pause_ms is not None:
            self._pauses.labels(info.kind.value).observe(info.sync_pause_ms / 1000)

    def render(self) -> bytes:
        """The text format, read from the job now."""
        with self._scrape:
            return prometheus_client.generate_latest(self._registry)

    def render_open(self) -> bytes:
        """The same for callers without a token: it names no place in storage."""
        with self._scrape:
            return prometheus_client.generate_latest(self._open)


class _JobCollector:
    """Reads the job once per scrape."""

    def __init__(self, job: port.JobControl, clock: clocks.Clock, *, names_places: bool) -> None:
        self._job = job
        self._clock = clock
        self._names_places = names_places

    def describe(self) -> Iterable[core.Metric]:
        return ()  # registering must not ask a job that is still starting

    def collect(self) -> Iterator[core.Metric]:
        readings = list(read_status(self._job.status(), self._clock.now_ms()))
        if not self._names_places:
            readings = _without_places(readings)
        readings += read_user_metrics(self._job.user_metrics())
        yield from _families(readings)
        yield from native_families(self._job.metrics())


def read_status(status: documents.JobStatus, now_ms: int) -> Iterator[Reading]:
    """Every gauge and counter that ``status`` has a value for."""
    last = status.last_checkpoint
    watermark = status.watermark_ms
    ended = watermark == documents.END_OF_INPUT_WATERMARK
    optional: dict[str, float | None] = {
        "sparkstate_epoch": status.epoch,
        "sparkstate_rows_per_second": status.rows_per_s,
        "sparkstate_watermark_timestamp_seconds": None if watermark is None or ended else watermark / 1000,
        "sparkstate_watermark_lag_seconds": None if status.lag_ms is None else status.lag_ms / 1000,
        "sparkstate_state_bytes": status.state_bytes,
        "sparkstate_checkpoints_in_progress": status.checkpoints_in_progress,
        "sparkstate_last_checkpoint_age_seconds": _since_s(last.trigger_ms, now_ms) if last else None,
        "sparkstate_incarnation": status.incarnation,
        "sparkstate_rows": status.rows_total,
        "sparkstate_late_rows": status.late_rows_total,
        "sparkstate_dropped_rows": status.dropped_rows_total,
        "sparkstate_restarts": status.restarts,
        "sparkstate_storage_failures": status.storage_failures_total,
        "sparkstate_checkpoints_completed": status.checkpoints_completed,
        "sparkstate_checkpoints_failed": status.checkpoints_failed,
    }
    yield from ((name, (), float(value)) for name, value in optional.items() if value is not None)
    for part, size in (("full", last.state_bytes), ("delta", last.uploaded_bytes)) if last else ():
        if size is not None:
            yield "sparkstate_last_checkpoint_size_bytes", (part,), float(size)
    for place in status.storage_away:
        yield _AWAY, (place.url,), _since_s(place.since_ms, now_ms)
    for slot in status.slots:
        yield from _read_slot(slot)


def _since_s(then_ms: int, now_ms: int) -> float:
    """0 after a clock that was set back: an age below 0 would hide an old checkpoint from every alert."""
    return max(now_ms - then_ms, 0) / 1000


def _without_places(readings: Iterable[Reading]) -> list[Reading]:
    """One number for all places that are away, the largest, without a label."""
    kept: list[Reading] = []
    away: list[Reading] = []
    for reading in readings:
        (away if reading[0] == _AWAY else kept).append(reading)
    return [*kept, (_AWAY, (), max(seconds for _, _, seconds in away))] if away else kept


def _read_slot(slot: documents.SlotStatus) -> Iterator[Reading]:
    label = str(slot.index)
    yield "sparkstate_slot_up", (label,), float(slot.alive)
    yield "sparkstate_slot_state_bytes", (label,), float(slot.state_bytes)
    yield "sparkstate_slot_state_rows", (label,), float(slot.rows)
    yield "sparkstate_slot_held_output_bytes", (label,), float(slot.held_bytes)
    for part, size in slot.memory.model_dump().items():
        if size is not None:
            yield "sparkstate_slot_memory_bytes", (label, part), float(size)
    for one in slot.operator_states:
        labels = (label, one.operator, one.state, one.kind)
        yield "sparkstate_slot_operator_state_bytes", labels, float(one.size_bytes)
        yield "sparkstate_slot_operator_state_elements", labels, float(one.elements)
    if slot.rss_bytes is not None:
        yield "sparkstate_slot_resident_memory_bytes", (label,), float(slot.rss_bytes)


def read_user_metrics(metrics: Iterable[port.SlotMetric]) -> Iterator[Reading]:
    """The metrics that functions made; a number that is not there is no sample."""
    for one in metrics:
        labels = (str(one.slot), one.metric.operator, one.metric.name)
        for family, field in _USER_FAMILIES.get(one.metric.kind, ()):
            value = getattr(one.metric, field)
            if value is not None:
                yield family, labels, value


def _families(readings: Iterable[Reading]) -> Iterator[core.Metric]:
    families: dict[str, core.GaugeMetricFamily | core.CounterMetricFamily] = {}
    for name, text in GAUGES.items():
        families[name] = core.GaugeMetricFamily(name, text, labels=LABELS.get(name, ()))
    for name, text in COUNTERS.items():
        families[name] = core.CounterMetricFamily(name, text, labels=LABELS.get(name, ()))
    for name, labels, value in readings:
        families[name].add_metric(labels, value)
    yield from (family for family in families.values() if family.samples)


_OWN_BACKEND = "backend."
"""The beginning of the names of figures that a user's own backend tells."""


def _told_by(name: str) -> str:
    if name.startswith(_OWN_BACKEND):
        return f"{name.removeprefix(_OWN_BACKEND)}, as the job's own state backend"
    return f"RocksDB's {name}, as the native library"


def native_name(name: str) -> str:
    """``estimate-num-keys`` or ``rocksdb.estimate-num-keys`` → ``sparkstate_rocksdb_estimate_num_keys``; of an own
    backend ``backend.open-files`` → ``sparkstate_backend_open_files``."""
    bare = re.sub(r"^(rocksdb|backend)[.-]", "", name.lower())
    owner = "backend" if name.startswith(_OWN_BACKEND) else "rocksdb"
    return f"sparkstate_{owner}_" + re.sub(r"[^a-z0-9]+", "_", bare).strip("_")


def native_families(samples: Iterable[port.Sample]) -> Iterator[core.Metric]:
    """Native metrics as gauges; one family per name and set of labels' names."""
    families: dict[str, core.Metric] = {}
    for sample in samples:
        name = native_name(sample.name)
        family = families.setdefault(name, core.Metric(name, f"{_told_by(sample.name)} tells it.", "gauge"))
        family.add_sample(name, dict(sample.labels), sample.value)
    yield from families.values()
