"""What an import may cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pyspark", "rocksdict", "boto3", "botocore", "fastapi", "uvicorn", "click", "pandas")

LIGHT = {
    "sparkstate": HEAVY,
    "sparkstate.testing": HEAVY,
    "sparkstate.slots": ("pyspark", "py4j", "fastapi", "uvicorn", "click"),
    "sparkstate.storage": ("boto3", "botocore", "pyspark"),
    "sparkstate.manifest": HEAVY,
}


@pytest.mark.parametrize("module", LIGHT)
def test_importing_it_loads_none_of_the_heavy_packages(module: str) -> None:
    script = f"import {module}, sys; print(*(name for name in {LIGHT[module]!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
