"""``sparkstate check-backend``: what a job would say of a backend of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkstate import conformance
from sparkstate.cli import main

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "05-own-backend"


def test_the_class_of_a_manifest_is_found_beside_its_python_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check-backend", "--manifest", str(EXAMPLE / "job.yaml")]) == 0
    told = capsys.readouterr().out
    assert (
        f"sqlite_backend:SQLiteBackend passes the conformance kit: {len(conformance.CHECKS)} checks" in told
    )
    for chapter in conformance.CHAPTERS:
        assert chapter.name in told


def test_a_class_is_found_in_the_working_folder_and_takes_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLE)
    name = "sqlite_backend.SQLiteBackend"
    assert main.main(["check-backend", name, "--option", "cache_kib=64", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["class"] == name
    assert sum(document["chapters"].values()) == len(conformance.CHECKS)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "name the class, or a manifest with stateBackend.class"),
        (("nowhere_at_all:B",), 2, "there is no module nowhere_at_all"),
        (("sqlite_backend:SQLiteBackend", "--option", "cache"), 2, "--option cache: write KEY=VALUE"),
        (
            ("sqlite_backend:SQLiteBackend", "--option", "cache=1"),
            2,
            "unknown options cache; there is cache_kib",
        ),
    ],
    ids=["nothing", "module", "option", "unknown-option"],
)
def test_a_refusal_says_why_by_its_exit_code_and_a_line(
    arguments: tuple[str, ...],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(EXAMPLE)
    assert main.main(["check-backend", *arguments]) == code
    assert message in capsys.readouterr().err


def test_explain_shows_class_and_options_and_cannot_size_them(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(EXAMPLE / "job.yaml")
    assert main.main(["explain", path, "-o", "json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings["stateBackend.class"]["value"] == "sqlite_backend:SQLiteBackend"
    assert settings["stateBackend.options.cache_kib"]["value"] == "1024"
    assert settings["stateMemoryPerSlot"]["value"] == "256Mi"
    assert main.main(["explain", path, "--size", "50k,10M,200"]) == 2
    assert (
        "spec.stateBackend.type is custom; estimate with --set spec.stateBackend=null"
        in capsys.readouterr().err
    )
    assert main.main(["explain", path, "--size", "50k,10M,200", "--set", "spec.stateBackend=null"]) == 0
