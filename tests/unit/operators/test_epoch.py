"""The commit of an epoch: the overlays of all operators become state together, with few writes."""

from __future__ import annotations

import pytest
from support.operators import driven as ops

from sparkstate import errors
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, ValueStateDescriptor


class Sum(KeyedProcessFunction):
    """Running sum per user, and a timer: changes of three tables."""

    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.all = ctx.get_list_state(ListStateDescriptor("all", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value.amount)
        self.all.add(value.amount)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)


def two_operators(**second):
    commits: list[list[str]] = []
    stores = {shard: ops.CountingStore(store, commits) for shard, store in ops.make_stores().items()}
    made = ops.make_operator(Sum(), stores, uid="one"), ops.make_operator(Sum(), stores, uid="two", **second)
    return made, commits


def test_all_operators_of_an_epoch_are_committed_in_one_call_per_shard():
    made, commits = two_operators()
    overlays = []
    for operator in made:
        overlay = operator.begin(1, MIN_WATERMARK, 0)
        operator.process_batch(overlay, ops.make_batch(("a", 1, 1)))
        operator.finish(overlay, MIN_WATERMARK)
        overlays.append(overlay)
    commit_overlays(list(zip(made, overlays, strict=True)))
    assert len(commits) == 1
    assert set(commits[0]) == {"one", "two"}
    assert [operator.read_state("total", "a") for operator in made] == [1, 1]


def test_equal_keys_of_different_key_groups_are_committed_one_operator_after_the_other():
    made, commits = two_operators()
    overlays = []
    for operator, group in zip(made, (0, 1), strict=True):
        overlay = operator.begin(1, MIN_WATERMARK, 0)
        operator.process_batch(overlay, ops.make_batch(("a", 1, 1), key_groups=[group]))
        operator.finish(overlay, MIN_WATERMARK)
        overlays.append(overlay)
    commit_overlays(list(zip(made, overlays, strict=True)))
    assert [set(commit) for commit in commits] == [{"one"}, {"two"}]
    assert [o.read_state("total", "a", key_group=g) for o, g in zip(made, (0, 1), strict=True)] == [1, 1]


def test_an_unchanged_epoch_commits_nothing():
    (operator, _), commits = two_operators()

    class Silent(KeyedProcessFunction):
        def open(self, ctx):
            self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value, ctx):
            self.total.value()

    operator = ops.make_operator(Silent(), operator.stores, uid="silent")
    ops.run(operator, ("a", 1, 1))
    assert commits == []


@pytest.mark.parametrize("finished", [False, True])
def test_an_overlay_is_finished_once_and_committed_once(finished):
    operator = ops.make_operator(Sum())
    overlay = operator.begin(1, MIN_WATERMARK, 0)
    if finished:
        operator.finish(overlay, MIN_WATERMARK)
        with pytest.raises(errors.StateError, match="finished twice"):
            operator.finish(overlay, MIN_WATERMARK)
        commit_overlays([(operator, overlay)])
    with pytest.raises(errors.StateError, match="committed already" if finished else "not finished"):
        commit_overlays([(operator, overlay)])
