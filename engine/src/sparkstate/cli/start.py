"""The console script: it loads the commands, which takes seconds, and runs them.

It imports nothing itself, so that Ctrl-C during that time finds somebody who answers it.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130
"""As shells have it for Ctrl-C."""


def main() -> int:
    """Run the command line; returns its exit code."""
    try:
        from sparkstate.cli import main as commands

        return commands.main()
    except KeyboardInterrupt:
        print("interrupted before the command began; nothing was started", file=sys.stderr)
        return _INTERRUPTED
