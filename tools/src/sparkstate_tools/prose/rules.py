"""The list of faults. Most rules are a pattern: German word order and abstract passives have a few known shapes.

A rule asks for another sentence, not for another word in the place of the one that it names. Where a sentence
is right all the same, write it otherwise: there is no comment that switches a rule off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from proselint.registry.checks import Check, CheckResult, types
from proselint.registry.checks.engine import Fancy, RegexOptions

LONGEST_SENTENCE = 40  # words; code counts as one. Flowing text of kopf and trio stays below 35 nearly always
_PATTERNS = Fancy(RegexOptions(case_insensitive=False, multi_line=True))

# A sentence, an item of a list or a cell of a table begins here.
_START = r"(?:^[-*>]?\x20?|(?<=[.;:!?] )|(?<=¦ )|(?<=\*\* )|(?<=\]\. ))"
_WORD = r"[A-Za-z][A-Za-z'’-]*|`_+`|\d[\d.,]*"
_BREAK = re.compile(r"[.?!;:](?=[\s)*¦]|$)|¦|\n\s*\n|\n\s*(?:[-*]|\d+\.) ")


def pattern(name: str, shape: str, message: str) -> Check:
    """A rule that finds one shape of words, which may go over the end of a line; lower and upper case differ."""
    return Check(
        path=f"sparkstate.{name}",
        check_type=types.ExistenceSimple(pattern=shape.replace(" ", r"[ \n]")),
        engine=_PATTERNS,
        message=message,
    )


def long_sentences(text: str, check: Check) -> Iterator[CheckResult]:
    """Each stretch between two breaks that has more than ``LONGEST_SENTENCE`` words, lists of names left out."""
    begin = 0
    for end in [*_BREAK.finditer(text), None]:
        stop = end.start() if end else len(text)
        found = re.findall(_WORD, text[begin:stop])
        names = sum(word.startswith("`") for word in found)
        if len(found) > LONGEST_SENTENCE and names * 3 < len(found):
            head = begin + len(text[begin:stop]) - len(text[begin:stop].lstrip())
            yield CheckResult(check.path, check.message.format(len(found)), (head, stop), None)
        begin = end.end() if end else stop


HEADLESS = pattern(
    "headless",
    _START + r"(?:Who|What|Whose) (?![^.?!¦]*\?)[^.?!¦]*",
    "«{}»: no question begins like this; name the thing (the driver that …, the files that …)",
)
OF_WHAT = pattern(
    "of-what",
    r"\b(?:of|from|by|to|with|for|on|in) what (?:is|are|was|were|has|have|lies|stands|comes?|goes)\b|"
    r"(?:^|[.;:!?¦(—–] ?)(?:[Oo]f|[Bb]y|[Ff]rom|[Tt]o|[Ff]or|[Ww]ith) whom\b",
    "«{}»: name the thing or the person",
)
BY_WHO = pattern(
    "by-who",
    r"\b(?:of|from|by|to|with|for|on|than) who\b",
    "«{}»: name the person or the program",
)
IS_TO = pattern(
    "is-to",
    r"\b(?:is|are|was|were) to (?:be|lie|stay|go|begin|start|end|take|call|run|reach|read|come|stand|hold)\b",
    "«{}»: German «ist zu»; write must, has to, should, or the active voice",
)
CLEFT = pattern(
    "cleft",
    r"\b[Ii]t is (?:not |only )?(?:the|a|an) \w+ (?:that|which|who)\b",
    "«{}»: begin with the subject",
)
ALSO = pattern(
    "also-when",
    r"\b[Aa]lso (?:when|if|where|while|without|one that|those)\b",
    "«{}»: German «auch wenn»; write even when, or begin a sentence",
)
ARCHAIC = pattern(
    "archaic",
    r"\b(?:but for|lest|there(?:of|in|upon|with)|where(?:of|in|upon)|hither|in its stead)\b",
    "«{}»: write except, so that … not, in it, instead",
)
OF_BEFORE = pattern(
    "of-before",
    r"\bof (?:before|then)\b",
    "«{}»: German «von vorher»; write earlier, from before, or which one",
)
ELSE = pattern(
    "else",
    r"(?<!\s)(?<!thing)(?<!body)(?<!where)(?<!one)(?<!what)(?<!who)\s+else(?=[.;,)])",
    "«{}»: write otherwise, and put it first",
)
HE = pattern("he", r"\b(?:[Hh]e|[Ss]he|him)\b", "«{}»: programs are it, people are they or you")
HAS_NOT = pattern("has-not", r"\b(?:has|have|had) not(?=[.,;])", "«{}»: write does not")
IS_NO = pattern(
    "is-no",
    r"(?<![Tt]here )\b(?:is|are|was|were) (?:none|no (?!longer|more|one|such|place|room|need|way)[a-z]+)",
    "«{}»: German «ist kein»; write is not a",
)
STANDS = pattern(
    "stands-in",
    r"\b[Ss]tands? (?:in|there|here|on|at) (?!the way|for\b)",
    "«{}»: German «steht in»; a page says, a file lists, a folder holds",
)
WAITED_FOR = pattern(
    "waited-for",
    r"\b(?:is|are|was|were) (?:waited|gone|listened|spoken) (?:for|on|to)\b|\bas (?:is|was) (?:said|told|waited)\b",
    "«{}»: say who waits",
)
PRAISE = pattern(
    "praise",
    r"\b(?:[Ss]imply|[Oo]bviously|[Ee]asily|[Ee]asy|[Oo]f course)\b",
    "«{}» helps no reader for whom it did not work",
)
WORDY = pattern(
    "wordy",
    r"\b(?:[Ii]n order to|[Dd]ue to the fact that|[Ww]ith regards? to|[Ii]n the event that|[Aa]t all times|"
    r"[Pp]rior to|[Ii]t should be noted that|[Tt]he fact that|[Ii]n case of)\b",
    "«{}»: fewer words say it",
)
LONG = Check(
    path="sparkstate.long-sentence",
    check_type=long_sentences,
    engine=_PATTERNS,
    message=f"{{}} words without a full stop; {LONGEST_SENTENCE} are enough",
)

ALL = (
    *(
        HEADLESS,
        OF_WHAT,
        BY_WHO,
        IS_TO,
        CLEFT,
        ALSO,
        ARCHAIC,
        OF_BEFORE,
        ELSE,
        HE,
        HAS_NOT,
        IS_NO,
        STANDS,
        WAITED_FOR,
    ),
    *(PRAISE, WORDY, LONG),
)
