"""``python -m sparkstate_operator``."""

from sparkstate_operator.cli import main

main()
