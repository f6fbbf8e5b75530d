"""``python scripts/soak``: makes the folder importable as the package ``soak`` and runs it."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path[:1] = [str(SCRIPTS), str(SCRIPTS.parent / "tests")]

from soak import main  # noqa: E402 - the package is found only now

if __name__ == "__main__":
    sys.exit(main.main(sys.argv[1:]))
