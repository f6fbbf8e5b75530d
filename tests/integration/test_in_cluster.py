"""A driver as the operator starts it: executors elsewhere, the pod's identity, SIGTERM with a last checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.spark import executors, stranger

from sparkstate.spark import kubernetes
from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark


def with_checkpoints_on_request(folder: Path) -> dict[str, Any]:
    """The job, whose checkpoints are those that somebody asks for."""
    return driving.manifest(
        folder, "totals.py", checkpointing={"interval": "1h", "storage": str(folder / "checkpoints")}
    )


def has_checkpoint(running: driving.Driver) -> None:
    driving.wait_for(
        lambda: any(p["phase"] == "checkpoint-complete" for p in running.phases()),
        120,
        "a checkpoint",
        running.process,
    )


@pytest.mark.fault_on("rocksdb, two executors")
@pytest.mark.fault(
    broken="one of the executors is killed (SIGKILL)",
    when="after a checkpoint",
    expected="its slots start elsewhere in a new incarnation, from the last checkpoint; output exact",
)
@pytest.mark.slow
def test_slots_in_several_executors_give_the_exact_output_also_when_an_executor_dies(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=10)
    document = driving.manifest(tmp_path, "totals.py", stateBackend={"type": "rocksdb"})
    with executors.driver_of_many(tmp_path, document, 2) as running:
        has_checkpoint(running)
        hosts = {slot.host for slot in running.client().status().slots}
        assert len(hosts) == 2, "one slot per executor, each on its own host"
        assert all(host.startswith("executor-") for host in hosts)
        os.kill(executors.jvms(tmp_path)[0], signal.SIGKILL)
        running.finish(240)
    totals.check(tmp_path / "out", rows)
    assert max(p["incarnation"] for p in running.phases()) == 2
    driving.wait_until_nothing_is_left(tmp_path)


@pytest.mark.slow
def test_who_does_not_hold_sparks_secret_gets_no_message_through_and_the_job_runs_on(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=6)
    (tmp_path / "lookup.csv").write_text("a,1")
    conf = {"spark.files": str(tmp_path / "lookup.csv")}
    with executors.driver_of_many(tmp_path, driving.manifest(tmp_path, "totals.py"), 2, **conf) as running:
        driving.wait_for(
            lambda: any(p["phase"] == "commit" for p in running.phases()),
            driving.PATIENCE_S,
            "an epoch",
            running.process,
        )
        running.hold("driver", "epoch-begin")
        running.held("driver", "epoch-begin")
        for port in (kubernetes.DRIVER_PORT, kubernetes.BLOCK_MANAGER_PORT):
            taken, said = stranger.call(port, b"RetrieveSparkAppConfig")
            assert not taken
            assert "Expected SaslMessage, received something else" in said
            assert not stranger.chunk(port, 1)[0]
        refused = stranger.executor(kubernetes.DRIVER_PORT, "another secret")
        assert refused.returncode != 0
        assert "SaslException" in refused.stdout + refused.stderr
        # Spark 4.3.0 asks for no secret here, as docs/security.md says. When it does, correct that page.
        assert stranger.file(kubernetes.DRIVER_PORT, "/files/lookup.csv") == (True, b"a,1")
        assert not stranger.file(kubernetes.DRIVER_PORT, "/files/../lookup.csv")[0]
        running.release()
        running.finish(240)
    totals.check(tmp_path / "out", rows)
    assert max(p["incarnation"] for p in running.phases()) == 1


def test_sigterm_ends_the_epoch_takes_a_last_checkpoint_and_exits_with_success(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=8)
    document = with_checkpoints_on_request(tmp_path)
    with executors.driver(tmp_path, document) as first:
        driving.wait_for(
            lambda: sum(p["phase"] == "commit" for p in first.phases()) >= 2, 120, "two epochs", first.process
        )
        assert not any(p["phase"] == "checkpoint-complete" for p in first.phases())
        first.process.send_signal(signal.SIGTERM)
        assert first.wait() == 0
        assert first.end()["reason"] == "Terminated"
    committed = max(p["epoch"] for p in first.phases() if p["phase"] == "commit")
    saved = [p["epoch"] for p in first.phases() if p["phase"] == "checkpoint-complete"]
    assert saved == [committed], "the last committed epoch is in the checkpoint"
    driving.wait_until_nothing_is_left(tmp_path)
    with executors.driver(tmp_path, document, attempt=2) as second:
        second.finish()
    assert min(p["epoch"] for p in second.phases() if p["phase"] == "feed") == committed + 1
    totals.check(tmp_path / "out", rows)


def has_a_slow_checkpoint(running: driving.Driver) -> int:
    """The job takes a checkpoint for which it needs six seconds, and goes on; returns its epoch."""
    running.hold("slot-0", "checkpoint-upload")
    return has_a_checkpoint_and_goes_on(running, lambda: held_for_long(running))


def held_for_long(running: driving.Driver) -> None:
    running.held("slot-0", "checkpoint-upload")
    running.hold("driver", "epoch-begin")
    running.held("driver", "epoch-begin")
    time.sleep(6)
    running.release()


def has_a_checkpoint_and_goes_on(
    running: driving.Driver, meanwhile: Callable[[], None] = lambda: None
) -> int:
    """The job takes a checkpoint that it is asked for, and at least one more epoch; returns the checkpoint's."""
    driving.wait_for(
        lambda: any(p["phase"] == "commit" for p in running.phases()), 120, "an epoch", running.process
    )
    running.client().trigger_checkpoint()
    meanwhile()
    has_checkpoint(running)
    saved = max(p["epoch"] for p in running.phases() if p["phase"] == "checkpoint-complete")
    driving.wait_for(
        lambda: max(p["epoch"] for p in running.phases() if p["phase"] == "output") > saved,
        120,
        "another epoch",
        running.process,
    )
    return int(saved)


