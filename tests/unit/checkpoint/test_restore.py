from __future__ import annotations

import pytest
from support.storage.checkpoints import JOB, inline_shard, metadata, take
from support.storage.stores import HookedStore, ManualClock

from sparkstate import errors
from sparkstate.checkpoint import CompletedCheckpointStore, carry_out, decide_restore, restore
from sparkstate.log import LineageLog, LogState, open_lineage, records
from sparkstate.log.state import fold
from sparkstate.storage import open_store

URL = "s3://bucket/lineage"
SAVED = "s3://bucket/savepoints/savepoint-1"


def after(*steps) -> LogState:
    state = LogState()
    for number, record in enumerate(steps, start=1):
        state = fold(state, records.Entry(number=number, writer="w", timestamp_ms=0, record=record))
    return state


CLAIM = records.Claim(attempt=1, life=1, driver="me")
FIRST = records.Incarnation(number=1)
CHECKPOINT = records.CheckpointCommitted(
    checkpoint_id=4, path="chk-4/_metadata", checksum="c", epoch=40, incarnation=1
)
SAVEPOINT = records.SavepointCommitted(
    trigger_id="t", url=SAVED, checksum="c", checkpoint_id=5, epoch=50, incarnation=1
)
NEW_LIFE = records.Incarnation(number=2, restored_from=SAVED)
GONE = records.Tombstone(savepoints=(SAVED,))
OTHER = "s3://b/sp"
FROM_OTHER = records.Incarnation(number=1, restored_from=OTHER)
CHK_URL = URL + "/chk-4"
CLOSED = records.Closed(savepoint_url=SAVED, trigger_id="t", attempt=1)


@pytest.mark.parametrize(
    ("state", "restore_from", "start_empty", "kind", "url", "words"),
    [
        pytest.param(after(), None, False, "empty", "", "completed nothing", id="a new lineage begins empty"),
        pytest.param(
            after(CLAIM, FIRST),
            None,
            False,
            "empty",
            "",
            "completed nothing",
            id="a life without a checkpoint",
        ),
        pytest.param(
            after(CLAIM, FIRST, CHECKPOINT),
            None,
            False,
            "checkpoint",
            CHK_URL,
            "epoch 40",
            id="the latest checkpoint",
        ),
        pytest.param(
            after(CLAIM, FIRST, CHECKPOINT), "latest", False, "checkpoint", CHK_URL, "", id="latest"
        ),
        pytest.param(
            after(CLAIM, FIRST, CHECKPOINT),
            OTHER,
            False,
            "checkpoint",
            CHK_URL,
            "s3://b/sp) is not needed",
            id="a completed checkpoint comes before restoreFrom",
        ),
        pytest.param(
            after(CLAIM, FIRST),
            "s3a://b/sp/",
            False,
            "savepoint",
            OTHER,
            "completed nothing yet",
            id="a named savepoint",
        ),
        pytest.param(
            after(CLAIM, FROM_OTHER),
            None,
            False,
            "savepoint",
            OTHER,
            "again",
            id="what the incarnation before was restored from",
        ),
        pytest.param(
            after(CLAIM, FIRST, CHECKPOINT, SAVEPOINT, CLOSED),
            None,
            False,
            "savepoint",
            SAVED,
            "closed the lineage",
            id="stop with savepoint",
        ),
        pytest.param(
            after(CLAIM, FIRST, CHECKPOINT, SAVEPOINT, CLOSED, NEW_LIFE),
            None,
            False,
            "savepoint",
            SAVED,
            "newer",
            id="a crash right after a restore from it",
        ),
        pytest.param(
            after(CLAIM, FIRST, SAVEPOINT, CHECKPOINT),
            None,
            False,
            "checkpoint",
            CHK_URL,
            "",
            id="a checkpoint newer than a savepoint",
        ),
        pytest.param(
            after(CLAIM, FIRST, CHECKPOINT, SAVEPOINT, GONE),
            None,
            False,
            "blocked",
            SAVED,
            "has been deleted",
            id="the newest was a savepoint and is deleted",
        ),
        pytest.param(
            after(CLAIM, FIRST), "latest", False, "blocked", "", "names no completed", id="latest of nothing"
        ),
        pytest.param(
            after(), OTHER, True, "blocked", "", "leave one of the two out", id="startEmpty and restoreFrom"
        ),
        pytest.param(after(), None, True, "empty", "", "", id="startEmpty in its new lineage"),
    ],
)
def test_the_decision(state, restore_from, start_empty, kind, url, words):
    plan = decide_restore(state, URL, restore_from, start_empty)
    assert (plan.kind, plan.url) == (kind, url)
    assert words in plan.message


COMPLETED_FROM_OTHER = after(CLAIM, FROM_OTHER, CHECKPOINT)
PRECEDENCE = [
    (restore._contradictory, restore._completed, COMPLETED_FROM_OTHER, OTHER, True),
    (restore._contradictory, restore._named, after(), OTHER, True),
    (restore._completed, restore._named, COMPLETED_FROM_OTHER, OTHER, False),
    (restore._completed, restore._again, COMPLETED_FROM_OTHER, None, False),
    (restore._completed, restore._nothing_latest, COMPLETED_FROM_OTHER, "latest", False),
    (restore._named, restore._again, after(CLAIM, FROM_OTHER), SAVED, False),
    (restore._again, restore._nothing_latest, after(CLAIM, FROM_OTHER), "latest", False),
]


