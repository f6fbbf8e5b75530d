"""Loads the examples by their place: they are not installed packages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"


def load(path: Path) -> ModuleType:
    """The module in that file, under a name made of its folder and its own name."""
    name = f"{path.parent.name}_{path.stem}".replace("-", "_")
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