def test_sigterm_where_a_checkpoint_takes_long_leaves_the_last_epochs_to_the_next_attempt(
    tmp_path: Path,
) -> None:
    rows = totals.make_input(tmp_path / "in", files=16)
    document = with_checkpoints_on_request(tmp_path)
    with executors.driver(tmp_path, document) as first:
        saved = has_a_slow_checkpoint(first)
        first.process.send_signal(signal.SIGTERM)
        assert first.wait() == 0
        assert first.end()["reason"] == "Terminated"
        assert "the next attempt repeats what took" in first.end()["message"]
    assert max(p["epoch"] for p in first.phases() if p["phase"] == "checkpoint-complete") == saved
    driving.wait_until_nothing_is_left(tmp_path)
    with executors.driver(tmp_path, document, attempt=2) as second:
        second.finish()
    assert min(p["epoch"] for p in second.phases() if p["phase"] == "feed") == saved + 1
    totals.check(tmp_path / "out", rows)


@pytest.mark.extra
def test_sigterm_waits_until_the_output_of_a_committed_checkpoint_is_published(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=16)
    document = with_checkpoints_on_request(tmp_path)
    with executors.driver(tmp_path, document, SPARKSTATE_GRACE_PERIOD_S="600") as first:
        saved = has_a_slow_checkpoint(first)
        first.hold("driver", "checkpoint-publish")
        first.client().trigger_checkpoint()
        first.held("driver", "checkpoint-publish")
        first.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            first.wait(3)
        first.release()
        assert first.wait() == 0
        assert first.end()["reason"] == "Terminated"
    assert max(p["epoch"] for p in first.phases() if p["phase"] == "checkpoint-complete") > saved
    driving.wait_until_nothing_is_left(tmp_path)
    with executors.driver(tmp_path, document, attempt=2) as second:
        second.finish()
    totals.check(tmp_path / "out", rows)


def beside_the_end_of(first: driving.Driver, folder: Path, document: Mapping[str, Any]) -> driving.Driver:
    """The next attempt's driver, while ``first``, asked to end, is held in its last checkpoint."""
    first.hold("slot-0", "checkpoint-upload")
    first.process.send_signal(signal.SIGTERM)
    first.held("slot-0", "checkpoint-upload")
    return executors.driver(folder, document, attempt=2, SPARKSTATE_PREDECESSOR_S="600")


def test_the_next_pod_prepares_itself_beside_the_end_of_this_one_and_claims_when_it_is_released(
    tmp_path: Path,
) -> None:
    rows = totals.make_input(tmp_path / "in", files=8)
    document = with_checkpoints_on_request(tmp_path)
    with executors.driver(tmp_path, document, SPARKSTATE_GRACE_PERIOD_S="600") as first:
        driving.wait_for(
            lambda: sum(p["phase"] == "commit" for p in first.phases()) >= 2, 120, "two epochs", first.process
        )
        with beside_the_end_of(first, tmp_path / "second", document) as second:
            waits = "attempt 1 (default/job-driver-1) is about to end"
            driving.wait_for(
                lambda: waits in second.log() and "Spark is ready" in second.log(),
                120,
                "the second driver is prepared",
                second.process,
            )
            assert second.client().status().waits_for_attempt == 1
            assert second.phases() == []
            first.release()
            assert first.wait() == 0
            assert first.end()["reason"] == "Terminated"
            second.finish()
    committed = max(p["epoch"] for p in first.phases() if p["phase"] == "commit")
    assert min(p["epoch"] for p in second.phases() if p["phase"] == "feed") == committed + 1
    totals.check(tmp_path / "out", rows)


