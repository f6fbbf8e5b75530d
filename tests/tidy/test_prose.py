"""The linter of prose finds planted faults wherever it reads. `make check` runs it on this repository."""

from __future__ import annotations

import pytest

from sparkstate_tools.prose import main, rules, texts, wrapping

HEAD = "# A page\n\nThe driver commits.\n\n"
PLANTED = [
    ("headless", "What the slots left is removed by the next driver."),
    ("headless", "It ends. Who has no key runs no code."),
    ("of-what", "The driver learns of what was done."),
    ("of-what", "Drivers: by whom the state was claimed, the log says."),
    ("by-who", "The log says by who the state was claimed."),
    ("is-to", "The folder is to be made by the driver."),
    ("cleft", "It is the driver that commits."),
    ("also-when", "The thread answers also when the loop hangs."),
    ("archaic", "All files are kept but for the notes."),
    ("of-before", "An operator of before does not know the key."),
    ("else", "Slots lie beside the driver, in executors else."),
    ("he", "A stranger asks for as much as he likes."),
    ("has-not", "Nobody grants a right that the account has not."),
    ("is-no", "The note is no record."),
    ("stands-in", "The size stands in the handle."),
    ("waited-for", "The end of the pod is waited for."),
    ("praise", "This is easily done."),
    ("wordy", "The driver reads the log in order to claim."),
    ("long-sentence", "The slot " + "and the driver " * 14 + "wait."),
    ("lexical_illusions", "The slot sends the the rows."),
    ("weasel_words.very", "The file is very large."),
]


def found(text: str, name: str = "page.md") -> list[tuple[int, str]]:
    return [(line, rule.removeprefix("sparkstate.")) for line, rule, _ in main.faults(name, text)]


@pytest.mark.parametrize(("rule", "sentence"), PLANTED, ids=[sentence for _, sentence in PLANTED])
def test_a_planted_fault_is_found_in_its_line(rule: str, sentence: str) -> None:
    assert (5, rule) in found(HEAD + sentence + "\n")


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param("What does a restart cost? It costs a download.", id="question"),
        pytest.param("The driver has to make the folder, or to wait for it.", id="infinitive"),
        pytest.param("Nothing else, and nobody else.", id="else-behind-a-pronoun"),
        pytest.param("There is no lock, and the rest is no longer needed.", id="there-is-no"),
        pytest.param('The rule names "simply" and "of before".', id="quoted"),
        pytest.param("A state lives for ever.", id="vocabulary"),
        pytest.param("It knows `a` `b` `c`, and `what is` written in code: `who has not.`", id="code"),
    ],
)
def test_what_is_right_is_not_named(sentence: str) -> None:
    assert found(HEAD + sentence + "\n") == []


def test_code_blocks_comments_and_addresses_are_not_prose() -> None:
    page = "```\nWho is the the one.\n```\n<!-- What is no prose. -->\nSee [this](docs/what-is-no.md).\n"
    assert found(page) == []


def test_cells_of_a_table_and_titles_end_a_sentence() -> None:
    row = "| the folder of a job and of its slots on the disk | " * 5 + "|\n"
    assert found(f"## How a folder is made\n\n{row}") == []
    assert found("| a | b |\n|---|---|\n| it waits | Who asks later waits too |\n") == [(3, "headless")]


