"""Questions: names in quotes, and the string their last letters make.

Fresh questions are drawn from our own list of first names, so that they cannot have been in any
training data with their answers. The recorded ones, and your own, come from JSONL:

    {"id": "1", "names": ["Ian", "Peter", "Bernard", "Steven"]}
    {"id": "2", "question": "Take the last letters of each words in \\"…\\" …", "answer": "nrdn"}
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from harness.errors import DataInvalid
from harness.tasks._rows import Row, converted, rows, text_id, unique
from harness.tasks.last_letter.structure import LETTERS

NAMES = Path(__file__).with_name("names.txt")

IGNORED = (
    *("response", "correct", "predict", "parsed_result", "strict_regex", "flexible_regex"),
    "input_prompt",
)
"""Keys of a recorded answer that are not used here."""


class LetterQuestion(Struct, frozen=True):
    """A question, the names in it, and the correct answer according to the data, in lower case."""

    id: str
    text: str
    words: tuple[str, ...]
    label: str

    @property
    def letters(self) -> str:
        """The last letters themselves, in lower case."""
        return last_letters(self.words)


class _Row(Struct):
    id: Any = None
    idx: Any = None
    names: (
        Annotated[tuple[Annotated[str, Meta(pattern=r"^\s*\S+\s*$")], ...], Meta(min_length=1)]
        | None
    ) = None
    question: str | None = None
    answer: Annotated[str, Meta(min_length=1)] | None = None


def last_letters(words: tuple[str, ...]) -> str:
    """Return the answer to a question about these words: ``nr`` for Ian and Peter."""
    return "".join(word[-1] for word in words).lower()


def asked(words: tuple[str, ...]) -> str:
    """Return the question about these words, worded as in the paper (with its "each words")."""
    return f'Take the last letters of each words in "{" ".join(words)}" and concatenate them.'


def reasoning(words: tuple[str, ...]) -> str:
    """Return the steps to the answer, worded as in the paper's shot."""
    steps = " ".join(f'The last letter of "{word}" is "{word[-1].lower()}".' for word in words)
    return f'{steps} Concatenating them is "{last_letters(words)}".'


def of_words(name: str, *words: str) -> LetterQuestion:
    """Return a question with this id about these words, and the correct answer."""
    return LetterQuestion(name, asked(words), words, last_letters(words))


@cache
def first_names() -> tuple[str, ...]:
    """Our own list of names: one word each, letters only."""
    return tuple(NAMES.read_text("utf-8").split())


def fresh(
    n: int, seed: int, avoid: frozenset[tuple[str, ...]] = frozenset()
) -> Iterator[LetterQuestion]:
    """Draw n distinct questions, none with the words to avoid; a larger n begins with the same."""
    drawn = set(avoid)
    for number in range(n):
        chance = random.Random(f"last_letter/{seed}/{number}")
        while (words := tuple(chance.sample(first_names(), LETTERS))) in drawn:
            pass
        drawn.add(words)
        yield of_words(f"seed{seed}/{number}", *words)


def read_questions(path: Path) -> Iterator[LetterQuestion]:
    """Read the questions of a file."""
    return unique((where, _question(row, where)) for where, row in rows(path))


def _question(raw: Row, where: str) -> LetterQuestion:
    row = converted(raw, _Row, where, IGNORED)
    quoted = re.search(r'"([^"]+)"', row.question or "")
    words = row.names or tuple(quoted[1].split() if quoted else ())
    if not words:
        raise DataInvalid(
            f"{where}: needs 'names', or a 'question' with the words in double quotes."
        )
    words = tuple(word.strip() for word in words)
    name = text_id(raw, raw.get("idx", int(where.rpartition(" ")[2])), f"{where}: ")
    label = (row.answer or last_letters(words)).lower()
    return LetterQuestion(name, row.question or asked(words), words, label)