@pytest.mark.extra
def test_the_next_pod_is_told_that_this_one_died_in_its_end(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=16)
    document = with_checkpoints_on_request(tmp_path)
    with executors.driver(tmp_path, document, SPARKSTATE_GRACE_PERIOD_S="600") as first:
        has_a_checkpoint_and_goes_on(first)
        with beside_the_end_of(first, tmp_path / "second", document) as second:
            driving.wait_for(
                lambda: second.client().status().waits_for_attempt == 1,
                120,
                "the second driver waits",
                second.process,
            )
            first.process.kill()
            first.release()
            headers = {"Authorization": f"Bearer {driving.TOKEN}"}
            assert httpx.post(f"{second.address}/v1/claim", headers=headers).status_code == 202
            second.finish()
    totals.check(tmp_path / "out", rows)


def test_the_next_pod_finds_the_state_on_a_volume_that_outlives_pods(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=8)
    disk = tmp_path / "disk"
    document = driving.manifest(
        tmp_path,
        "totals.py",
        stateBackend={"type": "rocksdb"},
        localStorage={"paths": [str(disk)]},
        checkpointing={"interval": "1h", "storage": str(tmp_path / "checkpoints"), "inlineThreshold": "0"},
    )

    def pod(attempt: int) -> driving.Driver:
        return executors.driver(tmp_path, document, attempt, disk / "sparkstate-job" / str(attempt))

    with pod(1) as first:
        driving.wait_for(
            lambda: sum(p["phase"] == "commit" for p in first.phases()) >= 2, 120, "two epochs", first.process
        )
        first.process.send_signal(signal.SIGTERM)
        assert first.wait() == 0
    driving.wait_until_nothing_is_left(tmp_path)
    for stored in (tmp_path / "checkpoints").rglob("*.sst"):
        stored.unlink()
    with pod(2) as second:
        second.finish()
    totals.check(tmp_path / "out", rows)
    assert [path.name for path in (disk / "sparkstate-job").iterdir()] == ["2"]


def test_sigterm_while_a_checkpoint_cannot_complete_ends_before_the_grace_period(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", files=8)
    document = driving.manifest(tmp_path, "totals.py")
    with executors.driver(tmp_path, document, SPARKSTATE_GRACE_PERIOD_S="8") as running:
        has_checkpoint(running)
        running.hold("slot-0", "checkpoint-upload")
        running.held("slot-0", "checkpoint-upload")
        running.process.send_signal(signal.SIGTERM)
        assert running.wait(8) == 0
        end = running.end()
        running.release()
    assert end["reason"] == "Terminated"
    assert "did not complete within 4 s" in end["message"]
    driving.wait_until_nothing_is_left(tmp_path)


def test_sigterm_before_the_job_runs_ends_at_once(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", files=2)
    with executors.driver(tmp_path, driving.manifest(tmp_path, "totals.py")) as running:
        running.hold("driver", "restore")
        running.held("driver", "restore")
        running.process.send_signal(signal.SIGTERM)
        assert running.wait(5) == 0
        assert running.end()["reason"] == "Terminated"
        assert "nothing to save" in running.end()["message"]
        running.release()
    driving.wait_until_nothing_is_left(tmp_path)


@pytest.mark.extra
def test_answers_carry_the_job_s_uid_and_attempt_and_a_higher_attempt_beats_every_life_of_a_lower_one(
    tmp_path: Path,
) -> None:
    rows = totals.make_input(tmp_path / "in", files=8)
    document = driving.manifest(tmp_path, "totals.py")
    with executors.driver(tmp_path, document) as first:
        has_checkpoint(first)
        status = first.client().status()
        assert (status.job_uid, status.attempt) == (executors.UID, 1)
        first.kill_in("driver", "commit")
    driving.wait_until_nothing_is_left(tmp_path)
    with executors.driver(tmp_path, document) as second_life:
        second_life.hold("driver", "commit")
        second_life.held("driver", "commit")
        with executors.driver(tmp_path / "newer", {**document}, attempt=2) as newer:
            newer.finish()
        second_life.release()
        assert second_life.wait() == 0
        assert second_life.end()["reason"] == "Fenced"
    with executors.driver(tmp_path, document) as too_old:
        assert too_old.wait() == 0
        assert too_old.end()["reason"] == "Fenced"
        assert "attempt 2 (default/job-driver-2)" in too_old.end()["message"]
    totals.check(tmp_path / "out", rows)


def test_a_driver_without_the_pod_s_identity_says_which_variables_are_missing(tmp_path: Path) -> None:
    document = driving.manifest(tmp_path, "totals.py")
    with executors.driver(tmp_path, document, SPARKSTATE_POD_IP="", SPARKSTATE_JOB_UID="") as running:
        assert running.wait(60) == 2
        assert "SPARKSTATE_POD_IP, SPARKSTATE_JOB_UID" in running.end()["message"]
