"""What a job's author sees when the code is wrong: a sentence, an exit code, and no lost record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark


def test_an_exception_names_operator_key_epoch_and_row_and_ends_the_job(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=1)
    poison = rows[3][0]
    document = driving.manifest(
        tmp_path, "totals.py", params={"poison": poison}, restart={"strategy": "none"}
    )
    with driving.Driver(tmp_path, document) as driver:
        assert driver.wait() == 1
    end = driver.end()
    assert end["reason"] == "UserCodeError"
    for part in (
        "operator 'totals'",
        f"key '{poison}'",
        "epoch 0",
        "ValueError: poisoned by",
        f"k='{poison}'",
    ):
        assert part in end["message"], end["message"]
    assert totals.read(tmp_path / "out" / "totals") == []
    for slot in range(2):
        log = (tmp_path / "work" / "slots" / f"slot-{slot}-1.log").read_text()
        assert f"totals opens in slot {slot}" in log, "what the user prints"


def test_a_rejected_row_goes_to_the_side_output_and_leaves_no_trace_in_state(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=2)
    poison = rows[3][0]
    document = driving.manifest(tmp_path, "totals.py", params={"poison": poison, "on_error": "yes"})
    with driving.Driver(tmp_path, document) as driver:
        driver.finish()
    good = [row for row in rows if row[0] != poison]
    totals.check(tmp_path / "out", good)
    rejected = totals.read(tmp_path / "out" / "errors")
    assert sorted(row["id"] for row in rejected) == sorted(row[1] for row in rows if row[0] == poison)
    assert all("ValueError: poisoned by" in row["error"] for row in rejected)
    assert poison not in {row["k"] for row in totals.read(tmp_path / "out" / "quiet")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sparkConf": {"spark.dynamicAllocation.enabled": "true"}}, "executors must not come and go"),
        ({"pythonFile": "missing.py"}, "there is no such file"),
        ({"function": "nothing"}, "has no function 'nothing'"),
    ],
    ids=["dynamic-allocation", "no-file", "no-function"],
)
def test_what_cannot_work_is_refused_with_exit_code_2(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    totals.make_input(tmp_path / "in", files=1)
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "totals.py", **change)) as driver:
        assert driver.wait() == 2
    assert message in driver.end()["message"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("twice", "state 'total' is declared twice"),
        pytest.param("unpicklable", "cannot be sent to the slots", marks=pytest.mark.extra),
    ],
)
def test_a_mistake_that_every_start_repeats_ends_the_job_at_once(
    tmp_path: Path, wrong: str, message: str
) -> None:
    totals.make_input(tmp_path / "in", files=1)
    document = driving.manifest(tmp_path, "wrong.py", params={"wrong": wrong})
    with driving.Driver(tmp_path, document) as driver:
        assert driver.wait() == 2
    assert driver.end()["reason"] == "DeclarationError" and message in driver.end()["message"]
    assert "restarting in" not in driver.log()


def test_state_of_an_operator_that_is_gone_blocks_the_restore(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", files=1)
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "totals.py")) as driver:
        driver.finish()
    renamed = tmp_path / "renamed.py"
    renamed.write_text((driving.JOBS / "totals.py").read_text().replace('uid="groups"', 'uid="other"'))
    document = driving.manifest(tmp_path, "totals.py", pythonFile=str(renamed))
    with driving.Driver(tmp_path, document, attempt=2) as driver:
        assert driver.wait() == 3
    assert "holds state of operator(s) groups" in driver.end()["message"]
    with driving.Driver(tmp_path, dropping(document), attempt=3) as driver:
        driver.finish()
    with driving.Driver(tmp_path, document, attempt=4) as driver:
        driver.finish()
    before = totals.read(tmp_path / "out" / "groups")
    rows = totals.make_input(tmp_path / "in", files=1, first=1, seed=8)
    with driving.Driver(tmp_path, dropping(driving.manifest(tmp_path, "totals.py")), attempt=5) as driver:
        driver.finish()
    found = Counter((row["v"], row["count"]) for row in totals.read(tmp_path / "out" / "groups"))
    found.subtract((row["v"], row["count"]) for row in before)
    counts = Counter(value for _, _, value, _ in rows)
    anew = Counter((value, number) for value in counts for number in range(1, counts[value] + 1))
    assert +found == anew, "the operator that comes back counts from 1 on"


def dropping(document: dict[str, Any]) -> dict[str, Any]:
    """The same job, which drops state of operators that it does not have."""
    return {**document, "spec": {**document["spec"], "allowNonRestoredState": True}}
