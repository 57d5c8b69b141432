"""The prompt: the task, the form of the answer, examples, the question; and a check of all four.

The recorded prompt of the paper is reproduced byte for byte; its form and example match neither
parser nor questions. Prompts that differ in form have everything else in common. Mismatches are
found by running the parser over the form as the prompt describes it, filled in with a correct
answer, and over the examples that the prompt shows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from harness.errors import Unparseable
from harness.tasks.last_letter.questions import LetterQuestion, of_words, reasoning
from harness.tasks.last_letter.structure import LETTERS, Form, Parser, TextForm

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
    """Return what to say of questions that have more or fewer words than letters are read."""
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
