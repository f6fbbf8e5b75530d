"""The glossary has every noun that a module or a class is called by, once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from support.repository import tree

PAGE = (tree.ROOT / "docs" / "GLOSSARY.md").read_text()
PACKAGES = (tree.ENGINE, tree.OPERATOR, tree.SPEC, tree.TOOLS)

EXPLAINED = ("Flink, Spark, sparkstate", "Our own words")
"""Sections that explain ideas. A word there needs no module or class of its name."""
BY_ROOM = "Terms by room"
LISTS = (
    "Words of Python",
    "Words of Spark",
    "Words of Flink",
    "Words of Kubernetes",
    "Words of storage and operating systems",
    "Plain words",
    "What the machinery does",
    "What has become of a thing",
)

_WORD = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")
_PREPOSITIONS = {"at", "by", "from", "in", "of", "up", "with"}
_UNNAMED = {"__init__", "__main__"}


def head(name: str) -> str:
    """The last word of a name: ``coordinator`` of ``CheckpointCoordinator``, ``proxy`` of ``fault_proxy``; a
    preposition together with the word before it (``built-in``)."""
    words = [word.lower() for word in _WORD.findall(name)]
    return "-".join(words[-2:]) if words[-1] in _PREPOSITIONS else str(words[-1])


def singulars(noun: str) -> Iterator[str]:
    """The noun as it is, then what it may be the plural of."""
    yield noun
    for plural, singular in (("ies", "y"), ("es", ""), ("s", ""), ("ren", "")):
        if noun.endswith(plural):
            yield noun.removesuffix(plural) + singular


@cache
def named() -> Mapping[str, list[str]]:
    """Head nouns of all modules and top-level classes, each with the names that it ends."""
    found: dict[str, list[str]] = {}
    for path in (path for package in PACKAGES for path in tree.files(".py", below=package)):
        classes = [one.name for one in tree.parsed(path).body if isinstance(one, ast.ClassDef)]
        for name in (path.stem, *classes):
            if name not in _UNNAMED:
                found.setdefault(head(name), []).append(f"{tree.name(path)}: {name}")
    return found


def sections(page: str) -> Mapping[str, str]:
    """The text of each section by its heading."""
    _, *parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def rows(text: str) -> Iterator[list[str]]:
    """The cells of a table's rows, without heading and rule."""
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        for line in table.strip().split("\n")[2:]:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def terms(cell: str) -> Iterator[str]:
    """The head nouns of what a cell, or the bold words before a definition, explain."""
    for term in re.split(r"[,;]", re.sub(r"`[^`]*/`", "", cell)):
        words = re.findall(r"\w+", term)
        if words:
            yield head(words[-1])


def explained(page: str) -> set[str]:
    """Head nouns of the sections that explain ideas."""
    texts = sections(page)
    cells = [cell for row in rows(texts[EXPLAINED[0]]) for cell in row[:-1]]
    bold = [one.rstrip(".") for one in re.findall(r"\*\*(.+?)\*\*", texts[EXPLAINED[1]])]
    return {noun for cell in (*cells, *bold) for noun in terms(cell)}


def listed(page: str) -> list[str]:
    """Every word of the tables by room and of the lists, as often as the page has it."""
    texts = sections(page)
    words = [row[0] for row in rows(texts[BY_ROOM])]
    for heading in LISTS:
        words += re.findall(r"[\w-]+", texts[heading].split("```")[1].removeprefix("text"))
    return words


def missing(nouns: Mapping[str, list[str]], page: str) -> Mapping[str, list[str]]:
    """Nouns of names that the page does not have, with the names."""
    known = {*explained(page), *listed(page)}
    return {noun: places for noun, places in nouns.items() if known.isdisjoint(singulars(noun))}


def unused(nouns: Iterable[str], page: str) -> list[str]:
    """Listed words that no name has. A plural that is listed itself does not count for its singular."""
    words = set(listed(page))
    used = {next((one for one in singulars(noun) if one in words), "") for noun in nouns}
    return sorted(words - used)


def doubled(page: str) -> list[str]:
    """Words that the page has in more than one place."""
    counts = Counter([*listed(page), *explained(page)])
    return sorted(word for word, count in counts.items() if count > 1)


def without_meaning(page: str) -> list[str]:
    """Terms by room that have no meaning, or one that ends like a sentence."""
    return [term for term, meaning in rows(sections(page)[BY_ROOM]) if not meaning or meaning.endswith(".")]


def test_every_noun_of_a_name_is_in_the_glossary() -> None:
    assert missing(named(), PAGE) == {}, (
        "define it in docs/GLOSSARY.md, or name the thing by a word that is there"
    )


def test_every_listed_word_is_a_noun_of_some_name() -> None:
    assert unused(named(), PAGE) == [], "take them out of docs/GLOSSARY.md"


def test_no_word_has_two_places() -> None:
    assert doubled(PAGE) == []


def test_every_term_has_a_meaning() -> None:
    assert without_meaning(PAGE) == []


def test_the_names_are_read() -> None:
    assert len(named()) > 500 and sum(map(len, named().values())) > 1_200


def test_the_last_word_of_a_name_is_its_noun() -> None:
    names = ("CheckpointCoordinator", "fault_proxy", "_S3Upload", "DNS", "HTTPServer", "s3server", "built_in")
    assert [head(name) for name in names] == [
        "coordinator", "proxy", "upload", "dns", "server", "server", "built-in",
    ]  # fmt: skip


PLANTED = """# Glossary

## Flink, Spark, sparkstate

| Flink | Spark | here | meaning |
|---|---|---|---|
| key group | – | **key group**, `OutputTag` | where a key belongs |

## Our own words

- **Base, floor.** A base is a checkpoint of the log.

## Terms by room

| term | meaning |
|---|---|
| lane | a thread |
""" + "".join(f"\n## {heading}\n\n```text\n{index}word\n```\n" for index, heading in enumerate(LISTS))
WORDS = [f"{index}word" for index in range(len(LISTS))]


def test_a_noun_that_no_part_of_the_page_has_is_found() -> None:
    nouns = {noun: ["x.py"] for noun in ("groups", "tag", "floor", "lanes", "bakery", *WORDS)}
    assert missing(nouns, PLANTED) == {"bakery": ["x.py"]}


def test_a_listed_word_that_no_name_has_is_found() -> None:
    assert unused(["lanes", *WORDS], PLANTED) == []
    assert unused(["groups", *WORDS[1:]], PLANTED) == ["0word", "lane"]


def test_a_word_in_two_places_is_found() -> None:
    assert doubled(PLANTED) == []
    assert doubled(PLANTED.replace("7word", "0word, floor")) == ["0word", "floor"]


def test_a_term_without_a_meaning_is_found() -> None:
    assert without_meaning(PLANTED.replace("a thread", "")) == ["lane"]
