"""`sparkstate init` writes a job that the other commands take."""

import json
import shlex
from pathlib import Path

import pytest
from support.examples import example

from sparkstate import Types
from sparkstate.cli import main
from sparkstate.testing import KeyedProcessHarness


def test_init_writes_a_job_that_explain_accepts(capsys, tmp_path: Path) -> None:
    folder = tmp_path / "My Shop: 'new' #1"
    assert main.main(["init", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["job.py", "job.yaml", "make_input.py"]
    assert main.main(["explain", str(folder / "job.yaml"), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert document["name"] == "my-shop-new-1"
    assert document["settings"]["params.input"]["value"] == str(folder / "input")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("7" * 60, "job-" + "7" * 36),
        ("a" * 60, "a" * 40),
        ("a" * 39 + "-b", "a" * 39),
        ("7" * 35 + "-77", "job-" + "7" * 35),
        ("...", "job"),
        ("Über", "ber"),
    ],
)
def test_init_names_a_job_as_a_manifest_may(capsys, tmp_path: Path, folder: str, name: str) -> None:
    assert main.main(["init", str(tmp_path / folder)]) == 0
    assert main.main(["explain", str(tmp_path / folder / "job.yaml"), "-o", "json"]) == 0
    assert f'"name": "{name}"' in capsys.readouterr().out


@pytest.mark.parametrize("name", ["Bad_Name", "a: b", "a" * 41, "-a"])
def test_init_writes_no_name_that_a_manifest_may_not_have(capsys, tmp_path: Path, name: str) -> None:
    assert main.main(["init", str(tmp_path / "w"), f"--name={name}"]) == 2
    told = capsys.readouterr().err
    assert f"--name {name!r}" in told
    assert "at most 40 characters" in told
    assert list(tmp_path.iterdir()) == []


def test_the_commands_that_init_shows_can_be_copied(capsys, tmp_path: Path) -> None:
    folder = tmp_path / "my job"
    main.main(["init", str(folder)])
    told = capsys.readouterr().out.splitlines()
    shown = [
        shlex.split(line.partition(": ")[2]) for line in told if line.startswith(("Make", "Run", "Watch"))
    ]
    assert [words[-1] for words in shown] == ["30", f"{folder}/job.yaml", f"{folder}/job.yaml"]
    assert shown[0][1] == f"{folder}/make_input.py"


def test_init_overwrites_nothing_unless_told_to(capsys, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("mine")
    assert main.main(["init", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["job.py"]
    assert "job.py already" in capsys.readouterr().err
    assert main.main(["init", str(tmp_path), "--force"]) == 0
    assert "KeyedProcessFunction" in (tmp_path / "job.py").read_text()


def test_the_job_that_init_writes_counts_and_notices_quiet_customers(tmp_path: Path) -> None:
    main.main(["init", str(tmp_path)])
    written = example.load(tmp_path / "job.py")
    function = written.Purchases(quiet_minutes=5)
    with KeyedProcessHarness(function, key=lambda row: row.customer, key_type=Types.STRING()) as harness:
        harness.process_element({"customer": "ada", "amount": 2.0}, 60_000)
        harness.process_element({"customer": "ada", "amount": 3.0}, 120_000)
        harness.process_watermark(60_000 + 300_000)
        assert harness.side_output(written.QUIET) == []
        harness.process_watermark(120_000 + 300_000)
        assert [tuple(row) for row in harness.output()] == [("ada", 1, 2.0), ("ada", 2, 5.0)]
        assert [tuple(row)[:2] for row in harness.side_output(written.QUIET)] == [("ada", 2)]
