"""Which operator looks after a job or a snapshot (RFC 0023).

Two words say it. The **class** is a label that people set. Each operator has one (none is a class too) and sees only
the jobs of its class, so operators of different classes can share a namespace and never meet. The **mark** is an
annotation that the operator sets together with its finalizer, and names the operator that holds the object. Two
operators of one class whose namespaces overlap meet at the mark, and the second one leaves the object alone while the
first is there.

An operator is known by its Lease, which all its replicas share, and which outlives an upgrade and a new installation of
the same release. The Lease also says whether the operator is still there,
and still looks after such an object (``edges.neighbours``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate_operator import labels, observed

CLASS = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?")
"""A class: what a label's value may be, in lower case; empty for none."""
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_MARK = re.compile(
    rf"(?P<namespace>{_LABEL})/(?P<name>{_LABEL}(?:\.{_LABEL})*)(?:@(?P<operator_class>{_LABEL}))?"
)
_LONGEST_NAME = 253


@dataclass(frozen=True)
class Manager:
    """One operator, however many replicas it has."""

    namespace: str
    name: str
    """Of its Lease."""
    operator_class: str = ""

    @property
    def text(self) -> str:
        """As the annotation has it."""
        return f"{self.namespace}/{self.name}" + (f"@{self.operator_class}" if self.operator_class else "")

    @classmethod
    def of(cls, text: str) -> Manager | None:
        """The inverse of :attr:`text`; None for a text that no operator writes. Anybody who may change the object may
        write the annotation, and its parts become a URL."""
        found = _MARK.fullmatch(text)
        if found is None or len(found["name"]) > _LONGEST_NAME:
            return None
        return cls(found["namespace"], found["name"], found["operator_class"] or "")

    def is_same(self, other: Manager) -> bool:
        """Whether it is that operator, of whatever class."""
        return (self.namespace, self.name) == (other.namespace, other.name)

    def notes(self, namespaces: tuple[str, ...]) -> dict[str, str]:
        """Annotations of its Lease: what it looks after, as :func:`looks_after` reads them."""
        return {labels.OPERATOR_CLASS: self.operator_class, labels.NAMESPACES: ",".join(namespaces)}


def selector(operator_class: str) -> str:
    """Selects the jobs of a class; those without one, where it is empty."""
    empty = f"!{labels.OPERATOR_CLASS}"
    return f"{labels.OPERATOR_CLASS}={operator_class}" if operator_class else empty


def selector_of_others(operator_class: str) -> str:
    """Selects the jobs of all classes but this one, those without a class too."""
    return f"{labels.OPERATOR_CLASS}!={operator_class}" if operator_class else labels.OPERATOR_CLASS


def is_own(about: observed.Job | observed.Snapshot, operator_class: str, mark: str) -> bool:
    """Whether it bears the mark and the class of the operator that these are of, so that no Lease need be read."""
    return (
        labels.FINALIZER in about.finalizers
        and about.annotations.get(labels.MANAGER, "") == mark
        and about.labels.get(labels.OPERATOR_CLASS, "") == operator_class
    )


def looks_after(
    lease_notes: Mapping[str, str], other: Manager, namespace: str, *, ending: bool = False
) -> bool:
    """Whether an operator whose Lease has these annotations still looks after what bears its mark there: it may have
    been given another class, or other namespaces. One that does not say looks after everything. ``ending``: what is
    being deleted, of whatever class."""
    if not ending and lease_notes.get(labels.OPERATOR_CLASS, other.operator_class) != other.operator_class:
        return False
    told = lease_notes.get(labels.NAMESPACES, "")
    return not told or namespace in told.split(",")


def marked(about: observed.Job | observed.Snapshot) -> Manager | None:
    """The operator that holds it, by its mark; None: nobody does, or it has left no mark."""
    return _holder(about.finalizers, about.annotations)


def holds(own: Manager, meta: Mapping[str, Any]) -> bool:
    """The same of an object's metadata: whether ``own`` holds it, of whatever class it was then."""
    found = _holder(meta.get("finalizers", ()), meta.get("annotations") or {})
    return found is not None and found.is_same(own)


def _holder(finalizers: Collection[str], annotations: Mapping[str, str]) -> Manager | None:
    return Manager.of(annotations.get(labels.MANAGER, "")) if labels.FINALIZER in finalizers else None


def other_manager(
    about: observed.Job | observed.Snapshot, operator_class: str, own: Manager
) -> Manager | None:
    """The operator that has marked it, where that is another one of the object's present class. ``operator_class``: of
    the object. None: nobody has, or not any more, and it is ``own``'s to take."""
    found = marked(about)
    if found is None or found.is_same(own) or found.operator_class != operator_class:
        return None
    return found
