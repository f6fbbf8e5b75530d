"""PyFlink's ``CheckpointConfig``: how a job's code says when checkpoints are taken and where they go."""

from __future__ import annotations

from enum import Enum
from typing import Final

from sparkstate import errors
from sparkstate.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from sparkstate.spark.code_layer import CodeLayer
from sparkstate_spec import units
from sparkstate_spec.flink_tables import NOT_APPLICABLE

_MOST_FAILURES = 1_000_000
"""The manifest's bound; nobody can tell it from Flink's 2^31 - 1."""
_LONGEST_MS = units.duration_ms(units.LONGEST)


class CheckpointingMode(Enum):
    """The guarantee of a checkpoint. Here it is always exactly once."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """The fate of a cancelled job's checkpoints. Here they always stay; ``deletion.policy`` of the manifest says what
    becomes of them when the job is deleted."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""Its name before Flink 2."""


class CheckpointConfig:
    """The job's settings of checkpoints. Durations are milliseconds, as in PyFlink. Getters return what counts: the
    code's value, else the manifest's, else the built-in one. Setters return the object itself, and raise ``ValueError``
    or ``TypeError`` for a value that can never work, :class:`errors.NotInThisVersion` for a later version's."""

    DEFAULT_MODE: Final = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT: Final = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS: Final = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS: Final = 1

    def __init__(self, layer: CodeLayer) -> None:
        self._layer = layer

    def is_checkpointing_enabled(self) -> bool:
        """Always: without checkpoints no output is published."""
        return True

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between the begins of two checkpoints."""
        return self._ms("interval")

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Milliseconds between the begins of two checkpoints; at least 10, as in Flink."""
        return self._set_ms("interval", checkpoint_interval, "set_checkpoint_interval", least=10)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once."""
        return CheckpointingMode.EXACTLY_ONCE

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """AT_LEAST_ONCE is taken, and every checkpoint is exactly-once all the same."""
        _require(checkpointing_mode, CheckpointingMode, "set_checkpointing_mode")
        if checkpointing_mode is CheckpointingMode.AT_LEAST_ONCE:
            self._without_meaning("set_checkpointing_mode(AT_LEAST_ONCE)", "execution.checkpointing.mode")
        return self

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which a checkpoint is given up."""
        return self._ms("timeout")

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Milliseconds after which a checkpoint is given up; at least 10, as in Flink."""
        return self._set_ms("timeout", checkpoint_timeout, "set_checkpoint_timeout", least=10)

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds between the end of a checkpoint and the begin of the next."""
        return self._ms("minPause")

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Milliseconds between the end of a checkpoint and the begin of the next."""
        return self._set_ms(
            "minPause", min_pause_between_checkpoints, "set_min_pause_between_checkpoints", least=0
        )

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail before the job does."""
        return int(self._layer.get("checkpointing.tolerableFailures"))

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """How many checkpoints in a row may fail before the job does; a million at most."""
        setter = "set_tolerable_checkpoint_failure_number"
        number = min(_whole(tolerable_checkpoint_failure_number, setter, 0, 2**31 - 1), _MOST_FAILURES)
        self._layer.set("checkpointing.tolerableFailures", number, f"{setter}({number})")
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the job fails with the first failed checkpoint."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """True: no checkpoint may fail. False: any number may. Deprecated in Flink."""
        _require(fail_on_checkpointing_errors, bool, "set_fail_on_checkpointing_errors")
        self._layer.note(
            "set_fail_on_checkpointing_errors is deprecated: write set_tolerable_checkpoint_failure_number"
        )
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def get_max_concurrent_checkpoints(self) -> int:
        """One."""
        return 1

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """More than one is taken, and one checkpoint runs at a time all the same."""
        number = _whole(max_concurrent_checkpoints, "set_max_concurrent_checkpoints", 1, 2**31 - 1)
        if number > 1:
            key = "execution.checkpointing.max-concurrent-checkpoints"
            self._without_meaning(f"set_max_concurrent_checkpoints({number})", key)
        return self

    def set_externalized_checkpoint_retention(
        self, retention: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Any is taken, and checkpoints always stay."""
        _require(retention, ExternalizedCheckpointRetention, "set_externalized_checkpoint_retention")
        if retention is not ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION:
            key = "execution.checkpointing.externalized-checkpoint-retention"
            self._without_meaning(f"set_externalized_checkpoint_retention({retention.name})", key)
        return self

    def set_externalized_checkpoint_cleanup(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """The name before Flink 2 of :meth:`set_externalized_checkpoint_retention`."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    enable_externalized_checkpoints = set_externalized_checkpoint_cleanup

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Always."""
        return True

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """RETAIN_ON_CANCELLATION."""
        return ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION

    get_externalized_checkpoint_cleanup = get_externalized_checkpoint_retention

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Taken, and without effect: nothing is aligned here."""
        _require(enabled, bool, "enable_unaligned_checkpoints")
        if enabled:
            self._without_meaning("enable_unaligned_checkpoints()", "execution.checkpointing.unaligned")
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """As it is anyway."""
        return self

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Never: nothing is aligned here."""
        return False

    def set_aligned_checkpoint_timeout(self, timeout: int) -> CheckpointConfig:
        """Taken, and without effect: nothing is aligned here."""
        _whole(timeout, "set_aligned_checkpoint_timeout", 0, _LONGEST_MS)
        self._without_meaning("set_aligned_checkpoint_timeout()", "execution.checkpointing.unaligned")
        return self

    set_alignment_timeout = set_aligned_checkpoint_timeout

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Where checkpoints go: a :class:`CheckpointStorage`, or a location such as ``s3://bucket/prefix``.

        The manifest may leave ``checkpointing.storage`` to the code, with ``sparkstate run``. Where it has one, the
        code must name the same: whoever looks for the job's state reads the manifest.
        """
        if isinstance(storage, str):
            return self.set_checkpoint_storage_dir(storage)
        _require(storage, CheckpointStorage, "set_checkpoint_storage")
        given = storage.fields()
        self._layer.unset("set_checkpoint_storage")
        for path, value in given.items():
            self._layer.set(path, value, f"set_checkpoint_storage({storage})")
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Where checkpoints go: ``s3://bucket/prefix``, ``file:///path``, or a path, relative to the manifest."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """The storage that counts; None if none is named yet."""
        if self._layer.get("checkpointing.storageType") == "jobmanager":
            return JobManagerCheckpointStorage(max_state_size=self._layer.plain("checkpointing.maxStateSize"))
        location = self._layer.get("checkpointing.storage")
        if location is None:
            return None
        threshold, buffer = (
            self._layer.plain(f"checkpointing.{name}") for name in ("inlineThreshold", "writeBufferSize")
        )
        return FileSystemCheckpointStorage(location, threshold, buffer)

    def _ms(self, name: str) -> int:
        seconds: float = self._layer.plain(f"checkpointing.{name}")
        return round(seconds * 1000)

    def _set_ms(self, name: str, value: int, setter: str, *, least: int) -> CheckpointConfig:
        number = _whole(value, setter, least, _LONGEST_MS)
        self._layer.set(f"checkpointing.{name}", units.format_duration(number), f"{setter}({number})")
        return self

    def _without_meaning(self, call: str, key: str) -> None:
        """Answer a call that can mean nothing here with the sentence that answers its key."""
        sentence = next(message for prefixes, message in NOT_APPLICABLE if key.startswith(prefixes))
        self._layer.note(f"{call} has no effect: {sentence}")


def _whole(value: object, setter: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{setter}({value!r}): give a whole number from {least} to {most}")
    if not least <= value <= most:
        raise ValueError(f"{setter}({value!r}): the number must lie between {least} and {most}")
    return value


def _require(value: object, kind: type, setter: str) -> None:
    if not isinstance(value, kind):
        choices = f": {', '.join(kind.__members__)}" if issubclass(kind, Enum) else ""
        raise TypeError(f"{setter}({value!r}): give a {kind.__name__}{choices}")


def not_yet_changelog(enabled: object) -> None:
    """Raises ``NotInThisVersion`` if the changelog is asked for, ``TypeError`` for anything but a bool."""
    _require(enabled, bool, "enable_changelog_state_backend")
    if enabled:
        raise errors.NotInThisVersion(
            "enable_changelog_state_backend(True): the changelog state backend is not in this version; leave it out, "
            "or pass False"
        )
