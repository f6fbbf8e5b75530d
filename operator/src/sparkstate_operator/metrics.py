"""Prometheus metrics of the operator, in one place. Names and meanings are a promise: docs/operator.md lists them."""

from __future__ import annotations

import threading
from collections import Counter as Counts
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 15)
_LONG_SECONDS = (1, 2, 5, 10, 15, 20, 30, 45, 60, 120, 300, 900)


class Metrics:
    """All of them, on a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._phases: set[str] = set()
        self._counting = threading.Lock()
        self.requests = Counter(
            "sparkstate_operator_api_requests_total",
            "Requests to the API server.",
            ("verb", "resource", "status"),
            registry=self.registry,
        )
        self.reconciles = Counter(
            "sparkstate_operator_reconciles_total",
            "Reconciles that ended, by kind and result.",
            ("kind", "result"),
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "sparkstate_operator_reconcile_seconds",
            "Duration of a reconcile.",
            ("kind",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.queue_waiting = Gauge(
            "sparkstate_operator_queue_waiting",
            "Keys that are due and wait for a worker.",
            registry=self.registry,
        )
        self.jobs = Gauge("sparkstate_operator_jobs", "Jobs by phase.", ("phase",), registry=self.registry)
        self.phase_seconds = Histogram(
            "sparkstate_operator_phase_seconds",
            "Time that a job spent in a phase before it left that phase.",
            ("phase",),
            buckets=_LONG_SECONDS,
            registry=self.registry,
        )
        self.snapshots = Counter(
            "sparkstate_operator_snapshots_total",
            "Snapshots that completed or failed.",
            ("result",),
            registry=self.registry,
        )
        self.attempts = Counter(
            "sparkstate_operator_attempts_total",
            "Driver pods that were started.",
            registry=self.registry,
        )
        self.unknown_transitions = Counter(
            "sparkstate_operator_unknown_transitions_total",
            "Transitions of a phase that are in no table. Each is a bug.",
            ("kind", "before", "after"),
            registry=self.registry,
        )
        self.leading = Gauge(
            "sparkstate_operator_leading", "1 while this process holds the Lease.", registry=self.registry
        )

    def count_request(self, verb: str, resource: str, status: int) -> None:
        """One request to the API server; status 0 stands for no answer."""
        self.requests.labels(verb, resource, str(status)).inc()

    def count_jobs(self, phases: Iterable[str]) -> None:
        """The phases of all jobs. Two scrapes may count at once, each in a thread of its own: without the lock a scrape
        failed when the set of phases changed."""
        found = Counts(phases)
        with self._counting:
            self._phases.update(found)
            for phase in self._phases:
                self.jobs.labels(phase).set(found.get(phase, 0))

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self.registry)
