"""Command line of the demonstration."""

from __future__ import annotations

import argparse
from pathlib import Path

from sparkstate_tools import checkout, demo
from sparkstate_tools.demo import page, report
from sparkstate_tools.demo.scenario import Demonstration, Options


def options(arguments: list[str]) -> Options:
    """The command line; every default is that of ``make demo``."""
    defaults = Options(output=checkout.ROOT / "demo-output")
    parser = argparse.ArgumentParser(prog="make demo", description=demo.__doc__)
    parser.add_argument(
        "--output", type=Path, default=defaults.output, help="folder of everything that is written"
    )
    parser.add_argument("--files", type=int, default=defaults.files, help="input files; one is one epoch")
    parser.add_argument("--rows", type=int, default=None, help="take only the first rows (default: all)")
    parser.add_argument(
        "--interval", type=float, default=defaults.interval_s, help="seconds between two files"
    )
    parser.add_argument("--slot-phase", default=defaults.slot_phase, help="where the slot is killed")
    parser.add_argument("--driver-phase", default=defaults.driver_phase, help="where the driver is killed")
    chosen = parser.parse_args(arguments)
    return Options(
        output=chosen.output.resolve(),
        files=chosen.files,
        rows=chosen.rows,
        interval_s=chosen.interval,
        slot_phase=chosen.slot_phase,
        driver_phase=chosen.driver_phase,
    )


def main(arguments: list[str]) -> int:
    """Run it; 0 when all is equal, 1 when not, 3 when the demonstration itself could not go on."""
    chosen = options(arguments)
    try:
        outcome = Demonstration(chosen).run()
    except (RuntimeError, AssertionError) as error:
        print(
            f"\n{error}\n\nFAIL: the demonstration could not go on; logs are under {chosen.output}",
            flush=True,
        )
        return 3
    print(f"\n{report.text(outcome)}\n")
    html = chosen.output / "index.html"
    page.write(outcome, html)
    print(f"plots: {html}")
    return 0 if outcome.passed else 1
