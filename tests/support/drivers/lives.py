"""The life of one job in which slots, Python workers and drivers are killed one after another, each in a named phase.

One lineage and few starts of Spark carry many kills: after each of them the job must come back and complete a
checkpoint before the next one is due. At the end of its input everything that it published is compared, row by row.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from sparkstate.phases import MAX_HOLD_S, ProcessPhase
from sparkstate_tools.drivers import driving, totals

Victim = Literal["slot", "worker", "driver"]
VICTIMS: Final[tuple[Victim, ...]] = ("slot", "worker", "driver")
VICTIM_NAMES: Final[Mapping[Victim, str]] = {
    "slot": "a slot",
    "worker": "a Python worker of Spark",
    "driver": "the driver",
}

ENTERED_BY: Final[Mapping[ProcessPhase, tuple[Victim, ...]]] = {
    ProcessPhase.RESTORE_BEGIN: ("driver",),
    ProcessPhase.RESTORE_SETTLE: ("driver",),
    ProcessPhase.RESTORE: ("slot", "driver"),
    ProcessPhase.EPOCH_BEGIN: ("driver",),
    ProcessPhase.FEED: ("slot", "worker", "driver"),
    ProcessPhase.FINISH: ("slot", "driver"),
    ProcessPhase.OUTPUT: ("slot", "worker", "driver"),
    ProcessPhase.COMMIT: ("slot", "driver"),
    ProcessPhase.CHECKPOINT_SYNC: ("slot",),
    ProcessPhase.CHECKPOINT_UPLOAD: ("slot",),
    ProcessPhase.CHECKPOINT_METADATA: ("driver",),
    ProcessPhase.CHECKPOINT_COMMIT: ("driver",),
    ProcessPhase.CHECKPOINT_PUBLISH: ("driver",),
    ProcessPhase.CHECKPOINT_COMPLETE: ("driver",),
}
"""Which processes pass through a phase themselves. Each life compares this with its phase log."""

IMPOSSIBLE: Final[Mapping[tuple[Victim, ProcessPhase], str]] = {
    ("slot", ProcessPhase.RESTORE_BEGIN): "slots start after the incarnation is recorded and settled",
    ("slot", ProcessPhase.RESTORE_SETTLE): "slots start after the incarnation is recorded and settled",
}
"""Kills that there cannot be. A life that holds the driver there looks whether it is true."""

RESTORES: Final = (ProcessPhase.RESTORE_BEGIN, ProcessPhase.RESTORE_SETTLE, ProcessPhase.RESTORE)


@dataclass(frozen=True)
class Kill:
    """SIGKILL to ``victim`` while ``holder`` is in ``phase``."""

    victim: Victim
    phase: ProcessPhase

    @property
    def holder(self) -> str:
        """Who is stopped in the phase: the victim itself if it comes there, else who does while the victim lives."""
        entering = ENTERED_BY[self.phase]
        kind = self.victim if self.victim in entering else "driver" if "driver" in entering else "slot"
        return "slot-0" if kind == "slot" else kind

    def __str__(self) -> str:
        return f"{self.victim}@{self.phase}"


def every_kill(phases: tuple[ProcessPhase, ...]) -> tuple[Kill, ...]:
    """All kills that are possible in these phases."""
    return tuple(Kill(v, p) for p in phases for v in VICTIMS if (v, p) not in IMPOSSIBLE)


def a_life(
    backend: str,
    name: str,
    kills: tuple[Kill, ...],
    *marks: pytest.MarkDecorator,
    expected: Mapping[Victim, str],
    of: str = "",
) -> Any:
    """The parameters ``backend`` and ``kills`` of a test, with a fault for each kill. ``expected``: by victim; ``of``:
    whose processes they are, if that is to be said."""
    faults = [
        pytest.mark.fault(
            broken=f"{VICTIM_NAMES[kill.victim]}{of} is killed (SIGKILL)",
            when=f"in the phase {kill.phase}",
            expected=expected[kill.victim],
        )
        for kill in kills
    ]
    return pytest.param(backend, kills, id=f"{backend}-{name}", marks=[*marks, *faults])


class Input:
    """Files that arrive as fast as they are read: always a little more than was read, never a long queue."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0
        self.rows: list[totals.Row] = []

    def ahead_of(self, epoch: int) -> None:
        """See to it that a few epochs after this one have input."""
        missing = epoch + 4 - self._files
        if missing > 0:
            self.rows += totals.make_input(
                self._folder, missing, rows=60, keys=20, seed=self._files, first=self._files
            )
            self._files += missing

    def end(self) -> None:
        """No more comes: write what is still to come."""

    def wait(self, condition: Callable[[], bool], what: str, driver: driving.Driver) -> None:
        """Wait until ``condition`` holds, while ``driver`` gets the input that it needs to come there."""

        def ready() -> bool:
            self.ahead_of(max((p["epoch"] for p in driver.phases()), default=-1))
            return condition()

        driving.wait_for(ready, driving.PATIENCE_S, what, driver.process)

    def wait_for_checkpoint(self, what: str, driver: driving.Driver) -> None:
        """Wait until a checkpoint is complete that began after now."""
        before = max((p["checkpoint"] for p in driver.phases()), default=-1)
        self.wait(
            lambda: any(
                p["phase"] == ProcessPhase.CHECKPOINT_COMPLETE and p["checkpoint"] > before
                for p in driver.phases()
            ),
            what,
            driver,
        )


