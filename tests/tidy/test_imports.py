"""What an import may cost."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from support.repository import tree

HEAVY = ("pyspark", "rocksdict", "boto3", "botocore", "fastapi", "uvicorn", "click", "pandas")

LIGHT = {
    "sparkstate": HEAVY,
    "sparkstate.testing": HEAVY,
    "sparkstate.slots": ("pyspark", "py4j", "fastapi", "uvicorn", "click", "croniter"),
    "sparkstate.storage": ("boto3", "botocore", "pyspark"),
    "sparkstate.manifest": HEAVY,
}


@pytest.mark.parametrize("module", LIGHT)
def test_importing_it_loads_none_of_the_heavy_packages(module: str) -> None:
    script = f"import {module}, sys; print(*(name for name in {LIGHT[module]!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_reading_of_the_spec_imports_the_standard_library_itself_and_croniter() -> None:
    """Both sides install it: whatever it imports, both carry."""
    imported = set()
    for path in tree.files(".py", below=tree.SPEC):
        for node in ast.walk(tree.parsed(path)):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{tree.name(path)}:{node.lineno}"
                imported.add(str(node.module).partition(".")[0])
    assert imported - sys.stdlib_module_names <= {"sparkstate_spec", "croniter"}
    assert not imported & {"asyncio", "os", "pathlib", "socket", "subprocess", "time"}
