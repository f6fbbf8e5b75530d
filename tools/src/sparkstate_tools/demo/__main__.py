"""``python -m sparkstate_tools.demo``, which is ``make demo``."""

from __future__ import annotations

import sys

from sparkstate_tools.demo import main

if __name__ == "__main__":
    sys.exit(main.main(sys.argv[1:]))
