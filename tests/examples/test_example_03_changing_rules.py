"""Rules that change while they are applied: the alerts of the planted truth, through a kill of the driver."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.examples import example, kills

from sparkstate_tools.demo import job_process, oracle

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLE = example.EXAMPLES / "03-changing-rules"
payments = example.load(EXAMPLE / "payments.py")


def test_the_limits_of_other_hours_would_give_other_alerts() -> None:
    rules = payments.make_rules()
    made = payments.make_payments(rules)
    wanted = payments.expected(made, rules)
    assert len(wanted) == 12
    assert {card for card, *_ in wanted} == {f"planted-{number}" for number in range(12)}
    for hours in (-3, 3):
        moved = [payments.Rule(rule.method, rule.most, rule.since + hours * payments.HOUR) for rule in rules]
        assert payments.expected(made, moved) != wanted


@pytest.mark.timeout(600)
def test_alerts_are_exact_through_a_kill(tmp_path: Path) -> None:
    rules = payments.make_rules()
    made = payments.make_payments(rules)
    payments.write(made, rules, tmp_path)
    changes = {
        "params": {kind: str(tmp_path / kind) for kind in ("payments", "rules", "output")},
        "checkpointing": {"storage": (tmp_path / "state").as_uri(), "interval": "2s"},
    }
    manifest = job_process.write_manifest(
        EXAMPLE / "job.yaml", tmp_path / "run.yaml", "changing-rules", changes
    )
    job = job_process.JobProcess(manifest, tmp_path / "work", {})
    job.start()
    try:
        killed = job.wait_until("a checkpoint in the middle", lambda: kills.in_the_middle(job), 240)
        os.kill(killed["pid"], signal.SIGKILL)
        back = job.wait_until("the restored driver", lambda: kills.restored(job, killed["pid"]), 180)
        assert back["restored_from"] is not None
        last_rule_ms = round(rules[-1].since.timestamp() * 1000)
        last_payment_ms = round(max(payment.at for payment in made).timestamp() * 1000)
        end_ms = min(last_rule_ms, last_payment_ms - 10 * 60_000) - 1
        job.wait_until(
            "the end of both inputs", lambda: (job.status() or {}).get("watermark_ms") == end_ms, 240
        )
        job.request("POST", "/v1/savepoints", json={"trigger_id": "end", "stop": True, "drain": True})
        assert job.wait(120) == 0, job.last_words()
    finally:
        job.stop()
    rows = [
        row for path in oracle.committed_files(tmp_path / "output") for row in pq.read_table(path).to_pylist()
    ]
    found = sorted((row["card"], row["payment"], row["at"], row["amount"]) for row in rows)
    assert found == payments.expected(made, rules)
