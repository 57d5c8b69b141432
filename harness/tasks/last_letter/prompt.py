"""The prompt: what is to be done, the form of the answer, shots, the question.

``matching``: the form is told by the structure that parses, and the shots are of the question's
kind: four names. ``paper``: the recorded prompt, byte for byte, whose form and shot are neither.
Prompts that differ in their form say all else alike: what they say is hashed apart from it
(`content`), so that arms that differ in more are known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from harness.tasks.last_letter.questions import Question, of_words, reasoning
from harness.tasks.last_letter.structure import Form

TASK = """Follow the instruction to complete the task:
String manipulation task:
• Given: A sequence of words
• Required: A new string made from the last letter of each word
• Process: Think step by step to solve this challenge
Note: Ensure you've read the question thoroughly before beginning.


Instruct : Provide your output in the following text format:
"""
"""Of "Let Me Speak Freely?" (arXiv 2408.02442), as dottxt-ai/demos has recorded it."""
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
"""The task's own: as many names as a question has."""


class Example(NamedTuple):
    """A worked example as the prompt shows it.

    words: of its question.
    letters: its answer.
    """

    question: str
    answer: str
    words: tuple[str, ...]
    letters: str


PAPER_EXAMPLE = Example(PAPER_SHOT_QUESTION, PAPER_SHOT_ANSWER, ("Elon", "Musk"), "nk")


def written(question: Question, form: Form) -> Example:
    """A question with its answer in a form."""
    answer = form.write(reasoning(question.words), question.label)
    return Example(question.text, answer, question.words, question.label)


def own_shots(n: int, question: Question) -> tuple[Question, ...]:
    """The task's own shots for a question: none whose answer is right for it too."""
    return tuple(shot for shot in SHOTS if shot.label != question.label)[:n]


def render(described: str, examples: Sequence[Example], question: str) -> str:
    """The prompt."""
    shown = "".join(f"Question: {one.question}\n{one.answer}\n" for one in examples)
    before = EXAMPLES if examples else "\n\n\n"
    return f"{TASK}{described}{before}{shown}Question: {question}"


def content(examples: Sequence[Question]) -> str:
    """A hash of what prompts say besides their form."""
    said = [TASK, *(f"{shot.text}={shot.label}" for shot in examples)]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()
