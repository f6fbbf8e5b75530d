"""Each example is linked in the README, and a file of ``tests/examples`` runs it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from support.repository import tree

TESTS = tree.ROOT / "tests" / "examples"
SUPPORT = tree.ROOT / "tests" / "support" / "examples"
README = (tree.ROOT / "README.md").read_text()
FOLDERS = sorted(path.parent.name for path in (tree.ROOT / "examples").glob("*/README.md"))

_FOLDER = re.compile(r'\bEXAMPLES\s*/\s*"([^"]+)"(?:\s*/\s*"([^"]+)")?')
_SUPPORT = re.compile(r"^from support\.examples import (.+)$", re.MULTILINE)


def run_in(text: str, modules: Mapping[str, str]) -> set[str]:
    """The examples that a test file runs: those whose folder or manifest it names, where it starts jobs and ``make
    test`` runs a test of it. ``modules`` are those of ``support.examples``, which may do both for it."""
    imported = [name.strip() for line in _SUPPORT.findall(text) for name in line.split(",")]
    together = "\n".join([text, *(modules[name] for name in imported)])
    if "job_process.JobProcess(" not in together or not has_a_test_of_every_run(text):
        return set()
    # A file of another kind, such as the readings of another example, is data.
    return {
        folder for folder, file in _FOLDER.findall(together) if not file or file.endswith((".yaml", ".yml"))
    }


def has_a_test_of_every_run(text: str) -> bool:
    """Whether a test has no mark ``extra``, which would keep it out of ``make test``."""
    tests = [
        one
        for one in ast.parse(text).body
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
    ]
    marked = [any("mark.extra" in ast.unparse(mark) for mark in one.decorator_list) for one in tests]
    return not all(marked)


def not_linked(folders: list[str], readme: str) -> list[str]:
    """The examples that no link of the README leads to."""
    return [folder for folder in folders if f"](examples/{folder}/README.md)" not in readme]


def test_every_folder_is_an_example_with_a_page() -> None:
    folders = sorted(
        path.name
        for path in (tree.ROOT / "examples").iterdir()
        if path.is_dir() and path.name not in tree.NOT_OURS
    )
    assert folders == FOLDERS and len(folders) > 5


def test_the_readme_names_every_example() -> None:
    assert not_linked(FOLDERS, README) == []


def test_every_example_is_run_by_a_test() -> None:
    modules = {path.stem: path.read_text() for path in SUPPORT.glob("*.py")}
    found = [run_in(path.read_text(), modules) for path in sorted(TESTS.glob("test_*.py"))]
    assert set(FOLDERS) <= set().union(*found)


def test_an_example_that_no_link_leads_to_is_found() -> None:
    readme = "[one](examples/01-one/README.md), examples/02-two/README.md, [three](examples/03-three)"
    assert not_linked(["01-one", "02-two", "03-three"], readme) == ["02-two", "03-three"]


def test_a_file_that_runs_nothing_or_only_now_and_then_does_not_count() -> None:
    start = "job_process.JobProcess(manifest)\n"
    names = 'EXAMPLE = example.EXAMPLES / "01-one"\n'
    test = "def test_it() -> None: ...\n"
    marked = f"@pytest.mark.extra\n{test}"
    assert run_in(names + start + test, {}) == {"01-one"}
    assert run_in(names + test, {}) == set()
    assert run_in(names + start + marked, {}) == set()
    assert run_in(names + start + marked + test, {}) == {"01-one"}
    assert run_in('DATA = EXAMPLES / "02-two" / "rows.py"\n' + start + test, {}) == set()
    assert run_in('path = EXAMPLES / "02-two" / "job.yaml"\n' + start + test, {}) == {"02-two"}
    shared = "from support.examples import shared\n"
    assert run_in(shared + test, {"shared": names + start, "other": names}) == {"01-one"}
