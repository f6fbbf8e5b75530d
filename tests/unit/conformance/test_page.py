"""docs/custom-backends.md: its backend passes the kit, and its table of chapters is the kit's."""

from __future__ import annotations

import re
from pathlib import Path

from sparkstate import backend_api, conformance
from sparkstate.backend_api import BackendContext

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "custom-backends.md").read_text("utf-8")


def test_the_backend_on_the_page_passes_the_kit(tmp_path: Path) -> None:
    code = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    namespace: dict[str, type] = {}
    exec(compile(code, "custom-backends.md", "exec"), namespace)
    backend = namespace["MyBackend"]
    assert (
        conformance.first_failure(lambda folder: backend(BackendContext(directory=folder)), tmp_path) is None
    )


def test_the_page_has_each_chapter_in_order() -> None:
    table = PAGE.split("| chapter |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == [
        each.name for each in conformance.CHAPTERS
    ]


def test_every_check_has_a_promise_in_a_sentence_and_a_name_of_its_own() -> None:
    checks = [check for chapter in conformance.CHAPTERS for check in chapter.checks.items()]
    assert len({name for name, _ in checks}) == len(checks) == len(conformance.CHECKS)
    for name, check in checks:
        assert (check.__doc__ or "").split("\n\n")[0].rstrip().endswith("."), name


def test_every_name_of_the_public_module_is_there() -> None:
    assert sorted(backend_api.__all__) == sorted(set(backend_api.__all__))
    for name in backend_api.__all__:
        assert getattr(backend_api, name) is not None
