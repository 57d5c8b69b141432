"""Questions: names in quotes, and the letters that their last ones make.

Fresh ones are drawn from our own list of first names, so that none can have been in anybody's
training data with its answer; the recorded ones, and a user's own, come from JSONL:

    {"id": "1", "names": ["Ian", "Peter", "Bernard", "Steven"]}
    {"id": "2", "question": "Take the last letters of each words in \\"…\\" …", "answer": "nrdn"}

>>> next(fresh(1, seed=0)).words  # doctest: +SKIP
('Alan', 'Ulrich', 'Boris', 'Wanda')
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid, nearest
from harness.tasks.last_letter.structure import LETTERS

NAMES = Path(__file__).with_name("names.txt")

READ = {"id", "idx", "names", "question", "answer"}
RECORDED = {"response", "correct", "predict", "parsed_result", "strict_regex", "flexible_regex"}
"""Of a recorded answer, and not needed here; nor is its ``input_prompt``."""


class Question(Struct, frozen=True):
    """A question.

    text: as it is asked.
    label: the right answer as the data gives it, in lower case.
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
    """The answer to a question about these words.

    >>> last_letters(("Ian", "Peter"))
    'nr'
    """
    return "".join(word[-1] for word in words).lower()


def asked(words: tuple[str, ...]) -> str:
    """The question about these words, as in the paper (with its "each words")."""
    return f'Take the last letters of each words in "{" ".join(words)}" and concatenate them.'


def reasoning(words: tuple[str, ...]) -> str:
    """How the answer is come by, in the words of the paper's shot."""
    steps = " ".join(f'The last letter of "{word}" is "{word[-1].lower()}".' for word in words)
    return f'{steps} Concatenating them is "{last_letters(words)}".'


def of_words(name: str, *words: str) -> Question:
    """A question about these words, with the right answer."""
    return Question(name, asked(words), words, last_letters(words))


@cache
def first_names() -> tuple[str, ...]:
    """Our own list: one word each, letters only."""
    return tuple(NAMES.read_text("utf-8").split())


def fresh(n: int, seed: int, avoid: frozenset[tuple[str, ...]] = frozenset()) -> Iterator[Question]:
    """Questions of different names, no two alike; the first of more are the same.

    avoid: words of questions that are not to be drawn (those of the shots).
    """
    drawn = set(avoid)
    for number in range(n):
        chance = random.Random(f"last_letter/{seed}/{number}")
        while (words := tuple(chance.sample(first_names(), LETTERS))) in drawn:
            pass
        drawn.add(words)
        yield of_words(f"seed{seed}/{number}", *words)


def read_questions(path: Path) -> Iterator[Question]:
    """The questions of a file.

    Raises: DataInvalid, naming file and item; DataMissing.
    """
    seen: set[str] = set()
    number = 0
    for number, row in enumerate(read_jsonl(path), start=1):
        found = _question(row, number, f"{path}, item {number}")
        if found.id in seen:
            raise DataInvalid(f"{path}, item {number}: the id {found.id!r:.80} comes twice.")
        seen.add(found.id)
        yield found
    if not number:
        raise DataInvalid(f"{path} holds no questions.", 'Write {"names": […]}, one to a line.')


_QUOTED = re.compile(r'"([^"]+)"')


def _question(row: Mapping[str, Any], number: int, where: str) -> Question:
    for key in row:
        if key not in READ and key not in RECORDED and key != "input_prompt":
            raise DataInvalid(f"{where}: unknown key {key!r:.60}.", nearest(key, READ))
    name = row.get("id", row.get("idx", number))
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        raise DataInvalid(f"{where}: 'id' must be a text or a whole number.")
    text, words = row.get("question"), row.get("names")
    if text is not None and not isinstance(text, str):
        raise DataInvalid(f"{where}: 'question' must be a text.")
    if words is None:
        quoted = _QUOTED.search(text or "")
        if quoted is None:
            raise DataInvalid(
                f"{where}: neither 'names' nor a 'question' with the words in double quotes."
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
        raise DataInvalid(f"{where}: 'answer' must be a text.")
    return Question(str(name), text or asked(listed), listed, label.lower())
