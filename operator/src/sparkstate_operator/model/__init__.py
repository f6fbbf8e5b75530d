"""The operator's API as typed models, from which ``crds/`` is generated (``python -m sparkstate_operator.crdgen``).

The room says how a spec and a status look: types, descriptions, and the rules in CEL by which the API server judges a
spec. The meaning of a spec belongs to ``sparkstate_spec``, which has the built-in values, Flink's keys, and the words
of the rules, for the engine as well (RFC 0027). The room knows nothing of pods or decisions.
"""

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
