"""The acts that a decision asks for, and the list of every write that the operator can make.

:class:`Write` is that list. Every write passes :meth:`apply.Applier._write`, which names it to the hooks; tests kill
the operator there, before and after each member, and a member without such a test fails the suite.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkstate_operator import observed
from sparkstate_operator.core import transitions

Document = Mapping[str, Any]
PURGE = "purge"
"""The command that deletes all data of a job, and the deletion policy that asks for it."""
DELETE = "delete"
"""The command that deletes the data of a savepoint."""
GIVE_UP = "give-up"
"""The command that looks for a savepoint by its trigger, and deletes what it finds."""
LONG = frozenset({PURGE, DELETE, GIVE_UP})
"""The commands that may take long, and say how far they are when they are asked."""


class Write(enum.StrEnum):
    """Every change that the operator makes to the world."""

    ADD_FINALIZER = "add-finalizer"
    REMOVE_FINALIZER = "remove-finalizer"
    CREATE_REVISION = "create-revision"
    DELETE_REVISION = "delete-revision"
    WRITE_STATUS = "write-status"
    APPLY_SERVICE = "apply-service"
    APPLY_SERVICE_ACCOUNT = "apply-service-account"
    APPLY_ROLE_BINDING = "apply-role-binding"
    DELETE_CHILD = "delete-child"
    CREATE_SECRET = "create-secret"
    DELETE_SECRET = "delete-secret"
    CREATE_CONFIG_MAP = "create-config-map"
    DELETE_CONFIG_MAP = "delete-config-map"
    CREATE_POD = "create-pod"
    DELETE_POD = "delete-pod"
    TRIGGER_SAVEPOINT = "trigger-savepoint"
    LET_CLAIM = "let-claim"
    CREATE_SNAPSHOT = "create-snapshot"
    DELETE_SNAPSHOT = "delete-snapshot"
    DELETE_JOB = "delete-job"
    CREATE_COMMAND = "create-command"
    DELETE_COMMAND = "delete-command"
    WRITE_SNAPSHOT_STATUS = "write-snapshot-status"
    CREATE_EVENT = "create-event"


@dataclass(frozen=True)
class Start:
    """How an attempt begins. Void once one of the lineage has completed a checkpoint: the engine sees to that by
    ``since``, which lets a new lineage begin only where none has begun for this instruction yet."""

    since: int = 0
    """The attempt that the instruction was given to; later attempts carry it on. 0: no instruction."""
    uri: str = ""
    """Restore from here."""
    latest: bool = False
    """Restore what the job's name has in storage, and nothing else."""
    empty: bool = False
    """Begin a new lineage without state."""
    fresh: bool = False
    """Begin a new lineage from ``uri`` although there is one with state."""

    @property
    def begins_lineage(self) -> bool:
        """Whether the job leaves the state that it has."""
        return self.empty or self.fresh

    def document(self) -> dict[str, Any]:
        """As kept in the status and in the ConfigMap's annotation; fields at their defaults left out."""
        return {name: value for name, value in vars(self).items() if value}

    @classmethod
    def of(cls, document: Document | None) -> Start:
        """The inverse of :meth:`document`; unknown fields, and those of another type, are skipped."""
        told = document or {}
        return cls(
            **{
                name: told[name]
                for name, default in vars(cls()).items()
                if isinstance(told.get(name), type(default))
            }
        )


@dataclass(frozen=True)
class AddFinalizer:
    """Hold the object until what belongs to it is settled, and mark it as ours."""

    marks: Mapping[str, str] = field(default_factory=dict)
    """Labels to set with it, which say whose the object is."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Annotations to set with it."""


@dataclass(frozen=True)
class RemoveFinalizer:
    """Let the object go."""


@dataclass(frozen=True)
class CreateRevision:
    """Keep a resolved spec, immutable, under a name that derives from its content."""

    name: str


@dataclass(frozen=True)
class EnsureChildren:
    """Service, ServiceAccount and RoleBinding as the revision wants them; those that differ are applied."""

    revision: str


@dataclass(frozen=True)
class StartAttempt:
    """Token Secret, ConfigMap and driver pod of one attempt."""

    attempt: int
    revision: str
    start: Start
    predecessor_s: int = 0
    """An older driver may still be ending; after this time it can do no more harm. 0: there is none."""


