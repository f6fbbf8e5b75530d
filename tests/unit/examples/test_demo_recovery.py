import json
import os
import threading
import time

from sparkstate import clock, phases
from sparkstate_tools.demo import phaselog, recovery

NOTHING = recovery.Evidence(1, 3, 10, 1, 2)


def entry(t_ms, phase, epoch=-1, incarnation=1, process="driver", pid=7):
    return phaselog.Entry(process, pid, phase, epoch, -1, incarnation, t_ms)


def kill(t_ms=1000, epoch=5, incarnation=1):
    return recovery.Kill("slot-1", 9, "finish", t_ms, incarnation, epoch, NOTHING)


def test_a_recovery_is_measured_from_the_kill_in_three_steps():
    log = [
        entry(900, "commit", 5),
        entry(1400, "restore", incarnation=2),
        entry(2500, "commit", 4, incarnation=2),
        entry(2800, "commit", 5, incarnation=2),
        entry(3100, "commit", 6, incarnation=2),
    ]

    back = recovery.measure(kill(), log)

    assert (back.noticed_ms, back.running_ms, back.caught_up_ms) == (400, 1500, 2100)
    assert (back.first_epoch, back.incarnation) == (4, 2)
    assert back.replayed(kill()) == 2


def test_what_the_dying_incarnation_still_did_is_no_recovery():
    log = [entry(900, "commit", 5), entry(1100, "commit", 6), entry(1200, "feed", 7, process="slot-0")]

    assert recovery.measure(kill(), log) == recovery.Return()
    assert recovery.measure(kill(), log).replayed(kill()) is None


def test_evidence_names_all_that_is_missing():
    assert recovery.gather(None).missing == (
        "a completed checkpoint",
        "state",
        "an armed timer",
        "an epoch to replay",
    )


def status(**changes):
    document = {
        "epoch": 12,
        "last_checkpoint": {"id": 3, "epoch": 9},
        "last_savepoint": None,
        "state_bytes": 5000,
        "next_event_timer_ms": 77,
    }
    return {**document, **changes}


def test_evidence_is_read_from_the_status():
    evidence = recovery.gather(status())

    assert evidence == recovery.Evidence(3, 9, 5000, 77, 3)
    assert evidence.missing == ()


def test_epochs_count_from_the_savepoint_if_that_is_newer():
    assert recovery.gather(status(last_savepoint={"epoch": 12})).missing == ("an epoch to replay",)


def test_the_log_is_read_in_pieces_and_half_a_line_waits(tmp_path):
    path = tmp_path / "phases.jsonl"
    line = {"process": "driver", "pid": 1, "phase": "feed", "nth": 1, "epoch": 0, "checkpoint": -1}
    text = json.dumps({**line, "incarnation": 1, "t_ms": 5}) + "\n"
    log = phaselog.PhaseLog(path)
    assert log.entries() == []

    path.write_text(text + text[:20])
    assert len(log.entries()) == 1
    path.write_text(text + text)

    assert len(log.entries()) == 2
    assert log.last_of(1, "feed") == phaselog.Entry("driver", 1, "feed", 0, -1, 1, 5)
    assert log.last_of(1, "commit") is None


def test_a_process_of_the_engine_is_held_in_the_phase_and_goes_on_when_released(tmp_path):
    log = phaselog.PhaseLog(tmp_path / "phases.jsonl")
    holds = phaselog.Holds(tmp_path / "holds")
    environment = {"SPARKSTATE_PHASE_LOG": str(log.path), "SPARKSTATE_HOLD_DIR": str(holds.folder)}
    process = phases.Phases("slot-1", clock.SystemClock(), environment)
    process.enter(phases.ProcessPhase.FEED, epoch=1, incarnation=1)
    through = threading.Event()

    def run():
        while not (holds.folder / "slot-1:finish").exists():
            time.sleep(0.005)
        process.enter(phases.ProcessPhase.FINISH, epoch=1, incarnation=1)
        through.set()

    threading.Thread(target=run, daemon=True).start()
    pid = holds.hold("slot-1", "finish")

    assert pid == os.getpid()
    assert holds.is_held("slot-1", "finish", pid)
    assert not through.is_set()
    assert log.last_of(pid, "finish").epoch == 1
    holds.release()
    assert through.wait(5)
