"""The 13 constraint structures of COLLIE-v1, and how the paper groups them (arXiv 2307.08689).

The published constraints do not say what level of text to generate; the structure's name does.

>>> level_of("sent03")
'sentence'
"""

from __future__ import annotations

from harness.ports import Effect
from harness.scoring.constraints.grammar import Level

LEVEL_OF_PREFIX: dict[str, Level] = {
    "word": "word",
    "sent": "sentence",
    "para": "paragraph",
    "pass": "passage",
}

STRUCTURES = {
    "word01": "at least n characters",
    "word02": "exactly n characters, of which the 4th, 8th and 11th are given",
    "word03": "exactly n characters, of which the last is given",
    "sent01": "exactly n characters",
    "sent02": "exactly n words, of which the 4th, 8th and 11th are given",
    "sent03": "at least n words of at most m characters",
    "sent04": "contains three given words",
    "para01": "every sentence begins with a given word",
    "para02": "exactly n sentences without any of three given words",
    "para03": "exactly n sentences of at least m and at most k words",
    "para04": "at least n sentences of at least m words",
    "para05": "exactly n sentences that end in given words",
    "pass01": "paragraphs that end in given sentences and have at least n of them",
}
"""Name -> what it asks (table 1)."""


EFFECTS: tuple[Effect, ...] = (
    Effect(
        name="position_effect",
        label="structure",
        levels={
            "arbitrary": ("word02", "sent02"),
            "first": ("para01",),
            "last": ("word03", "para05", "pass01"),
        },
        source="Yao et al. 2023, arXiv 2307.08689, section 5",
    ),
    Effect(
        name="counting_level_effect",
        label="structure",
        levels={
            "characters in a word": ("word01",),
            "characters in a sentence": ("sent01",),
            "words in a sentence, characters in each": ("sent03",),
            "sentences in a paragraph, words in each": ("para03", "para04"),
        },
        source="Yao et al. 2023, arXiv 2307.08689, section 5",
    ),
)
"""Section 5 asks where in a text a constraint applies, and which unit is counted in which.

A structure that is about neither belongs to no level.
"""


def level_of(structure: str) -> Level | None:
    """Return the level of text that a structure asks for, or None for an unknown name."""
    return LEVEL_OF_PREFIX.get(structure[:4])
