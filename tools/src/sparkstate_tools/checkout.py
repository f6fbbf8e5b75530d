"""Where the checkout lies that this package is part of."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
