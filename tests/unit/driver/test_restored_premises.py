"""A restore refuses state of a function of another kind for one of ours, whose state has premises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.storage.checkpoints import inline_shard, metadata

from sparkstate import errors, settings
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.driver import preparing, restoring
from sparkstate.functions import KeyedProcessFunction
from sparkstate.handles import StateMeta
from sparkstate.spark import graph


class Sessions(KeyedProcessFunction):
    """A function with premises, as windows have them."""

    @property
    def state_premises(self) -> Mapping[str, str]:
        return {"gap": "10 ms", "contents": "rows"}


def declared(function: KeyedProcessFunction, uid: str = "clicks") -> graph.Graph:
    found = graph.Graph()
    found.add(
        graph.Operator(
            uid=uid, function=function, keys=(), upstream=None, event_time=None, output_schema="user string"
        )
    )
    return found


def timers(key_type: str = "LONG") -> StateMeta:
    return StateMeta(
        uid="clicks", name="t", kind="event-timers", key_type=key_type, namespace_type="", value_type=""
    )


def restored(before: graph.Graph, **changes: Any) -> RestoredSnapshot:
    job = settings.JobSettings(name="j", entry=settings.EntryPoint())
    stored = preparing.stored_job(job, before).premises
    fields = {"premises": {uid: dict(each) for uid, each in stored.items()}, "states": (timers(),)} | changes
    return RestoredSnapshot(
        RestorePlan("checkpoint", "", "s3://b/chk-1"), metadata((inline_shard(0),), **fields)
    )


OWN, OURS = declared(KeyedProcessFunction()), declared(Sessions())


def test_state_of_another_kind_of_function_is_refused_in_both_directions() -> None:
    with pytest.raises(errors.StateMigrationError) as refused:
        restoring.require_premises(restored(OWN), OURS)
    told = "'clicks' whose function was one of another kind and is now one with gap: 10 ms, contents: rows"
    assert told in str(refused.value)
    assert "give the operator another uid and set allowNonRestoredState" in str(refused.value)
    with pytest.raises(errors.StateMigrationError, match="whose gap was 10 ms and is now none"):
        restoring.require_premises(restored(OURS), OWN)


@pytest.mark.parametrize(
    "snapshot",
    [
        restored(OURS),
        restored(OWN, premises={}),
        restored(OWN, states=()),
        restored(OWN, states=(timers(key_type=""),)),
        restored(declared(KeyedProcessFunction(), uid="gone")),
        RestoredSnapshot(RestorePlan("empty", "")),
    ],
    ids=["the same", "an older version's", "nothing stored", "operator state alone", "another uid", "empty"],
)
def test_what_has_no_state_of_another_kind_is_restored(snapshot: RestoredSnapshot) -> None:
    restoring.require_premises(snapshot, OURS)