@dataclass(frozen=True)
class DeletePod:
    """End a pod with its grace period."""

    pod: observed.Pod
    why: str


@dataclass(frozen=True)
class DeleteAttempt:
    """Secret and ConfigMap of an attempt that is over."""

    child: observed.Child


@dataclass(frozen=True)
class DeleteSecret:
    """The Secret of an attempt that has no ConfigMap; it may be gone already."""

    attempt: int


@dataclass(frozen=True)
class DeleteChild:
    """Any other child."""

    child: observed.Child
    replaced: bool = False
    """Whether it holds rights of a driver that the drivers' role is to give: it stays until that role is there."""


@dataclass(frozen=True)
class DeleteRevision:
    """A revision that nothing refers to any more."""

    child: observed.Child


@dataclass(frozen=True)
class TriggerSavepoint:
    """Ask the driver for a savepoint; the trigger id makes a repetition harmless."""

    pod: observed.Pod
    trigger_id: str
    stop: bool = False
    directory: str | None = None
    format_type: str | None = None
    """None: canonical."""

    def request(self) -> dict[str, Any]:
        """The body of the request. An older engine refuses a field that it does not know, so the body leaves out what
        an engine does by itself."""
        format_type = None if self.format_type == "canonical" else self.format_type
        optional = {"target_directory": self.directory, "format_type": format_type}
        given = {name: value for name, value in optional.items() if value is not None}
        return {"trigger_id": self.trigger_id, "stop": self.stop, **given}


@dataclass(frozen=True)
class LetClaim:
    """Tell a driver that waits for the end of older ones that they have ended; a repetition is harmless."""

    pod: observed.Pod


@dataclass(frozen=True)
class CreateSnapshot:
    """A StateSnapshot by the clock."""

    body: Document


@dataclass(frozen=True)
class DeleteSnapshot:
    """A StateSnapshot that retention lets go; its data follows its deletion policy."""

    snapshot: observed.Snapshot
    why: str


@dataclass(frozen=True)
class DeleteJob:
    """The StatefulSparkJob itself, unless it has changed since the look. Its deletion then goes its usual way."""


@dataclass(frozen=True)
class CreateCommand:
    """An engine command as a Job."""

    name: str
    does: str
    arguments: tuple[str, ...]
    limit_s: int
    """Kubernetes stops it after this time."""
    template: Document = field(default_factory=dict)
    """Of a command about a snapshot: the pod template under the operator's own."""


@dataclass(frozen=True)
class CreateCheck:
    """``sparkstate check`` as a Job, in the pod that a driver of ``revision`` would have."""

    name: str
    revision: str
    start: Start
    """The start instruction of the attempt that would follow."""
    arguments: tuple[str, ...]
    limit_s: int
    """Kubernetes stops it after this time."""


@dataclass(frozen=True)
class DeleteCommand:
    """An engine command's Job, done or given up."""

    command: observed.Command


Action = (
    AddFinalizer | RemoveFinalizer | CreateRevision | EnsureChildren | StartAttempt | DeletePod | DeleteAttempt
    | DeleteSecret | DeleteChild | DeleteRevision | TriggerSavepoint | LetClaim | CreateSnapshot | DeleteSnapshot
    | DeleteJob | CreateCommand | CreateCheck | DeleteCommand
)  # fmt: skip


@dataclass(frozen=True)
class Note:
    """An Event to record: ``reason`` is stable, ``warning`` its type."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True)
class Decision:
    """The acts of one turn, in this order: ``before`` (harmless by their nature), ``status`` (the intent), ``actions``,
    then ``notes``; look again after ``wait_s``."""

    status: Document
    before: tuple[Action, ...] = ()
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wait_s: float | None = None
    check: StartAttempt | None = None
    """An attempt whose objects must pass a dry run before any of this is done."""
    steps: tuple[transitions.Step, ...] = ()
    """The changes of the phase, from the status that was seen to this one."""


def stands_alone(action: Action, decision: Decision) -> bool:
    """Whether its refusal hinders no later act of the decision. A quota that was full of StateSnapshots kept a job from
    letting old ones go, and from removing what its attempts had left. A job that goes must not go without them."""
    goes = any(isinstance(one, RemoveFinalizer) for one in decision.actions)
    return isinstance(action, CreateSnapshot | DeleteSnapshot) and not goes
