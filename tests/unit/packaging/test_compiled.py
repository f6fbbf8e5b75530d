"""The distribution ``sparkstate-compiled``: optional everywhere, and of the same release where it is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import bootstrap
import build_compiled
import pytest

from sparkstate_tools.checkout import ROOT

LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
NAME = "sparkstate-compiled"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def settings(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())


def names(listed: list[str]) -> set[str]:
    return {re.split(r"[\[<>=]", one)[0] for one in listed}


def test_the_engine_takes_the_compiled_path_in_exactly_its_own_version_and_as_an_extra() -> None:
    engine, compiled = settings("engine")["project"], settings("compiled")["project"]
    assert compiled["name"] == NAME
    assert compiled["version"] == engine["version"]
    assert engine["optional-dependencies"]["compiled"] == [f"{NAME}=={compiled['version']}"]
    assert NAME not in names(engine["dependencies"])


def test_the_compiled_path_needs_no_other_package() -> None:
    """The images install nothing for it, and the engine may depend on it."""
    assert settings("compiled")["project"]["dependencies"] == []
    (locked,) = [one for one in LOCK["package"] if one["name"] == NAME]
    assert locked["source"] == {"editable": "compiled"}
    assert "dependencies" not in locked


def test_nothing_of_the_workspace_is_installed_with_the_compiled_path_unless_it_is_asked_for() -> None:
    """``uv sync`` would build it, and ``make demo`` would need a C compiler."""
    root = settings(".")
    asked = [
        *root["project"]["dependencies"],
        *(one for g in root["dependency-groups"].values() for one in g),
    ]
    assert NAME not in names(asked)
    assert not [one for one in asked if one.startswith("sparkstate[") and "compiled" in one]
    for folder in bootstrap.MEMBERS:
        assert NAME not in names(settings(folder)["project"].get("dependencies", []))
    depending = [one["name"] for one in LOCK["package"] if NAME in str(one.get("dependencies", ""))]
    assert depending == []


def test_bootstrap_leaves_the_one_member_out_that_needs_a_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert {*bootstrap.MEMBERS, "compiled"} == set(settings(".")["tool"]["uv"]["workspace"]["members"])
    called: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "run", lambda words, *_: called.append([str(word) for word in words]))
    monkeypatch.setattr(bootstrap, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(bootstrap, "fingerprint", lambda: "")
    bootstrap.sync(Path("uv"), {}, needs_java=False)
    (words,) = called
    assert words[:2] == ["uv", "sync"]
    assert words[words.index("--no-install-package") + 1] == NAME
    called.clear()
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    bootstrap.sync(Path("uv"), {"UV_DEFAULT_INDEX": "https://a.example/simple"}, needs_java=False)
    assert "--no-emit-workspace" in called[0]
    assert not [words for words in called if str(tmp_path / "compiled") in words]


def test_every_supported_python_has_its_classifier_and_its_wheel() -> None:
    told = settings("compiled")
    versions = [
        found[1]
        for line in told["project"]["classifiers"]
        if (found := re.search(r"Python :: (3\.\d+)$", line)) is not None
    ]
    assert tuple(versions) == PYTHONS
    assert told["project"]["requires-python"] == settings("engine")["project"]["requires-python"] == ">=3.11"
    wheels = told["tool"]["cibuildwheel"]
    assert wheels["build"].split() == [f"cp{version.replace('.', '')}-*" for version in PYTHONS]
    assert set(wheels["linux"]["archs"]) == {"x86_64", "aarch64"}
    assert "3, 11) <= sys.version_info[:2] <= (3, 14" in (ROOT / "scripts" / "bootstrap.sh").read_text()


def test_no_flag_ties_a_wheel_to_the_processor_that_built_it() -> None:
    script = (ROOT / "compiled" / "setup.py").read_text()
    (flags,) = re.findall(r"^FLAGS = (.*)$", script, re.MULTILINE)
    assert "-O3" in flags
    assert not re.search(r"-m(arch|tune|cpu|avx|sse)", flags)


def test_a_missing_compiler_is_named_with_the_packages_that_bring_one(tmp_path: Path) -> None:
    (tmp_path / "Python.h").touch()
    said = build_compiled.lacking("no-such-compiler -pthread", tmp_path, (3, 12))
    assert "no C compiler: no-such-compiler is not on PATH" in said
    assert "sudo apt-get install gcc libc6-dev python3.12-dev" in said
    assert "headers" not in said


def test_missing_headers_are_named_with_the_package_that_brings_them(tmp_path: Path) -> None:
    said = build_compiled.lacking("sh -c", tmp_path, (3, 11))
    assert f"no headers of Python: {tmp_path / 'Python.h'} is missing" in said
    assert "python3.11-dev" in said
    assert "compiler:" not in said
    (tmp_path / "Python.h").touch()
    assert build_compiled.lacking("sh -c", tmp_path, (3, 11)) == ""


def test_without_a_compiler_make_compiled_ends_before_it_builds(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, build_compiled.__file__],
        env={"PATH": str(tmp_path), "CC": "no-such-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == build_compiled.CANNOT_BUILD
    assert done.stdout == ""
    assert "Nothing else needs it" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_users_compiler_comes_before_that_of_python() -> None:
    assert build_compiled.compiler({"CC": "clang"}) == "clang"
    assert build_compiled.compiler({}) != ""
