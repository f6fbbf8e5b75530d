"""The life of a StateSnapshot goes by its table, whatever is seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, get_args

from hypothesis import given
from hypothesis import strategies as st
from support.scene.decisions import NOW, job, pod, revision, running_status

from sparkstate_operator import actions, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming, snapshot_life, transitions
from sparkstate_operator.core.transitions import Step
from sparkstate_operator.decide import snapshot
from sparkstate_operator.model.snapshot import SnapshotPhase

T = TypeVar("T")
Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of several."""
LIVES = 300
URI = "s3://bucket/state/savepoints/savepoint-1"
SAVED: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"status": "PENDING"},
    {"status": "IN_PROGRESS"},
    {"status": "COMPLETED", "location": URI, "epoch": 7},
    {"status": "FAILED", "failure": "disk full"},
)
RESULTS: tuple[dict[str, Any], ...] = (
    {"ok": True},
    {"ok": False, "reason": "StorageUnavailable", "message": "away"},
    {"ok": False, "reason": "CorruptData", "message": "damaged"},
)


@dataclass
class Life:
    """One snapshot: of a job that may run, or of a savepoint that is there."""

    pick: Pick
    status: dict[str, Any] = field(default_factory=dict)
    generation: int = 1
    deleted: bool = False
    now: datetime = NOW

    def steps(self, looks: int) -> Iterator[Step]:
        """What its phase goes through in so many looks."""
        spec = self.pick(({"jobRef": {"name": "orders"}}, {"uri": URI}))
        if self.pick(range(8)) == 0:
            spec = {**spec, "template": {"spec": {"containers": "none"}}}
        for _ in range(looks):
            self.generation += self.pick((0, 0, 1))
            self.deleted = self.deleted or self.pick(range(12)) == 0
            decision = snapshot.decide(self.around(spec), self.pick((revision(), revision(), None)), Config())
            yield from decision.steps
            self.status = dict(decision.status)
            self.now += timedelta(seconds=self.pick((0, 1, 30, 900)))

    def around(self, spec: dict[str, Any]) -> observed.AroundSnapshot:
        one = observed.Snapshot(
            name="savepoint",
            uid="s-1",
            resource_version="1",
            generation=self.generation,
            created=NOW,
            spec=spec,
            status=self.status,
            labels={},
            annotations={},
            finalizers=(labels.FINALIZER,),
            deleting_at=self.now if self.deleted else None,
        )
        result = self.pick(RESULTS)
        task = observed.Task(
            naming.command_job("savepoint", "s-1", snapshot.VERIFY),
            "t",
            "1",
            snapshot.VERIFY,
            result["ok"],
            not result["ok"] and self.pick((True, False)),
            result,
            self.now,
        )
        report = self.pick((None, "RUNNING", "RUNNING", "RESTORING"))
        running = job(self.pick((running_status(), running_status(intent={"action": "upgrade"}))))
        return observed.AroundSnapshot(
            one,
            self.now,
            self.pick((running, running, running, None)),
            pod(),
            observed.Report({"phase": report}, self.pick(SAVED)) if report else None,
            tasks=self.pick(((), (task,))),
        )


@given(data=st.data())
def test_no_life_takes_a_step_that_the_table_does_not_have(data: st.DataObject) -> None:
    def pick(of: Sequence[T]) -> T:
        return data.draw(st.sampled_from(of))

    phase = ""
    for step in Life(pick).steps(10):
        assert step.known and step.before == phase, (
            f"{step.before or 'new'} -> {step.after}: {step.cause.when}"
        )
        phase = step.after


def test_the_table_has_nothing_that_does_not_happen() -> None:
    found: set[Step] = set()
    for seed in range(LIVES):
        found.update(Life(random.Random(seed).choice).steps(10))
    missing = set(transitions.every(snapshot_life.TABLE)) - found
    assert [f"{step.before} -> {step.after}: {step.cause.when}" for step in missing] == []


def test_the_table_has_every_phase() -> None:
    assert {step.after for step in transitions.every(snapshot_life.TABLE)} == set(get_args(SnapshotPhase))


def test_a_decision_tells_what_the_phase_went_through() -> None:
    seen = Life(random.Random(0).choice).around({"jobRef": {"name": "gone"}})
    decision: actions.Decision = snapshot.decide(seen, None, Config())
    assert [(step.before, step.after) for step in decision.steps][:1] == [("", "Pending")]