@pytest.mark.parametrize(
    ("rule", "later", "state", "restore_from", "start_empty"),
    PRECEDENCE,
    ids=[f"{rule.__name__} before {later.__name__}" for rule, later, *_ in PRECEDENCE],
)
def test_where_two_rules_apply_the_first_decides(rule, later, state, restore_from, start_empty):
    request = restore._RestoreRequest(state, URL, restore_from, start_empty)
    assert later(request) is not None
    assert decide_restore(state, URL, restore_from, start_empty) == rule(request) != later(request)


def test_every_rule_has_its_place_in_a_case_and_says_why():
    assert {rule for pair in PRECEDENCE for rule in pair[:2]} == set(restore.RULES)
    assert all(rule.__doc__ for rule in restore.RULES)


@pytest.fixture
def lineage(root):
    return open_lineage(HookedStore(root), JOB, ManualClock())


def no_other_storage(url):
    raise AssertionError(url)


def committed(lineage, tmp_path):
    log = LineageLog(lineage.store, ManualClock()).claim(1, "me")
    log.begin_incarnation("")
    taken = take(lineage.store, tmp_path, {0: {"canonical": b"s" * 50}}, checkpoint_id=1, lineage=lineage.id)
    CompletedCheckpointStore(lineage.store, log).commit(taken)
    return log, taken


def test_the_plan_is_carried_out_with_the_committed_metadata(lineage, tmp_path):
    log, taken = committed(lineage, tmp_path)
    restored = carry_out(decide_restore(log.state, lineage.store.url, None, False), lineage, no_other_storage)
    assert restored.metadata == taken
    assert restored.same_lineage
    assert restored.store.url == lineage.store.url


def test_empty_needs_nothing(lineage):
    restored = carry_out(
        decide_restore(LogState(), lineage.store.url, None, False), lineage, no_other_storage
    )
    assert restored.metadata is None


@pytest.mark.parametrize("damage", ["missing", "changed", "exchanged"])
def test_a_latest_checkpoint_that_cannot_be_read_blocks_and_nothing_else_is_tried(lineage, tmp_path, damage):
    from sparkstate.checkpoint import metadata as codec

    log, _ = committed(lineage, tmp_path)
    store = lineage.store
    data = store.get("chk-1/_metadata")
    store.delete(["chk-1/_metadata"])
    if damage == "changed":
        store.put_if_absent("chk-1/_metadata", data[:-1] + b"!")
    if damage == "exchanged":
        store.put_if_absent("chk-1/_metadata", codec.encode(metadata([inline_shard(0)])))
    plan = decide_restore(log.state, store.url, None, False)
    with pytest.raises(errors.RestoreBlocked, match=r"checkpoint 1 .*chk-1/_metadata.*startEmpty: true"):
        carry_out(plan, lineage, no_other_storage)


def test_an_outage_while_restoring_is_an_outage_and_no_reason_to_give_up(root, tmp_path):
    store = HookedStore(root)
    lineage = open_lineage(store, JOB, ManualClock())
    log, _ = committed(lineage, tmp_path)
    plan = decide_restore(log.state, lineage.store.url, None, False)
    store.unplug()
    with pytest.raises(errors.StorageUnavailable):
        carry_out(plan, lineage, no_other_storage)


def test_a_named_folder_that_is_missing_blocks(lineage, tmp_path):
    plan = decide_restore(LogState(), lineage.store.url, f"{tmp_path}/no/savepoint", False)
    with pytest.raises(errors.RestoreBlocked, match="no/savepoint"):
        carry_out(plan, lineage, lambda url: open_store(url, create=False))
    assert not (tmp_path / "no").exists()


def test_the_committables_of_another_lineage_are_not_ours(lineage, tmp_path):
    other = open_store(f"{tmp_path}/other")
    from sparkstate.checkpoint import metadata as codec

    saved = metadata([inline_shard(0)], kind="savepoint", lineage="ffff")
    other.put_if_absent("sp/_metadata", codec.encode(saved))
    plan = decide_restore(LogState(), lineage.store.url, f"{tmp_path}/other/sp", False)
    restored = carry_out(plan, lineage, lambda url: open_store(url, create=False))
    assert restored.metadata == saved
    assert not restored.same_lineage
    assert restored.store.url.endswith("/other/sp")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(after(CLAIM, FIRST), after(CLAIM, FIRST, CHECKPOINT), id="a first checkpoint"),
        pytest.param(
            after(CLAIM, FIRST, CHECKPOINT), after(CLAIM, FIRST, CHECKPOINT, SAVEPOINT), id="a savepoint"
        ),
        pytest.param(
            after(CLAIM, FIRST, SAVEPOINT), after(CLAIM, FIRST, SAVEPOINT, GONE), id="it was deleted"
        ),
    ],
)
def test_a_plan_holds_only_while_the_log_names_the_same_snapshot(before, now):
    plan = decide_restore(before, URL, None, False)
    restore.require_newest(plan, before)
    with pytest.raises(errors.StorageUnavailable, match="begins anew"):
        restore.require_newest(plan, now)
