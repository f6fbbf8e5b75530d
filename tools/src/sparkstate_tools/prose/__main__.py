"""``python -m sparkstate_tools.prose``, a part of ``make check``."""

from __future__ import annotations

import sys

from sparkstate_tools.prose import main

if __name__ == "__main__":
    sys.exit(main.main(sys.argv[1:]))
