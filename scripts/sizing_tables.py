"""The tables and worked examples of ``docs/sizing.md``: constants from the code, examples from the command itself.

A worked example is a block of the page that begins with ``$ sparkstate explain``; what follows in the block is what the
command prints about the manifest that the page shows first.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkstate.cli import main
from sparkstate.sizing.constants import Constant, Constants
from sparkstate.sizing.known import KNOWN

PAGE = "sizing.md"
_BEGIN, _END = "<!-- constants -->", "<!-- end of the constants -->"
_MANIFEST = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
_EXAMPLE = re.compile(r"```\n\$ (sparkstate explain job\.yaml [^\n]*)\n.*?```", re.DOTALL)


def constants(known: Constants) -> Iterator[Constant]:
    """Every constant, in the order of the code."""
    pending: list[Any] = [known]
    while pending:
        one = pending.pop(0)
        if isinstance(one, Constant):
            yield one
        elif one is not None:
            pending[:0] = one.values() if isinstance(one, dict) else vars(one).values()


def table(known: Constants) -> str:
    """A row for each constant, and below it where each measurement was made."""
    lines = ["| constant | value | off by | measured by |", "|---|---|---|---|"]
    lines += [
        f"| {c.meaning} | {c.value:g} {c.unit} | {_off(c)} | `{c.source.command}` |"
        for c in dict.fromkeys(constants(known))
    ]
    sources = dict.fromkeys(c.source for c in constants(known))
    lines += ["", "| command | date | commit | machine |", "|---|---|---|---|"]
    lines += [f"| `{s.command}` | {s.date} | {s.commit} | {s.machine} |" for s in sources]
    return "\n".join(lines)


def _off(constant: Constant) -> str:
    if constant.within == 0:
        return "exact"
    return f"{constant.within:.0%}" if constant.within < 1 else f"a factor of {constant.within + 1:g}"


def printed(command: str, manifest: Path) -> str:
    """What the command prints. Raises ``SystemExit`` if it fails."""
    words = [str(manifest) if word == "job.yaml" else word for word in shlex.split(command)[1:]]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = main.main(words)
    if code != 0:
        raise SystemExit(f"{command} ended with exit code {code}")
    return output.getvalue()


def with_tables(page: str) -> str:
    """The page with the constants of the code, and with what its commands print. Raises ``ValueError`` where a marker
    or the manifest is missing."""
    if page.count(_BEGIN) != 1 or page.count(_END) != 1:
        raise ValueError(f"docs/{PAGE} must have {_BEGIN} and {_END} once each")
    before, rest = page.split(_BEGIN)
    after = rest.split(_END)[1]
    page = f"{before}{_BEGIN}\n\n{table(KNOWN)}\n\n{_END}{after}"
    shown = _MANIFEST.search(page)
    if shown is None:
        raise ValueError(f"docs/{PAGE} must show the manifest of its examples as a yaml block")
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "job.yaml"
        manifest.write_text(shown[1])
        return _EXAMPLE.sub(lambda found: f"```\n$ {found[1]}\n{printed(found[1], manifest)}```", page)
