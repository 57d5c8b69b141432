"""What COLLIE's paper arranges its structures by, for the pictures of a report.

Section 5 of arXiv 2307.08689 asks where in a text a constraint bites and what
has to be counted in what. A structure that is about neither is in no level.
"""

from __future__ import annotations

from harness.ports import Effect

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
"""Where a given unit stands, and what is counted in what."""
