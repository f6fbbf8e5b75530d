"""What another operator looks after: how often that is told, and how often it is looked at again."""

from __future__ import annotations

from collections.abc import Hashable

from sparkstate_operator import actions, clock, labels, managing
from sparkstate_operator.edges.neighbours import Others

OTHERS_S = 60.0
"""What another operator looks after is looked at this often."""
AT_ONCE = 500
"""Objects that are looked at in that time; where there are more, each comes less often."""
AGAIN_S = 3600.0
"""Whose an object is is told again after this time: the API server keeps Events for an hour."""


class Leaving:
    """Remembers the objects that are another operator's, by ``key``: as many as the queue holds. ``mark``: our own."""

    def __init__(self, clock_: clock.Clock, mark: str) -> None:
        self._clock = clock_
        self._mark = mark
        self._told: dict[Hashable, tuple[str, str, float]] = {}

    @property
    def pause_s(self) -> float:
        """Until each of them is looked at again. Two operators that share thousands of jobs by mistake do not load the
        API server with it."""
        return OTHERS_S * max(1.0, len(self._told) / AT_ONCE)

    def forget(self, key: Hashable) -> None:
        """It is nobody else's any more."""
        self._told.pop(key, None)

    def note(self, key: Hashable, others: Others) -> actions.Note | None:
        """What to tell of it; None where that was told not long ago."""
        if others.manager is None:
            return None
        now_s = self._clock.monotonic()
        uid, mark, told_s = self._told.get(key, ("", "", 0.0))
        if (uid, mark) == (others.about.uid, others.manager.text) and now_s - told_s < AGAIN_S:
            return None
        self._told[key] = others.about.uid, others.manager.text, now_s
        who = f"the operator {others.manager.namespace}/{others.manager.name}"
        ending = others.about.deleting_at is not None
        why = f"it is looked after by {who}, and left alone by the operator {self._mark}: " + (
            "the one that holds it ends its deletion. "
            if ending
            else "two operators watch this namespace. "
            "Give one of them other namespaces, or another class with its jobs. "
        )
        why += f"If that operator is gone, remove the annotation {labels.MANAGER}"
        return actions.Note("ManagedByAnother", why, warning=True)

    def is_ours(self, others: Others) -> bool:
        """Whether we hold it, by a mark of whatever class we had then, although its class is another's. (One that is
        being deleted is not another's: ``edges.neighbours``.)"""
        held, own = managing.marked(others.about), managing.Manager.of(self._mark)
        return held is not None and own is not None and held.is_same(own) and not others.waits

    def to_class(self, others: Others) -> actions.Note:
        """Told when it is let go."""
        return actions.Note(
            "LeftToClass",
            f"the operator {self._mark} lets it go: it looks after another class. Operators of the job's class "
            f"({labels.OPERATOR_CLASS}) look after it from now on. If there is none, nobody does: its pods run on, and "
            "nobody replaces them. If it is deleted then, they are deleted some time later, without a savepoint",
        )
