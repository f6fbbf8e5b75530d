"""The two resources, with the names, columns, models and rules from which ``crd`` makes a definition."""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate_operator.model import job, rules, snapshot, snapshot_rules
from sparkstate_operator.model.base import Model
from sparkstate_operator.model.rule import Rule
from sparkstate_operator.model.spec import StatefulSparkJobSpec
from sparkstate_operator.model.status import StatefulSparkJobStatus


@dataclass(frozen=True)
class Column:
    """One column of ``kubectl get``; those of ``priority`` 1 only with ``-o wide``."""

    name: str
    type: str
    path: str
    description: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Scale:
    """Where the scale subresource finds its numbers."""

    spec: str
    status: str
    selector: str


@dataclass(frozen=True)
class Resource:
    """The parts of one CustomResourceDefinition."""

    kind: str
    plural: str
    short: str
    description: str
    spec: type[Model]
    status: type[Model]
    rules: tuple[Rule, ...]
    columns: tuple[Column, ...]
    scale: Scale | None = None
    defaulted: bool = False
    """Whether the chart's ``defaults`` hold values for fields of the spec."""


AGE = Column("Age", "date", ".metadata.creationTimestamp")

JOBS = Resource(
    kind=job.KIND,
    plural=job.PLURAL,
    short="ssj",
    description="A streaming Spark job with keyed state, checkpoints and savepoints.",
    spec=StatefulSparkJobSpec,
    status=StatefulSparkJobStatus,
    rules=rules.ALL,
    columns=(
        Column("Phase", "string", ".status.phase", "Where the job stands"),
        Column("Slots", "integer", ".status.slots", "Slots that run"),
        Column("Backend", "string", ".status.backend", "State backend"),
        Column("State", "string", ".status.stateSize", "Size of the state at the last checkpoint"),
        Column(
            "Last-Checkpoint", "date", ".status.lastCheckpoint.time", "Age of the newest completed checkpoint"
        ),
        Column("Restarts", "integer", ".status.restarts.total", "Restarts since the job was created"),
        Column("Progress", "string", ".status.progress", "Restore, savepoint, purge or rescale under way", 1),
        AGE,
    ),
    scale=Scale(".spec.slots", ".status.slots", ".status.selector"),
    defaulted=True,
)

SNAPSHOTS = Resource(
    kind=snapshot.KIND,
    plural=snapshot.PLURAL,
    short="snap",
    description="One savepoint, taken from a job or registered from storage, and what happens to its data.",
    spec=snapshot.StateSnapshotSpec,
    status=snapshot.StateSnapshotStatus,
    rules=snapshot_rules.ALL,
    columns=(
        Column("Phase", "string", ".status.phase", "Where the snapshot stands"),
        Column("Job", "string", ".spec.jobRef.name", "The job from which it is taken"),
        Column("Epoch", "integer", ".status.epoch", "The epoch whose end it holds"),
        Column("Size", "string", ".status.size", "Size of the whole state"),
        Column("Completed", "date", ".status.completedTime", "Age of the completed savepoint"),
        Column("Policy", "string", ".spec.deletionPolicy", "The fate of the data on deletion", 1),
        Column("URI", "string", ".status.uri", "Folder of the savepoint", 1),
        Column("Message", "string", ".status.message", "How far it is, or why it waits or failed", 1),
        AGE,
    ),
)

ALL = (JOBS, SNAPSHOTS)