class Life:
    """One job over as many drivers as its kills need. Input arrives as fast as it is read."""

    job = "counted.py"

    def __init__(self, folder: Path, backend: str) -> None:
        self._folder = folder
        self._backend = backend
        self._attempt = 0
        self._input = self._make_input(folder / "in")
        self._earlier: list[dict[str, Any]] = []
        self._driver = self._start()

    def run(self, kills: tuple[Kill, ...]) -> None:
        """Every kill, then the rest of the input, then the comparison."""
        try:
            self._input.wait_for_checkpoint("the first checkpoint", self._driver)
            for kill in kills:
                self._carry_out(kill)
            self._kill_driver(self._driver.process.pid)
            self._input.end()
            self._start_next({"availableNow": True})
            self._driver.finish()
            self._compare(self._folder / "out")
            self._compare_phases()
            driving.wait_until_nothing_is_left(self._folder)
        except BaseException:
            self._tell()
            raise
        finally:
            self._driver.__exit__(None, None, None)

    def _make_input(self, folder: Path) -> Input:
        return Input(folder)

    def _compare(self, output: Path) -> None:
        """What was published is right, row by row."""
        totals.check(output, self._input.rows)
        totals.check_counted(output, self._input.rows)

    # -- one kill -----------------------------------------------------------------------------------------------

    def _carry_out(self, kill: Kill) -> None:
        began = time.time()
        self._driver.hold(kill.holder, kill.phase)
        if kill.phase in RESTORES:
            os.kill(self._driver.pid_of("slot-1"), signal.SIGKILL)
        holder = self._held(kill)
        if ("slot", kill.phase) in IMPOSSIBLE:
            assert not self._slots_alive(), f"a slot lives in {kill.phase}"
        victim = self._victim(kill, holder)
        os.kill(victim, signal.SIGKILL)
        driving.wait_for(lambda: not driving.is_alive(victim), 10, f"the end of {kill}")
        self._check_moment(kill, holder, began)
        self._driver.release()
        if kill.victim == "driver":
            self._kill_driver(victim)
            self._start_next({"processingTime": "100ms"})
        self._input.wait_for_checkpoint(f"a checkpoint after {kill}", self._driver)
        if kill.victim == "driver":
            assert "found by the job's name" in self._driver.log()
            assert "restoring checkpoint" in self._driver.log()
        print(f"{kill}: {time.time() - began:.1f} s", flush=True)

    def _held(self, kill: Kill) -> int:
        self._input.wait(
            lambda: self._driver.is_held(kill.holder, kill.phase),
            f"{kill.holder} held for {kill}",
            self._driver,
        )
        return self._driver.held(kill.holder, kill.phase)

    def _victim(self, kill: Kill, holder: int) -> int:
        if kill.victim == kill.holder.partition("-")[0]:
            return holder
        if kill.victim == "driver":
            return self._driver.process.pid
        if kill.victim == "slot":
            return self._driver.pid_of("slot-1")
        return self._worker()

    def _check_moment(self, kill: Kill, holder: int, since: float) -> None:
        """The victim died while the holder was in the phase: the log says that it came there, and it is held still."""
        came = [p for p in self._driver.phases() if p["pid"] == holder and p["phase"] == kill.phase]
        assert came[-1]["t_ms"] >= int(since * 1000), f"{kill}: {came[-1]}"
        held = self._driver.holds / f"held-{kill.holder}:{kill.phase}-{holder}"
        assert time.time() - came[-1]["t_ms"] / 1000 < MAX_HOLD_S, f"{kill} came too late"
        assert held.exists()

    def _kill_driver(self, pid: int) -> None:
        if driving.is_alive(pid):
            os.kill(pid, signal.SIGKILL)
        assert self._driver.wait() == -signal.SIGKILL
        self._driver.release()
        driving.wait_until_nothing_is_left(self._folder)

    # -- drivers, slots, workers --------------------------------------------------------------------------------

    def _start(self, trigger: Mapping[str, object] | None = None) -> driving.Driver:
        self._attempt += 1
        document = driving.manifest(
            self._folder,
            self.job,
            stateBackend={"type": self._backend},
            trigger=trigger or {"processingTime": "100ms"},
            checkpointing={"interval": "300ms", "storage": str(self._folder / "checkpoints")},
            restart={"strategy": "fixed-delay", "fixedDelay": {"attempts": 1000, "delay": "100ms"}},
        )
        self._input.ahead_of(-1)
        return driving.Driver(self._folder, document, attempt=self._attempt)

    def _start_next(self, trigger: Mapping[str, object]) -> None:
        self._driver.__exit__(None, None, None)
        self._earlier += self._driver.phases()
        self._driver = self._start(trigger)

    def _slots_alive(self) -> list[int]:
        return [pid for pid in self._ours() if "sparkstate.slots" in driving.command_line(pid)]

    def _worker(self) -> int:
        """A Python worker that has nothing to do just now: forked by the daemon, which has the same command line."""
        workers = [pid for pid in self._ours() if "spark.daemon" in driving.command_line(pid)]
        return next(pid for pid in workers if driving.parent_of(pid) in workers)

    def _ours(self) -> list[int]:
        return driving.processes_with(str(self._driver.folder))

    # -- the end ------------------------------------------------------------------------------------------------

    def _compare_phases(self) -> None:
        """Who was seen in which phase is what ``ENTERED_BY`` says."""
        entries = self._earlier + self._driver.phases()
        seen = {(ProcessPhase(p["phase"]), str(p["process"]).partition("-")[0]) for p in entries}
        assert seen == {(phase, kind) for phase, kinds in ENTERED_BY.items() for kind in kinds}

    def _tell(self) -> None:
        print(f"---- driver {self._attempt}:\n{self._driver.log()[-6000:]}")
        print("---- its last phases:", *self._driver.phases()[-12:], sep="\n")
