"""``python scripts/prose``: makes the folder importable as the package ``prose`` and runs it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:1] = [str(Path(__file__).resolve().parent.parent)]

from prose import main  # noqa: E402 - the package is found only now

if __name__ == "__main__":
    sys.exit(main.main(sys.argv[1:]))
