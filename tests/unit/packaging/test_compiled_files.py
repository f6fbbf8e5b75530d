"""The files of ``sparkstate-compiled``'s wheel and sdist, as they are built here. Needs a C compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import bootstrap
import build_compiled
import pytest

from sparkstate_tools.checkout import ROOT

pytestmark = [
    pytest.mark.extra,  # a build takes 20 seconds
    pytest.mark.skipif(
        bool(
            build_compiled.lacking(
                build_compiled.compiler(os.environ), Path(sysconfig.get_path("include")), sys.version_info[:2]
            )
        ),
        reason="no C compiler, or no headers of Python",
    ),
]
PACKAGE = "sparkstate_compiled"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, and the wheel that was built of it."""
    folder = tmp_path_factory.mktemp("dist")
    uv = bootstrap.find_uv(bootstrap.cache_directory(os.environ) / "uv")
    assert uv is not None
    env = bootstrap.uv_environment(os.environ, bootstrap.pip_settings())
    subprocess.run(
        [uv, "build", "--quiet", "--python", sys.executable, "--out-dir", folder, ROOT / "compiled"],
        env=env,
        check=True,
    )
    return folder


def test_the_wheel_has_the_library_its_types_and_the_licence_and_no_source(built: Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        library = f"{PACKAGE}/records{sysconfig.get_config_var('EXT_SUFFIX')}"
        size = wheel.getinfo(library).file_size
        (metadata,) = (wheel.read(name).decode() for name in names if name.endswith("/METADATA"))
    assert {name for name in names if name.startswith(f"{PACKAGE}/")} == {
        f"{PACKAGE}/__init__.py",
        f"{PACKAGE}/py.typed",
        f"{PACKAGE}/records.pyi",
        library,
    }
    assert {name.rsplit("/", 1)[1] for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}
    assert "License-Expression: Apache-2.0\n" in metadata
    assert "Requires-Dist" not in metadata
    assert size < 1_000_000, "with debugging information it would be several times as large"


def test_the_sdist_has_what_a_build_needs(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert names >= {"pyproject.toml", "setup.py", "LICENSE", "NOTICE", f"src/{PACKAGE}/records.pyx"}
    assert not [name for name in names if name.endswith((".c", ".so"))]


def test_the_wheel_is_for_this_version_of_python_alone(built: Path) -> None:
    (path,) = built.glob("*.whl")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert f"-{tag}-{tag}" in path.name
