"""What the images leave out of their environments."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "packaging" / "prune.py"


def prune() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prune", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def site(root: Path, *files: str) -> Path:
    folder = root / "lib" / "python3.11" / "site-packages"
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    return folder


def left(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_test_suites_headers_and_old_bytecode_go(tmp_path: Path) -> None:
    folder = site(
        tmp_path,
        "pandas/core/frame.py",
        "pandas/tests/io/test_csv.py",
        "pyarrow/include/arrow/api.h",
        "pyarrow/lib.pyx",
        "pyarrow/__pycache__/x.cpython-311.pyc",
    )
    freed = prune().prune(folder)
    assert left(folder) == {"pandas/core/frame.py"}
    assert freed == 4 * len("x = 1\n")


def test_spark_s_jars_licences_and_other_people_s_tests_stay(tmp_path: Path) -> None:
    kept = (
        "pyspark/jars/spark-core.jar",
        "pyspark/licenses/LICENSE-jline.txt",
        "pandas-2.3.3.dist-info/LICENSE",
        "acme/tests/__init__.py",
    )
    folder = site(tmp_path, *kept, "pyspark/examples/pi.py")
    prune().prune(folder)
    assert left(folder) == set(kept)


def test_a_link_is_taken_away_and_what_it_points_to_stays(tmp_path: Path) -> None:
    folder = site(tmp_path, "acme/real/file.py")
    (folder / "pyarrow").mkdir()
    (folder / "pyarrow" / "libarrow_flight.so").symlink_to(folder / "acme" / "real")
    prune().prune(folder)
    assert left(folder) == {"acme/real/file.py"}


def test_everything_left_has_bytecode_that_is_used_whatever_its_source_s_time(tmp_path: Path) -> None:
    folder = site(tmp_path, "acme/__init__.py")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("left out 0 MB")
    (compiled,) = folder.glob("acme/__pycache__/*.pyc")
    flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
    assert flags == 0b01, "hash-based and unchecked (PEP 552)"


def test_a_library_under_several_names_is_there_once(tmp_path: Path) -> None:
    folder = site(tmp_path, "pyarrow/liba.so", "pyarrow/liba.so.26", "pyarrow/libb.so")
    (folder / "pyarrow" / "libb.so").write_text("another\n")
    assert prune().link_copies(folder) == len("x = 1\n")
    assert (folder / "pyarrow" / "liba.so.26").read_text() == "x = 1\n"
    assert [p.name for p in sorted((folder / "pyarrow").iterdir()) if p.is_symlink()] == ["liba.so.26"]


def test_arrow_s_libraries_lose_their_symbols_and_can_still_be_loaded(tmp_path: Path) -> None:
    own = prune()
    if shutil.which("strip") is None:
        pytest.skip("binutils are not installed here; the image's build installs them")
    folder = site(tmp_path, "pyarrow/__init__.py")
    for library in ("libarrow.so", "libparquet.so"):
        (source,) = Path(pa.__file__).parent.glob(f"{library}.*")
        shutil.copy(source, folder / "pyarrow" / source.name)
    before = sum(path.stat().st_size for path in folder.rglob("*.so.*"))
    freed = own.strip(folder)
    assert freed > before // 10
    assert before - sum(path.stat().st_size for path in folder.rglob("*.so.*")) == freed
    load = f"import ctypes; ctypes.CDLL({str(next(folder.rglob('libarrow.so.*')))!r})"
    subprocess.run([sys.executable, "-c", load], check=True)
