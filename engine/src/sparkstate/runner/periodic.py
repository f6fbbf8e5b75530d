"""Takes the periodic savepoints of a running job and deletes the expired ones.

:mod:`schedule` decides which one is due, from the clock and the slot times that are done with; :mod:`retention`
decides which ones go. Both look at the storage, so a runner that starts again neither repeats nor forgets one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from sparkstate import clock as clocks
from sparkstate import errors, settings
from sparkstate.control import client as control
from sparkstate.control import documents
from sparkstate.runner import retention, schedule
from sparkstate.runner.savepoint_store import SavepointStore


class PeriodicSavepoints:
    """At most one in flight; a failed one is reported and the next slot time is the next try.

    ``first_start_ms`` is when the schedule begins to count for a job that has no periodic savepoint yet.
    """

    def __init__(
        self,
        plan: schedule.Schedule,
        limits: settings.SavepointSettings,
        store: SavepointStore,
        clock: clocks.Clock,
        report: Callable[[str], None],
        *,
        first_start_ms: int,
        pinned: Sequence[str] = (),
    ) -> None:
        self._plan = plan
        self._limits = limits
        self._store = store
        self._clock = clock
        self._report = report
        self._first_start_ms = first_start_ms
        self._pinned = tuple(pinned)
        self._done: set[int] | None = None
        """The slot times that are done with; None before the storage was asked."""
        self._in_flight: str | None = None
        self._sweep: threading.Thread | None = None

    def tick(self, client: control.ControlClient) -> None:
        """Go on by one step; called about once a second while the job runs.

        Raises what the client and the storage raise: nothing is lost by calling again later.
        """
        if self._done is None:
            self._done = self._slots_done()
        if self._in_flight is not None:
            self._follow(client, self._in_flight)
            return
        now_ms = self._clock.now_ms()
        since_ms = schedule.since(self._done, first_start_ms=self._first_start_ms, now_ms=now_ms)
        slot = schedule.due(self._plan, since_ms=since_ms, now_ms=now_ms)
        if slot is not None:
            identifier = schedule.trigger_id(slot)
            client.trigger_savepoint(self._request(identifier))
            self._in_flight = identifier

    def driver_ended(self) -> None:
        """The savepoint in flight may or may not be complete: the storage is asked again before the next step."""
        self._in_flight = None
        self._done = None

    def close(self) -> None:
        """Wait for a deletion that is under way."""
        if self._sweep is not None:
            self._sweep.join()

    def _request(self, identifier: str) -> documents.SavepointRequest:
        return documents.SavepointRequest(trigger_id=identifier, format_type=self._limits.format_type)

    def _slots_done(self) -> set[int]:
        slots = [schedule.slot_of(kept.trigger_id) for kept in self._store.completed()]
        return {slot for slot in slots if slot is not None}

    def _follow(self, client: control.ControlClient, identifier: str) -> None:
        status = client.savepoint(identifier)
        if status is None:  # the driver recovered before it had written anything down
            client.trigger_savepoint(self._request(identifier))
            return
        if status.status is documents.SavepointPhase.COMPLETED:
            self._report(f"savepoint {status.location} (periodic, epoch {status.epoch})")
            self._sweep_expired()
        elif status.status is documents.SavepointPhase.FAILED:
            self._report(f"periodic savepoint {identifier} failed: {status.failure}")
        else:
            return
        slot = schedule.slot_of(identifier)
        if self._done is not None and slot is not None:
            self._done.add(slot)
        self._in_flight = None

    def _sweep_expired(self) -> None:
        if self._limits.max_age_s is None and self._limits.max_count is None:
            return
        if self._sweep is None or not self._sweep.is_alive():
            self._sweep = threading.Thread(
                target=self._delete_expired, name="sparkstate-retention", daemon=True
            )
            self._sweep.start()

    def _delete_expired(self) -> None:
        try:
            gone = retention.expired(
                self._store.completed(),
                now_ms=self._clock.now_ms(),
                max_age_s=self._limits.max_age_s,
                max_count=self._limits.max_count,
                pinned=self._pinned,
            )
            for savepoint in gone:
                self._store.delete(savepoint)
                self._report(f"deleted expired savepoint {savepoint.url}")
        except errors.SparkstateError as exc:
            self._report(f"expired savepoints could not be deleted now: {exc}")
