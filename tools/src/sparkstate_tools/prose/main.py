"""Reads the files, runs the checks, prints what they find."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import proselint.checks
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

from sparkstate_tools.checkout import ROOT
from sparkstate_tools.prose import literals, rules, texts, vocabulary, wrapping

SOURCES = ("spec/src", "engine/src", "operator/src", "tools/src")
READERS: dict[str, Callable[[str], str]] = {".md": texts.markdown, ".py": literals.python}
ELSEWHERE = {
    "CHANGELOG.md": "what has been released is not written anew",
}
"""Pages that are not read, and why."""
ORPHAN = "sparkstate.orphan"


def register() -> None:
    """Makes the checks known to proselint, which has one registry for a process."""
    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many((*proselint.checks.__register__, *rules.ALL))


def files() -> list[Path]:
    """The files that ``make check`` reads: the pages and sources that git knows."""
    known = subprocess.run(
        ["git", "ls-files", "*.md", *SOURCES], cwd=ROOT, capture_output=True, check=True, text=True
    )
    names = [name for name in known.stdout.split() if name.endswith((".md", ".py"))]
    return [ROOT / name for name in names if name not in ELSEWHERE and "fixtures" not in name]


def faults(name: str, content: str) -> Iterator[tuple[int, str, str]]:
    """Line, rule and words of each fault in one file; ``name`` tells Markdown from Python."""
    register()
    suffix = Path(name).suffix
    off = dict.fromkeys(vocabulary.OFF, False)  # first: proselint takes the first path that fits
    checks = off | {path: on for path, on in DEFAULT["checks"].items() if path not in off}
    checks |= {check.path: True for check in rules.ALL}
    prose = LintFile(name, READERS[suffix](content) or " ")
    for found in prose.lint({"max_errors": 1000, "checks": checks}):
        result = found.check_result
        words = prose.content[slice(*result.span)].strip().lower()
        known = any(result.check_path == path and known in words for path, known in vocabulary.KNOWN)
        if not known and re.search("[a-z]", words):  # figures of a table may repeat
            yield found.pos[0], result.check_path, " ".join(result.message.split())
    if suffix == ".py":
        for line, words in wrapping.orphans(content):
            yield line, ORPHAN, f"«{words}»: wrap the paragraph so that its last line has three words or more"


def main(arguments: Sequence[str]) -> int:
    """Prints the faults of the files that are named, or of all; 1 when there is one."""
    number = 0
    for path in [Path(name).resolve() for name in arguments] or files():
        for line, check, message in faults(path.name, path.read_text()):
            number += 1
            print(f"{path.relative_to(ROOT)}:{line}: {check}: {message}")
    return int(number > 0)
