"""``sparkstate explain --size``: what a job needs for a load, and how a wrong size is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkstate.cli import main

MANIFEST = """
apiVersion: sparkstate.io/v1alpha1
kind: StatefulSparkJob
metadata:
  name: rotations
spec:
  pythonFile: job.py
  slots: 2
  stateBackend: {type: hashmap}
  stateMemoryPerSlot: 256Mi
  checkpointing: {storage: state, interval: 30s}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(MANIFEST)
    return str(path)


def row(text: str, need: str) -> str:
    """The line of the table that begins with these words."""
    return next(line for line in text.splitlines() if line.startswith(need))


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main.main(["explain", *arguments, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_small_load_fits_and_needs_no_advice(capsys, manifest: str) -> None:
    assert main.main(["explain", manifest, "--size", "20krows/s,100kkeys,100bytes"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "20,000 rows/s, 100,000 keys of 100 bytes; hashmap, a function that is called per record"
    )
    assert row(text, "slots").endswith("slots: 2, enough")
    assert row(text, "memory of a slot's state").endswith("stateMemoryPerSlot: 256Mi, enough")
    assert "TOO LITTLE" not in text
    assert "docs/sizing.md" in text
    assert "off by" in text


def test_state_that_does_not_fit_is_told_with_three_remedies(capsys, manifest: str) -> None:
    assert main.main(["explain", manifest, "--size", "20k,50M,100"]) == 0
    text = capsys.readouterr().out
    assert row(text, "memory of a slot's state").endswith("stateMemoryPerSlot: 256Mi, TOO LITTLE")
    advice = row(text, "the state does not fit")
    needed = document(capsys, manifest, "--size", "20k,50M,100")
    mebibytes = -(-needed["stateMemoryPerSlotBytes"] // 2**20)
    assert f"raise stateMemoryPerSlot to {mebibytes}Mi" in advice
    assert "or set stateBackend.type: rocksdb" in advice


def test_the_memory_that_the_advice_names_is_enough(capsys, manifest: str) -> None:
    needed = document(capsys, manifest, "--size", "20k,50M,100")
    mebibytes = -(-needed["stateMemoryPerSlotBytes"] // 2**20)
    raised = f"spec.stateMemoryPerSlot={mebibytes}Mi"
    assert main.main(["explain", manifest, "--size", "20k,50M,100", "--set", raised]) == 0
    assert row(capsys.readouterr().out, "memory of a slot's state").endswith("enough")


def test_rocksdb_shows_disk_and_what_the_managed_memory_holds(capsys, manifest: str) -> None:
    rocksdb = "spec.stateBackend.type=rocksdb"
    assert main.main(["explain", manifest, "--size", "20k,50M,100", "--set", rocksdb]) == 0
    text = capsys.readouterr().out
    assert "managed memory holds" in row(text, "disk of a slot")
    assert "incremental, every 30s" in row(text, "checkpoint, each later one")
    needed = document(capsys, manifest, "--size", "20k,50M,100", "--set", rocksdb)
    assert needed["stateMemoryPerSlotBytes"] is None
    assert 0 < needed["cachedShare"] < 1


def test_a_function_on_batches_needs_less(capsys, manifest: str) -> None:
    busy = [
        document(capsys, manifest, "--size", "1M,1k,8", "--function", function)["processors"]
        for function in ("record", "record-compiled", "batch", "batch-per-key")
    ]
    whole = [each["spark"] + each["slots"] for each in busy]
    assert whole[0] > whole[1] > whole[2] > whole[3]


def test_yaml_is_the_same_document(capsys, manifest: str) -> None:
    needed = document(capsys, manifest, "--size", "20k,50k,100")
    assert main.main(["explain", manifest, "--size", "20k,50k,100", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == needed


def test_a_job_that_can_never_catch_up_is_told(capsys, manifest: str) -> None:
    assert main.main(["explain", manifest, "--size", "5M,50k,100"]) == 0
    assert "never caught up" in row(capsys.readouterr().out, "recovery")
    assert document(capsys, manifest, "--size", "5M,50k,100")["recoverySeconds"]["catchUp"] is None


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("50k,10M", "--size is '50k,10M', 2 value(s) instead of three; write --size rows/s,keys,bytes"),
        ("50k,many,200", "--size: keys is 'many', not a number such as 200, 50k or 1.5M"),
        ("0,10M,200", "--size: rows/s is '0'; it must lie between 1 and 1,000,000,000"),
    ],
)
def test_a_wrong_size_is_one_line_and_exit_code_2(capsys, manifest: str, size: str, said: str) -> None:
    assert main.main(["explain", manifest, "--size", size]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {said}")
    assert "Traceback" not in told


def test_numbers_need_less_memory_on_hashmap_and_the_title_says_so(capsys, manifest: str) -> None:
    size = ("--size", "20k,10M,9")
    any_value = document(capsys, manifest, *size)["stateMemoryPerSlotBytes"]
    numbers = document(capsys, manifest, *size, "--values", "numbers")
    assert numbers["values"] == "numbers"
    assert numbers["stateMemoryPerSlotBytes"] < any_value / 3
    assert main.main(["explain", manifest, *size, "--values", "numbers"]) == 0
    assert "10,000,000 keys of 9 bytes of numbers; hashmap" in capsys.readouterr().out


def test_values_without_a_size_are_wrong_usage(capsys, manifest: str) -> None:
    assert main.main(["explain", manifest, "--values", "numbers"]) == 2
    assert "give --size too" in capsys.readouterr().err


def test_a_wrong_kind_of_function_is_wrong_usage(capsys, manifest: str) -> None:
    assert main.main(["explain", manifest, "--size", "1,1,1", "--function", "lambda"]) == 2
    assert "'batch-per-key'" in capsys.readouterr().err


def test_a_kind_of_function_without_a_size_is_wrong_usage(capsys, manifest: str) -> None:
    assert main.main(["explain", manifest, "--function", "batch"]) == 2
    assert "give --size too" in capsys.readouterr().err


def test_a_wrong_manifest_is_told_with_a_size_too(capsys, manifest: str) -> None:
    Path(manifest).write_text(MANIFEST.replace("slots: 2", "slots: none"))
    assert main.main(["explain", manifest, "--size", "20k,50k,100"]) == 2
    assert "spec.slots" in capsys.readouterr().err
