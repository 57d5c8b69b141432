"""Questions: names in quotes, and the string their last letters make.

Fresh questions are drawn from our own list of first names, so that they cannot have been in any
training data with their answers. The recorded ones, and your own, come from JSONL:

    {"id": "1", "names": ["Ian", "Peter", "Bernard", "Steven"]}
    {"id": "2", "question": "Take the last letters of each words in \\"…\\" …", "answer": "nrdn"}

>>> next(fresh(1, seed=0)).words  # doctest: +SKIP
('Alan', 'Ulrich', 'Boris', 'Wanda')
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from harness.errors import DataInvalid, nearest
from harness.tasks._rows import Row, rows, text_id, unique
from harness.tasks.last_letter.structure import LETTERS

NAMES = Path(__file__).with_name("names.txt")

READ = {"id", "idx", "names", "question", "answer"}
IGNORED = {"response", "correct", "predict", "parsed_result", "strict_regex", "flexible_regex"} | {
    "input_prompt"
}
"""Keys of a recorded answer that are not used here."""


class LetterQuestion(Struct, frozen=True):
    """A question.

    Attributes:
        text: The question's text.
        words: The names in it.
        label: The correct answer according to the data, in lower case.
    """

    id: str
    text: str
    words: tuple[str, ...]
    label: str

    @property
    def letters(self) -> str:
        """The last letters themselves, in lower case."""
        return last_letters(self.words)


def last_letters(words: tuple[str, ...]) -> str:
    """Return the answer to a question about these words.

    >>> last_letters(("Ian", "Peter"))
    'nr'
    """
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
    """Draw distinct questions; a larger n begins with the same ones.

    Args:
        n: Number of questions.
        seed: Seed of the drawing.
        avoid: Words of questions that must not be drawn (those of the shots).
    """
    drawn = set(avoid)
    for number in range(n):
        chance = random.Random(f"last_letter/{seed}/{number}")
        while (words := tuple(chance.sample(first_names(), LETTERS))) in drawn:
            pass
        drawn.add(words)
        yield of_words(f"seed{seed}/{number}", *words)


def read_questions(path: Path) -> Iterator[LetterQuestion]:
    """Read the questions of a file.

    Raises:
        DataInvalid: An item is malformed; the message names file and item.
        DataMissing: The file cannot be read.
    """
    return unique((where, _question(row, where)) for where, row in rows(path))


_QUOTED = re.compile(r'"([^"]+)"')


def _question(row: Row, where: str) -> LetterQuestion:
    for key in row:
        if key not in READ and key not in IGNORED:
            raise DataInvalid(f"{where}: unknown key {key!r:.60}.", nearest(key, READ))
    text, words = row.get("question"), row.get("names")
    if text is not None and not isinstance(text, str):
        raise DataInvalid(f"{where}: 'question' must be text.")
    if words is None:
        quoted = _QUOTED.search(text or "")
        if quoted is None:
            raise DataInvalid(
                f"{where}: needs 'names', or a 'question' with the words in double quotes."
            )
        words = quoted[1].split()
    if (
        not isinstance(words, list)
        or not words
        or not all(isinstance(word, str) and len(word.split()) == 1 for word in words)
    ):
        raise DataInvalid(f"{where}: the names must be a list of words.")
    listed = tuple(word.strip() for word in words)
    label = row.get("answer", last_letters(listed))
    if not isinstance(label, str) or not label:
        raise DataInvalid(f"{where}: 'answer' must be text.")
    name = text_id(row, row.get("idx", int(where.rpartition(" ")[2])), f"{where}: ")
    return LetterQuestion(name, text or asked(listed), listed, label.lower())
