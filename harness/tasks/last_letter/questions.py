"""Questions (names in quotes, and the string their last letters make), and prompts with them.

Fresh questions are drawn from our own list of first names, so that they cannot have been in any
training data with their answers. The recorded ones, and your own, come from JSONL:

    {"id": "1", "names": ["Ian", "Peter", "Bernard", "Steven"]}
    {"id": "2", "question": "Take the last letters of each words in \\"…\\" …", "answer": "nrdn"}

The recorded prompt of the paper is reproduced byte for byte; its form and example match neither
parser nor questions. Prompts that differ in form have everything else in common. Mismatches are
found by running the parser over the form as the prompt describes it, filled in with a correct
answer, and over the examples that the prompt shows.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from harness.errors import DataInvalid, Unparseable
from harness.tasks._rows import Row, converted, rows, text_id, unique
from harness.tasks.last_letter.structure import LETTERS, Form, Parser, TextForm

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
    """Draw n distinct questions without the words to avoid; a larger n only adds questions."""
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


TASK = """Follow the instruction to complete the task:
String manipulation task:
• Given: A sequence of words
• Required: A new string made from the last letter of each word
• Process: Think step by step to solve this challenge
Note: Ensure you've read the question thoroughly before beginning.


Instruct : Provide your output in the following text format:
"""
"""From "Let Me Speak Freely?" (arXiv 2408.02442), as recorded in dottxt-ai/demos."""
MOST_NAMED = 8
"""How many ids a message names."""
EXAMPLES = "\n\n\nHere are some examples:\n"

PAPER_FORM = "Answer: <think step by step>. The final answer is <answer>"
PAPER_SHOT_QUESTION = (
    'Take the last letters of the words in "Elon Musk" and concatenate them.'  # not "each words"
)
PAPER_SHOT_ANSWER = (
    'Answer: The last letter of "Elon" is "n". The last letter of "Musk" is "k". '
    'Concatenating them is "nk".. The answer is nk.'
)

SHOTS = (
    of_words("shot/0", "Ian", "Peter", "Bernard", "Stephen"),
    of_words("shot/1", "Larry", "Carol", "Luke", "Hugo"),
    of_words("shot/2", "Ruth", "Marcus", "Olga", "Felix"),
    of_words("shot/3", "Kofi", "Ingrid", "Yusuf", "Zoe"),
    of_words("shot/4", "Dorothy", "Emil", "Priya", "Scott"),
    of_words("shot/5", "Nora", "Jakub", "Sven", "Alice"),
    of_words("shot/6", "Oscar", "Mei", "Ludwig", "Clara"),
    of_words("shot/7", "Hannah", "Tariq", "Paul", "Eric"),
)
"""The task's own shots, with as many names as a question has."""


class PromptExample(NamedTuple):
    """A worked example: a question, and its answer as the prompt writes it."""

    question: LetterQuestion
    answer: str


PAPER_EXAMPLE = PromptExample(
    LetterQuestion("paper", PAPER_SHOT_QUESTION, ("Elon", "Musk"), "nk"), PAPER_SHOT_ANSWER
)


def written(question: LetterQuestion, form: Form) -> PromptExample:
    """Write a question with its answer in a form."""
    return PromptExample(question, form.write(reasoning(question.words), question.label))


def render(described: str, examples: Sequence[PromptExample], question: str) -> str:
    """Render the prompt: the form in words, the examples, and the question's text."""
    shown = "".join(f"Question: {one.question.text}\n{one.answer}\n" for one in examples)
    before = EXAMPLES if examples else "\n\n\n"
    return f"{TASK}{described}{before}{shown}Question: {question}"


def content(examples: Sequence[LetterQuestion]) -> str:
    """Hash what the prompts say apart from the answer's form."""
    parts = [TASK, *(f"{shot.text}={shot.label}" for shot in examples)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def form_errors(described: str, form: Form, parser: Parser) -> list[str]:
    """List what is wrong with the text form that a prompt describes.

    The description of a JSON object is not itself JSON, so it is not checked.
    """
    if not isinstance(form, TextForm):
        return []
    steps = reasoning(SHOTS[0].words).removesuffix(".")
    answer = SHOTS[0].label
    filled = re.sub(r"<[^<>]*>", lambda _: steps, described, count=1)
    filled = re.sub(r"<[^<>]*>", answer, filled)
    found = []
    if not _reads(parser, filled, answer):
        found.append(f"The parser cannot read the prompt's form {described!r} filled in.")
    if not form.holds(filled):
        found.append(
            f"The prompt's form {described!r} is not the one that constrained decoding writes, "
            f"{form.described!r}."
        )
    return found


def example_errors(
    examples: Sequence[PromptExample], words: int, form: Form, parser: Parser
) -> list[str]:
    """List what is wrong with the examples of a prompt; questions have ``words`` names."""
    found = []
    for shown, answer in examples:
        name = f"The prompt's example ({' '.join(shown.words)})"
        if len(shown.words) != words:
            found.append(f"{name} has {len(shown.words)} words; the questions have {words}.")
        if not _reads(parser, answer, shown.label):
            found.append(f"{name} answers {shown.label!r}, which the parser does not read.")
        if not form.holds(answer):
            found.append(f"{name} is not what constrained decoding can write.")
    return found


def length_errors(questions: Sequence[LetterQuestion]) -> list[str]:
    """Return an error if questions have more or fewer words than the parser reads letters."""
    others = [question.id for question in questions if len(question.words) != LETTERS]
    if not others:
        return []
    named = ", ".join(others[:MOST_NAMED]) + ("…" if len(others) > MOST_NAMED else "")
    return [
        f"{len(others)} of {len(questions)} questions do not have {LETTERS} words, and the parser "
        f"reads {LETTERS} letters: {named}."
    ]


def _reads(parser: Parser, text: str, letters: str) -> bool:
    try:
        return parser.read(text).letters == letters
    except Unparseable:
        return False
