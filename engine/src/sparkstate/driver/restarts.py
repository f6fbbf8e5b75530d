"""After which failures of an incarnation the job goes on with another, and when."""

from __future__ import annotations

from sparkstate import errors, restart
from sparkstate.driver.context import DriverContext
from sparkstate.driver.oom import OomKills
from sparkstate.driver.parts import Parts
from sparkstate.driver.spark_folders import SparkFolders
from sparkstate.driver.storage_outages import SLOW_S, briefly

STORAGE_RETRY_S = 2.0
"""A storage that is away counts towards no restart strategy; it is tried again after so long."""
_JVM_ENDS_S = 0.2
"""For the process of a JVM whose sockets are closed already."""
_JVM_TIDIES_S = 5.0
"""For one that ends in order, which deletes its folders before."""
_FINAL = (
    errors.SpecInvalid,
    errors.RestoreBlocked,
    errors.DeclarationError,
    errors.OperatorStateTooLarge,
    errors.StateMigrationError,
    errors.UnknownFormat,
    errors.Fenced,
)
"""Another try would end in the same way; a person, or another version of sparkstate, has to help."""


class Restarts:
    """Of one driver: it counts the failures over all incarnations."""

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        strategy = restart.RestartStrategy(context.settings.restart, context.rng)
        self._failures = restart.FailureCounters(strategy)
        self._oom = OomKills()
        self._spark_folders = SparkFolders(context.work_dir / "spark")

    def incarnation_begins(self) -> None:
        """Note what Spark has by now, and needs for all incarnations."""
        self._spark_folders.note()

    def wait_after(self, error: errors.SparkstateError, parts: Parts) -> None:
        """Wait until the next incarnation may begin, or the job is asked to end. Raises what ends the job, if it is to
        have no other one."""
        if isinstance(error, _FINAL):
            self._wait_after_odd_slot(error, parts)
            return
        self.require_spark(error)
        self._require_spark_folders(error)
        if isinstance(error, errors.StorageUnavailable):
            self._recover_after(error, STORAGE_RETRY_S)
        elif isinstance(error, errors.ClockStep):  # no failure of the job's, which no strategy may end
            self._recover_after(error, 0.0)
        else:
            self._recover_after(error, self._delay(error))

    def require_spark(self, error: Exception) -> None:
        """All incarnations of a driver have the same JVM. Once that has ended each of them would fail, so the driver
        ends, and another one comes: after ``SparkLost`` it does. ``error`` is what failed for it."""
        if not isinstance(error, (*_FINAL, errors.SparkLost)):
            self._require_jvm(error, _JVM_ENDS_S)

    def _require_jvm(self, error: Exception, wait_s: float) -> None:
        if self._context.requests.ending():
            return
        lost = self._context.spark.loss(wait_s)
        if lost is None:
            return
        why = errors.SparkLost(f"{lost}{self._oom.news()}")
        self._context.view.note_failure(why.reason, str(why), recovering=False)
        raise why from error

    def _wait_after_odd_slot(self, error: errors.SparkstateError, parts: Parts) -> None:
        """A final failure ends the job, with one exception: where the job has worked before, a slot that cannot load it
        (or its state backend) may lack memory or a disk. That passes, and must not end the job."""
        # A driver that slept through its successor's checkpoints finds files missing that were rightly deleted. That is
        # no ``RestoreBlocked``, for which a person would have to help: it is fenced.
        why = self._reason_behind(error, parts)
        if isinstance(why, errors.DeclarationError | errors.BackendRefused) and _has_worked(parts):
            self._require_spark_folders(why)
            self._recover_after(why, self._delay(why))
            return
        self._context.view.note_failure(why.reason, str(why), recovering=False)
        if why is error:
            raise error
        raise why from error

    def _reason_behind(self, error: errors.SparkstateError, parts: Parts) -> errors.SparkstateError:
        """As the guard's, from a storage that answers; one that hangs keeps no failure from being told."""
        found: list[errors.SparkstateError] = []
        briefly(lambda: found.append(parts.guard.reason_behind(error)), self._context.clock, SLOW_S)
        return found[0] if found else error

    def _delay(self, error: errors.SparkstateError) -> float:
        decision = self._failures.failed("job", self._context.clock.monotonic())
        if isinstance(decision, restart.NoRestart):
            self._context.view.note_failure(error.reason, str(error), recovering=False)
            if isinstance(error, errors.UserCodeError):
                raise error
            raise errors.JobFailed(f"{error} ({decision.reason})") from error
        return decision.delay_s

    def _recover_after(self, error: errors.SparkstateError, delay_s: float) -> None:
        told = f"{error}{self._oom.news()}"
        self._context.say(f"{error.reason}: {told}")
        self._context.view.note_failure(error.reason, told, recovering=True)
        self._context.say(f"restarting in {delay_s:.1f} s")
        self._context.pause(delay_s)

    def _require_spark_folders(self, error: errors.SparkstateError) -> None:
        """All incarnations of a driver have the same Spark. Without its folders each would fail, so the driver ends,
        and another one comes: after an exit of this kind it does. A JVM that ends in order deletes them itself."""
        gone = self._spark_folders.gone
        if gone is None or self._context.requests.ending():
            return
        self._context.say(f"{error.reason}: {error}")
        self._require_jvm(error, _JVM_TIDIES_S)
        why = errors.StorageUnavailable(
            f"the working folder {gone} was deleted while the job ran, and Spark makes it only at its start; a new "
            "driver goes on from the last checkpoint. Exempt the folder from whatever cleans up there, or let the job "
            "work elsewhere (localStorage)"
        )
        self._context.view.note_failure(why.reason, str(why), recovering=False)
        raise why from error


def _has_worked(parts: Parts) -> bool:
    """Whether the lineage ever completed a checkpoint or savepoint, by this driver or by an earlier one."""
    return parts.job_storage.log.state.restore_point is not None
