"""``sparkstate check`` on real checkpoints and savepoints of a real job: what it says, and that it changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.commands.checked import Checked

from sparkstate.control import documents
from sparkstate_tools.drivers import driving, totals, window_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def stored_files(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("backend", [pytest.param("hashmap", marks=pytest.mark.extra), "rocksdb"])
def test_a_check_says_before_an_upgrade_what_the_start_would_say(tmp_path: Path, backend: str) -> None:
    rows = totals.make_input(tmp_path / "in", files=2)
    often = {"trigger": {"processingTime": "100ms"}, "stateBackend": {"type": backend}}
    document = driving.manifest(tmp_path, "totals.py", **often)
    with driving.Driver(tmp_path, document) as driver, driver.client() as client:
        driving.wait_for(
            lambda: client.status().rows_total >= len(rows), driving.PATIENCE_S, "all rows", driver.process
        )
        client.trigger_savepoint(documents.SavepointRequest(trigger_id="kept", format_type="native"))
        saved = client.wait_for_savepoint("kept", 60)
        client.cancel()
        driver.finish()
    assert saved.location is not None
    before = stored_files(tmp_path / "checkpoints")
    outputs = stored_files(tmp_path / "out")

    same = Checked(tmp_path, document, "-o", "json")
    assert same.code == 0, same.err
    assert "totals opens in slot 0" in same.err, "the job's own prints"
    assert set(same.outcomes().values()) == {"as-it-is"}
    assert {"totals/total", "totals/seen", "totals/timer", "groups/count"} <= set(same.outcomes())
    assert any(name.startswith("totals/_timer_state/event") for name in same.outcomes())
    assert (same.document["compatible"], same.document["kind"]) == (True, "checkpoint")

    counted = driving.manifest(tmp_path, "counted.py", slots=3, **often)
    more = Checked(tmp_path, counted, "--from", saved.location, "-o", "json")
    assert more.code == 0, more.err
    assert more.document["kind"] == "savepoint"
    assert {name: told for name, told in more.outcomes().items() if told != "as-it-is"} == {
        "groups/counted": "new",
        "groups/shares": "new",
        "groups/facts": "new",
    }
    assert [one["field"] for one in more.document["differences"]] == ["spec.slots"]

    words = tmp_path / "word"
    key = driving.manifest(tmp_path, "redeclared.py", params={"change": "key"}, **often)
    refused = Checked(tmp_path, key, "--json", "--termination-log", str(words))
    assert refused.code == 3, refused.err
    assert refused.outcomes()["totals/total"] == "refused"
    assert refused.outcomes()["groups/count"] == "as-it-is"
    word = json.loads(words.read_text())
    assert (word["ok"], word["compatible"]) == (True, False)
    assert "key type was STRING when it was stored and is now LONG" in word["message"]

    text = driving.manifest(tmp_path, "redeclared.py", params={"change": "state"}, **often)
    people = Checked(tmp_path, text, "--from", str(tmp_path / "checkpoints"))
    assert people.code == 3, people.err
    assert "'total' of operator 'totals'" in people.out
    assert "was LONG when it was stored and is now STRING" in people.out
    assert people.out.rstrip().endswith("the job would be refused")

    assert stored_files(tmp_path / "checkpoints") == before, "a check writes nothing"
    assert stored_files(tmp_path / "out") == outputs


def test_code_that_cannot_declare_itself_is_an_error_with_its_own_code(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "bad.py").write_text("def job(spark, params):\n    raise RuntimeError('no catalog')\n")
    document = driving.manifest(tmp_path, "totals.py")
    document["spec"]["pythonFile"] = str(tmp_path / "bad.py")
    found = Checked(tmp_path, document, "--json")
    assert (found.code, found.document["ok"]) == (1, False)
    assert found.document["reason"] == "UserCodeError"
    assert "RuntimeError: no catalog" in found.document["message"]


def test_code_that_ends_the_process_has_not_passed_the_check(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "leaving.py").write_text("import sys\ndef job(spark, params):\n    sys.exit(0)\n")
    document = driving.manifest(tmp_path, "totals.py", restart={"strategy": "none"})
    document["spec"]["pythonFile"] = str(tmp_path / "leaving.py")
    found = Checked(tmp_path, document, "--json")
    assert (found.code, found.document["reason"]) == (1, "UserCodeError")
    assert "sys.exit(0)" in found.document["message"]
    with driving.Driver(tmp_path, document) as driver:
        assert driver.wait() == 1
    assert driver.end()["message"] == found.document["message"], "the driver says the same"


def test_code_that_only_the_driver_finds_is_refused_as_a_slot_would_refuse_it(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", files=1)
    (tmp_path / "far.py").write_text(
        f"import sys\nsys.path.insert(0, {str(driving.JOBS)!r})\nfrom totals import job\n"
    )
    document = driving.manifest(tmp_path, "totals.py")
    document["spec"]["pythonFile"] = str(tmp_path / "far.py")
    found = Checked(tmp_path, document, "--json")
    assert (found.code, found.document["reason"]) == (2, "DeclarationError")
    assert "No module named 'totals'" in found.document["message"]


@pytest.mark.extra
def test_another_number_of_sources_is_refused_by_the_check_as_by_the_start(tmp_path: Path) -> None:
    """Also where a frame is read twice, which makes two sources of one."""
    totals.make_input(tmp_path / "in", files=1)
    code = (
        "import totals\n"
        "import sparkstate\n"
        "def job(spark, params):\n"
        "    totals.declare(totals.source(spark, params), params)\n"
        "    rows = totals.source(spark, params)\n"
        "    more = sparkstate.keyed(rows.union(rows), 'k', event_time='at').process(totals.Groups(), uid='more',\n"
        "        output_schema='v bigint, count bigint')\n"
        "    more.sink(sparkstate.FileSink(params['output'] + '/more'))\n"
    )
    (tmp_path / "three.py").write_text(code)
    shutil.copy(driving.JOBS / "totals.py", tmp_path)
    document = driving.manifest(tmp_path, "totals.py", restart={"strategy": "none"})
    document["spec"]["pythonFile"] = str(tmp_path / "three.py")
    with driving.Driver(tmp_path, document) as first:
        first.finish()
    same = Checked(tmp_path, document, "-o", "json")
    assert (same.code, same.document["differences"]) == (0, []), same.err
    fewer = driving.manifest(tmp_path, "totals.py", restart={"strategy": "none"}, allowNonRestoredState=True)
    found = Checked(tmp_path, fewer, "-o", "json")
    assert found.code == 3, found.err
    (sources,) = (one for one in found.document["differences"] if one["field"] == "sources")
    assert (sources["stored"], sources["declared"]) == ("totals/0, more/0", "totals/0")
    assert found.outcomes()["more/count"] == "dropped"
    with driving.Driver(tmp_path, fewer, attempt=2) as second:
        assert second.wait() == 3
    assert second.end()["message"].endswith(sources["message"]), "the check gives the words of the start"


@pytest.mark.extra
@pytest.mark.parametrize(
    ("backend", "migrated"),
    [("hashmap", "full-pass"), ("rocksdb", "on-read")],
    ids=["hashmap", "rocksdb"],
)
def test_versions_of_one_job_start_as_the_check_has_said(tmp_path: Path, backend: str, migrated: str) -> None:
    rows = totals.make_input(tmp_path / "in", files=1)

    def version(number: int) -> dict[str, Any]:
        params = {"version": str(number)}
        return driving.manifest(tmp_path, "typed_totals.py", stateBackend={"type": backend}, params=params)

    with driving.Driver(tmp_path, version(1)) as first:
        first.finish()
    forward = Checked(tmp_path, version(2), "-o", "json")
    assert forward.code == 0, forward.err
    assert {forward.outcomes()[f"totals/{name}"] for name in ("total", "seen")} == {migrated}
    (total,) = (one for one in forward.document["states"] if one["state"] == "total")
    assert "origin" in total["message"], "the new field"
    rows += totals.make_input(tmp_path / "in", files=1, first=1, seed=4)
    with driving.Driver(tmp_path, version(2), attempt=2) as second:
        second.finish()
    totals.check(tmp_path / "out", rows)
    back = Checked(tmp_path, version(1), "-o", "json")
    assert back.code == 3, back.err
    assert back.outcomes()["totals/total"] == "refused"
    with driving.Driver(tmp_path, version(1), attempt=3) as third:
        assert third.wait() == 3
    (refused,) = (one for one in back.document["states"] if one["state"] == "total")
    assert third.end()["message"].endswith(refused["message"]), "the check gives the words of the start"


@pytest.mark.extra
def test_other_windows_are_refused_by_the_check_in_the_words_of_the_start(tmp_path: Path) -> None:
    """No type tells the sizes of windows apart, so the states alone would be taken as they are."""
    window_rows.make_input(tmp_path / "in", files=1)

    def version(slide: str) -> dict[str, Any]:
        params = {"keys": "n", "size": "4 seconds", "slide": slide}
        return driving.manifest(tmp_path, "window_aggregates.py", params=params, restart={"strategy": "none"})

    with driving.Driver(tmp_path, version("1 second")) as first:
        first.finish()
    same = Checked(tmp_path, version("1 second"), "-o", "json")
    assert (same.code, same.document["differences"]) == (0, []), same.err
    other = Checked(tmp_path, version("2 seconds"), "-o", "json")
    assert other.code == 3, other.err
    (slide,) = other.document["differences"]
    assert (slide["field"], slide["stored"], slide["declared"]) == (
        "premises",
        "windows: slide of windows 1000 ms",
        "windows: slide of windows 2000 ms",
    )
    with driving.Driver(tmp_path, version("2 seconds"), attempt=2) as second:
        assert second.wait() == 3
    assert second.end()["message"].endswith(slide["message"].partition(" has state of ")[2])
