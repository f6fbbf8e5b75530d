"""A driver's words on itself, and which of them are worth a look at the whole job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """The words of the driver's REST on itself; ``document`` is its JobStatus."""

    document: Document
    savepoint: Document | None = None
    """The SavepointStatus of the trigger that the intent names; None if the driver does not know it."""

    @property
    def phase(self) -> str:
        return str(self.document.get("phase", ""))

    @property
    def waits_for(self) -> int | None:
        """The older attempt for whose end the driver waits before it claims the state."""
        found = self.document.get("waits_for_attempt")
        return None if found is None else int(found)

    @property
    def storage_away(self) -> str:
        """Which storages do not answer, and what the driver needs them for, in one sentence; empty: they all do.

        One failed call is nothing that a person should look at; a call that hangs (0 failures so far) is. A driver may
        answer null for a URL: that once ended every decision about its job with a TypeError.
        """
        places = [place for place in self.document.get("storage_away") or () if place.get("failures", 2) != 1]
        told = [
            f"{(place.get('url') or '')[:300]} (to {(place.get('doing') or '')[:100]})"
            for place in places[:3]
        ]
        return f"the driver goes on trying to reach {', '.join(told)}" if told else ""

    @property
    def operator_state(self) -> OperatorStateNotice | None:
        """The notice that operator state has nearly used up its memory in a slot; None without one, and of an engine
        that knows no such notice."""
        found = self.document.get("operator_state_notice")
        if not found:
            return None
        limit = max(int(found.get("limit_bytes") or 0), 1)
        tenths = 10 * int(found.get("used_bytes") or 0) // limit
        return OperatorStateNotice(
            share=min(max(tenths, 0), 10) * 10,
            limit_bytes=limit,
            slot=int(found.get("slot") or 0),
            operator=str(found.get("operator") or "")[:100],
            state=str(found.get("state") or "")[:100],
        )

    @property
    def news(self) -> News:
        """The part that may be worth a look at the whole job."""
        told = (self.document.get(name) or {} for name in ("last_checkpoint", "last_savepoint"))
        works, notice = self.document.get("progress") or (), self.operator_state
        filled = (notice.share, notice.limit_bytes) if notice is not None else None
        return News(
            state=(self.phase, self.document.get("restarts"), bool(self.storage_away), filled),
            progress=(*(one.get("path") for one in told), *(_done(one) for one in works)),
        )


@dataclass(frozen=True)
class OperatorStateNotice:
    """A slot is about to run out of memory for operator state. ``share``: percent of the limit, in steps of ten."""

    share: int
    limit_bytes: int
    slot: int
    operator: str
    """The operator of the slot's largest operator state, and in ``state`` the name of that."""
    state: str


@dataclass(frozen=True)
class News:
    """The parts of a report that change. A change of ``state`` causes a look at once, one of ``progress`` when it
    is time to write progress."""

    state: tuple[Any, ...] = ()
    progress: tuple[Any, ...] = ()


def _done(work: Document) -> tuple[Any, ...]:
    return work.get("kind"), work.get("name"), work.get("done_bytes")


NO_NEWS = News()
"""Of a driver that does not answer."""


@dataclass(frozen=True)
class DriverEndpoint:
    """Where a driver answers, and which job and attempt its answer has to name."""

    ip: str
    uid: str
    attempt: int
