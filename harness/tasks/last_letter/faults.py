"""Where prompt, structure, parser and questions of the last-letter task do not fit together.

Each is found by running the parser: over the form as the prompt describes it, filled in with a
right answer, and over the examples that the prompt shows.

>>> form_faults("Answer: <think step by step>. The final answer is <answer>", FREE, strict)
["The prompt's form reads '… The final answer is <answer>', which decoding under the constraint
cannot write: it writes '… The answer is <the 4 letters>'."]
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.errors import Unparseable
from harness.tasks.last_letter.prompt import SHOTS, Example
from harness.tasks.last_letter.questions import Question, reasoning
from harness.tasks.last_letter.structure import LETTERS, Form, Parser, TextForm

MOST_NAMED = 8
"""Ids that a fault names."""


def form_faults(described: str, form: Form, parser: Parser) -> list[str]:
    """What is wrong with the form that a prompt describes.

    Only text is filled in: a JSON object's description is not one itself.
    """
    if not isinstance(form, TextForm):
        return []
    right = SHOTS[0]
    thought, answer = (
        re.subn(
            r"<[^<>]*>",
            reasoning(right.words).removesuffix(".").replace("\\", ""),
            described,
            count=1,
        )[0],
        right.label,
    )
    filled = re.sub(r"<[^<>]*>", answer, thought)
    found = []
    if not _reads(parser, filled, answer):
        found.append(f"The prompt's form {described!r} filled in is not what the parser reads.")
    if not form.holds(filled):
        found.append(
            f"The prompt's form {described!r} is not what decoding under the constraint writes: "
            f"{form.described!r}."
        )
    return found


def example_faults(
    examples: Sequence[Example], words: int, form: Form, parser: Parser
) -> list[str]:
    """What is wrong with the examples of a prompt.

    words: of a question.
    """
    found = []
    for example in examples:
        name = f"The prompt's example ({' '.join(example.words)})"
        if len(example.words) != words:
            found.append(f"{name} has {len(example.words)} words, the questions have {words}.")
        if not _reads(parser, example.answer, example.letters):
            found.append(f"{name} answers {example.letters!r}, which the parser does not read.")
        if not form.holds(example.answer):
            found.append(f"{name} is not what decoding under the constraint can write.")
    return found


def length_faults(questions: Sequence[Question]) -> list[str]:
    """What is wrong with the questions: words that make more or fewer letters than are read."""
    others = [question for question in questions if len(question.words) != LETTERS]
    if not others:
        return []
    named = ", ".join(question.id for question in others[:MOST_NAMED])
    more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    return [
        f"{len(others)} of {len(questions)} questions do not have {LETTERS} words, and the parser "
        f"reads {LETTERS} letters: {named}{more}."
    ]


def _reads(parser: Parser, text: str, letters: str) -> bool:
    try:
        return parser.read(text).letters == letters
    except Unparseable:
        return False
