"""Everything sparkstate raises on purpose.

The kinds follow what the reader can do about them, not where they were raised::

    SparkstateError
    ├── SpecInvalid            correct the field that the message names          exit code 2
    │   ├── NotInThisVersion   leave the field out                               exit code 2
    │   └── BackendRefused     correct the class of the job's own state backend  exit code 2
    ├── BackendUnavailable     wait: the job is started again                    exit code 1
    ├── UserCodeError          correct the job's own function                    exit code 1
    ├── StateError             a state was used or declared in a way that cannot work
    │   ├── DeclarationError      correct the job's code; no restart can help      exit code 2
    │   ├── OperatorStateTooLarge give operator state more memory, or keep less    exit code 2
    │   ├── StateMigrationError   the stored state does not fit the job's code   exit code 3
    │   └── SerializationError    a value does not fit its declared type
    ├── RestoreBlocked         say from what to restore, or `startEmpty: true`   exit code 3
    ├── Fenced                 nothing: another driver owns the lineage          exit code 4
    ├── StorageError           correct what the message names about the storage  exit code 5
    │   ├── StorageRefused        repair keys, rights or clock; then try again   exit code 5
    │   ├── StorageUnavailable    wait: it is retried                            exit code 5
    │   ├── AlreadyExists         (internal) a create-if-absent lost
    │   ├── NotFound              (internal) no such object
    │   ├── CorruptData           restore an older checkpoint; keep the files    exit code 5
    │   └── UnknownFormat         use the sparkstate version that wrote it       exit code 5
    ├── SlotLost               nothing: the job restarts from its last checkpoint
    │   └── FeedBroken         nothing: the epoch's rows are brought again
    ├── SparkLost              more memory for the driver, if it recurs          exit code 1
    ├── ClockStep              nothing: the job restarts from its last checkpoint
    └── JobFailed              read the cause; the restart strategy gave up      exit code 1
"""

from __future__ import annotations


class SparkstateError(Exception):
    """Base of all errors raised on purpose. ``reason`` is the stable CamelCase word for conditions and logs."""

    exit_code: int = 1

    @property
    def reason(self) -> str:
        """The class name: stable, one word, fit for a Kubernetes condition."""
        return type(self).__name__


class SpecInvalid(SparkstateError):
    """A manifest or argument is wrong. The message names the field's path, its value and the remedy."""

    exit_code = 2


class NotInThisVersion(SpecInvalid):
    """The field exists in the schema, but what it asks for comes with a later version."""


class BackendRefused(SpecInvalid):
    """The job's own state backend cannot be used: its class does not exist or has another base, or it fails a check of
    the conformance kit, which the message names."""


class BackendUnavailable(SparkstateError):
    """The job's own state backend cannot say now whether it works: what it needs is away, or its checks took too long.
    Trying again later is right."""


class UserCodeError(SparkstateError):
    """The job's own function raised. The message names operator, key, epoch and row."""


class StateError(SparkstateError):
    """A state was declared or used in a way that cannot work."""


class DeclarationError(StateError):
    """The job's code declares something that cannot work, before any record: another try would end in the same way."""

    exit_code = 2


class OperatorStateTooLarge(StateError):
    """Operator state would outgrow the memory that the job has for it. The last checkpoint has the state; the message
    names operator, state, size and limit."""

    exit_code = 2


class StateMigrationError(StateError):
    """Stored state does not fit what the job declares now (key type, state kind or value type changed)."""

    exit_code = 3


class SerializationError(StateError):
    """A value does not fit the type that its descriptor declares."""


class RestoreBlocked(SparkstateError):
    """State exists or was asked for and cannot be restored; starting empty would lose it."""

    exit_code = 3


class Fenced(SparkstateError):
    """Another driver has claimed the lineage. This one may commit nothing more."""

    exit_code = 4


class StorageError(SparkstateError):
    """The checkpoint storage cannot do what was asked: another try gives the same answer."""

    exit_code = 5


class StorageRefused(StorageError):
    """The storage refuses this process: its keys, its rights or its clock. The request itself may be right, so it is
    worth another try once somebody has repaired the access."""


class StorageUnavailable(StorageError):
    """The storage cannot be reached or asks to slow down. Trying again later is right."""


class AlreadyExists(StorageError):
    """A create-if-absent found the name taken."""


class NotFound(StorageError):
    """There is no object of that name."""


class CorruptData(StorageError):
    """Size, checksum or format of stored bytes is not what was written."""


class UnknownFormat(StorageError):
    """Stored bytes have a format version that this sparkstate does not know. They are not damaged."""


class SlotLost(SparkstateError):
    """A slot process, or the connection to it, is gone."""


class FeedBroken(SlotLost):
    """The rows of an epoch did not reach a slot whole: a task broke off, or was run twice. They are brought again."""


class SparkLost(SparkstateError):
    """Spark's JVM has ended. Another one needs another driver process, which goes on from the last checkpoint."""


class ClockStep(SparkstateError):
    """The wall clock of the driver's machine was set back, which stops Spark's query for as long."""


class JobFailed(SparkstateError):
    """The restart strategy gave up; the cause is chained."""
