"""In which ways an answer fails, told by rules: more than was asked for, the input again, no label.

After the error analysis of Mishra et al. 2022: redundant content, and not doing what the
instruction says. Each rule is a score of its own without a verdict, so that its mean over answers
is the share that fails in that way; an answer may fail in several, and in none that is told here.

>>> failures("Yes.\\n\\ninput: Is it?", right=False, references=["yes"], source="Was it?")
{'redundant': True, 'goes_on': True, 'copies_input': False}
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.scoring.overlap.match import bare
from harness.scoring.overlap.rouge_l import covered
from harness.scoring.truncation import first_line
from harness.tasks.natural_instructions.schema import TEXT_FIELDS

COPIED = 0.9
"""Share of an answer's words that are the input's, in their order: above it, it is a copy."""
SHORTEST_COPY = 4
"""Words: shorter answers are often words of the input, and rightly so."""

_FIELDS = "|".join([*map(re.escape, TEXT_FIELDS), "input", "output", r"(?:posi|nega)tive example"])
_NEXT = re.compile(rf"^[ \t]*(?:{_FIELDS})\d*[ \t]*[:-]", re.IGNORECASE | re.MULTILINE)


def failures(text: str, *, right: bool, references: Sequence[str], source: str) -> dict[str, bool]:
    """Which rules an answer fails.

    right: whether the whole answer is a reference; then it fails none.
    source: the input.

    redundant: it begins with a right answer, and more follows.
    goes_on: it begins another field or instance of the prompt.
    copies_input: nearly all of it is the input again, where that is no right answer.
    """
    if right:
        return dict.fromkeys(("redundant", "goes_on", "copies_input"), False)
    return {
        "redundant": _begins_right(text, references),
        "goes_on": _NEXT.search(text) is not None,
        "copies_input": _is_copy(first_line(text), source)
        and not any(_is_copy(reference, source) for reference in references),
    }


def _begins_right(text: str, references: Sequence[str]) -> bool:
    said = text.strip().lower()
    for reference in map(bare, references):
        if reference and said.startswith(reference) and not said[len(reference) :][:1].isalnum():
            return bool(re.search(r"\w", said[len(reference) :]))
    return False


def _is_copy(text: str, source: str) -> bool:
    words, common = covered(text, source)
    return words >= SHORTEST_COPY and common >= COPIED * words
