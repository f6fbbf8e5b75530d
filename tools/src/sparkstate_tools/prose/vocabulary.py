"""Which of proselint's own checks are off, and the words of this project that they take for faults."""

from __future__ import annotations

OFF = {
    "typography.symbols.curly_quotes": "quotation marks are straight, as in code",
    "typography.symbols.multiplication": "it takes the x of 0x00 for a sign",
    "needless_variants": "it knows `applier` as a needless `applicator`; here it is what applies a decision",
}
"""Paths of checks, and why they are off."""

KNOWN = {
    ("archaism", "for ever"),  # British, like the rest of the spelling
    ("lexical_illusions", "0x00 0x00"),  # two bytes
    ("lexical_illusions", "overlay overlay"),  # mount takes a type and a name
    ("lexical_illusions", "tmpfs tmpfs"),
    ("misc.phrasal_adjectives.ly", "exactly-"),  # exactly-once is the name of a guarantee
}
"""The path of a check, and words in lower case that it names although they are right here."""
