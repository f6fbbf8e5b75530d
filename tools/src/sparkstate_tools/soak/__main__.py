"""``python -m sparkstate_tools.soak``, which is ``make soak``."""

from __future__ import annotations

import sys

from sparkstate_tools.soak import main

if __name__ == "__main__":
    sys.exit(main.main(sys.argv[1:]))
