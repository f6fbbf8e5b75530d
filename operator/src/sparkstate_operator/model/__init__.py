"""The API of the operator as typed models. ``crds/`` is generated from here (``python -m
sparkstate_operator.crdgen``)."""

from sparkstate_operator.model.job import GROUP, KIND, PLURAL, VERSION, StatefulSparkJob
from sparkstate_operator.model.snapshot import StateSnapshot, StateSnapshotSpec, StateSnapshotStatus
from sparkstate_operator.model.spec import StatefulSparkJobSpec
from sparkstate_operator.model.status import StatefulSparkJobStatus

__all__ = [
    "GROUP",
    "KIND",
    "PLURAL",
    "VERSION",
    "StateSnapshot",
    "StateSnapshotSpec",
    "StateSnapshotStatus",
    "StatefulSparkJob",
    "StatefulSparkJobSpec",
    "StatefulSparkJobStatus",
]
