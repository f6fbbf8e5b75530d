"""Objects that another operator looks after: how often an Event says so, and how often they are looked at again."""

from __future__ import annotations

from collections.abc import Hashable

from sparkstate_operator import actions, clock, labels, managing
from sparkstate_operator.edges.neighbours import Others

OTHERS_S = 60.0
"""An object of another operator is looked at this often."""
AT_ONCE = 500
"""Objects that are looked at within that time; where there are more, each is looked at less often."""
AGAIN_S = 3600.0
"""The Event about an object's owner is repeated after this time, because the API server keeps Events for an hour. It
used to come each minute, for thousands of jobs."""


class Leaving:
    """Remembers the objects of other operators by their ``key``, at most as many as the
    queue holds. ``mark``: our own."""

    def __init__(self, clock_: clock.Clock, mark: str) -> None:
        self._clock = clock_
        self._mark = mark
        self._told: dict[Hashable, tuple[str, str, float]] = {}

    @property
    def pause_s(self) -> float:
        """Until each of them is looked at again. It grows with their number, so that two operators that share thousands
        of jobs by mistake do not load the API server."""
        return OTHERS_S * max(1.0, len(self._told) / AT_ONCE)

    def forget(self, key: Hashable) -> None:
        """It belongs to no other operator any more."""
        self._told.pop(key, None)

    def note(self, key: Hashable, others: Others) -> actions.Note | None:
        """The Event about it; None if the same one was written not long ago."""
        if others.manager is None:
            return None
        now_s = self._clock.monotonic()
        uid, mark, told_s = self._told.get(key, ("", "", 0.0))
        if (uid, mark) == (others.about.uid, others.manager.text) and now_s - told_s < AGAIN_S:
            return None
        self._told[key] = others.about.uid, others.manager.text, now_s
        who = f"the operator {others.manager.namespace}/{others.manager.name}"
        ending = others.about.deleting_at is not None
        why = f"{who} looks after it, so the operator {self._mark} leaves it alone: " + (
            "the operator that holds it ends its deletion. "
            if ending
            else "two operators watch this namespace. "
            "Give one of them other namespaces, or another class together with its jobs. "
        )
        why += f"If the first operator is gone, remove the annotation {labels.MANAGER}"
        return actions.Note("ManagedByAnother", why, warning=True)

    def is_ours(self, others: Others) -> bool:
        """Whether we hold it although its class is another's. The mark is compared without its class:
        an operator that was given another class must still let its old jobs go. (One that is being
        deleted is not another's: ``edges.neighbours``.)"""
        held, own = managing.marked(others.about), managing.Manager.of(self._mark)
        return held is not None and own is not None and held.is_same(own) and not others.waits

    def to_class(self, others: Others) -> actions.Note:
        """The Event for an object that we let go."""
        return actions.Note(
            "LeftToClass",
            f"the operator {self._mark} lets it go, because it looks after another class. From now on the operators "
            f"of the job's class ({labels.OPERATOR_CLASS}) look after it. If there is no such operator, its pods run "
            "on and nobody replaces them; a deletion then removes them some time later, without a savepoint",
        )