MODULE = """\
@dataclass
class Slot:
    {quotes}Runs a store.

    {docstring}
    {quotes}

    name: str
    {quotes}{attribute}{quotes}
    rows: int = Field(default=0, description="{description}")

    def read(self) -> None:
        {quotes}{first}

        It stops. {second}
        {quotes}
        logger.warning(
            f"slot {{self.name}} is down; "
            "{message}"
        )
"""
PLACES = {
    "docstring": (5, "He waits."),
    "attribute": (9, "What people see."),
    "description": (10, "What the slot holds, in bytes."),
    "first": (13, "Who calls waits."),
    "second": (15, "What is read goes."),
    "message": (19, "the end of the commit is waited for"),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_text_of_a_module_is_read_and_its_line_is_named(place: str) -> None:
    plain = dict.fromkeys(PLACES, "It waits.") | {"quotes": '"""'}
    assert found(MODULE.format(**plain), "module.py") == []
    line, planted = PLACES[place]
    assert [where for where, _ in found(MODULE.format(**plain | {place: planted}), "module.py")] == [line]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("# What is a comment is easily read.", id="comment"),
        pytest.param('SHAPE = r"What of before is easily found"', id="pattern"),
        pytest.param('PAGE = """Who reads this page easily finds it."""', id="template"),
        pytest.param('NAMES = ("what", "Who asks")', id="fewer-than-three-words"),
        pytest.param('SAID = f"It took {cost(easy)} seconds."', id="value-filled-in"),
        pytest.param('def run():\n    """Runs::\n\n        What is easily run\n    """', id="example"),
        pytest.param('A = "one of the words", "words of the other"', id="two-strings-are-two-sentences"),
    ],
)
def test_what_is_no_prose_in_a_module_is_not_read(line: str) -> None:
    assert found(f"{line}\n", "module.py") == []


def test_adjacent_strings_are_one_sentence() -> None:
    message = 'raise Refused(\n    f"{name!r} was opened by "\n    "who does not own it; close it"\n)\n'
    assert found(message, "module.py") == [(2, "by-who")]


@pytest.mark.parametrize(
    ("docstring", "orphan"),
    [
        pytest.param("Reads the log of a job from the storage to its\n    end.", True, id="docstring"),
        pytest.param(
            "Reads.\n\n    A log has an end that moves while it is\n    read again.\n    ", True, id="inner"
        ),
        pytest.param(
            "Reads:\n\n    - the log of a job\n      twice\n    - the rest of it all\n", True, id="item"
        ),
        pytest.param("Reads the log of a job from the storage\n    to its end.", False, id="three-words"),
        pytest.param("Ends.", False, id="one-line"),
        pytest.param("Reads::\n\n        log = open()\n        log.read()\n", False, id="example"),
        pytest.param("Reads:\n\n    >>> read()\n    1 of two\n    2 of two\n", False, id="output"),
        pytest.param("Reads:\n\n    ==  ====\n    0   gone\n    ==  ====\n", False, id="table"),
    ],
)
def test_a_last_line_of_a_docstring_has_three_words(docstring: str, orphan: bool) -> None:
    module = f'def read():\n    """{docstring}"""\n'
    assert [rule for _, rule in found(module, "module.py")] == ["orphan"] * orphan


def test_an_orphan_is_named_with_its_line() -> None:
    module = 'SIZE = 1\n"""How many rows a slot takes before it asks its driver for\nmore rows."""\n'
    assert list(wrapping.orphans(module)) == [(3, "more rows.")]
    assert found(module, "module.py") == [(3, "orphan")]


def test_prose_keeps_its_lines_and_its_columns() -> None:
    page = "One `two` three.\n\n```\nfour\n```\nFive [six](seven) eight.\n"
    prose = texts.markdown(page)
    assert [len(line) for line in prose.split("\n") if line] == [
        len("One `two` three."),
        len(page.split("\n")[5]),
    ]
    assert prose.split("\n")[5].startswith("Five [six]")


def test_every_rule_has_its_planted_fault() -> None:
    planted = {rule for rule, _ in PLANTED}
    assert {check.path.removeprefix("sparkstate.") for check in rules.ALL} <= planted


@pytest.mark.parametrize(
    "name", ["docs/faults.md", "docs/rest-api.md", "tools/src/sparkstate_tools/prose/main.py"]
)
def test_generated_pages_and_the_tools_are_read(name: str) -> None:
    assert main.ROOT / name in main.files()


def test_a_page_that_is_left_out_is_there_and_has_its_reason() -> None:
    assert [
        name for name, reason in main.ELSEWHERE.items() if not (main.ROOT / name).exists() or not reason
    ] == []


def test_the_command_prints_the_place_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    page = main.ROOT / "build" / "planted.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text("The end is waited for.\n")
    try:
        assert main.main([str(page)]) == 1
    finally:
        page.unlink()
    assert capsys.readouterr().out.startswith("build/planted.md:1: sparkstate.waited-for: «is waited for»")
