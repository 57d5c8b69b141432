"""Whether a prompt asks for the structure that its parser reads.

In "Let Me Speak Freely?" (arXiv 2408.02442) the prompt's example had two letters and the answers
that were wanted had four, which were read by another model: "Say What You Mean" by .txt found that
what looked like a weakness of structure was this. So, before a run is paid for, the parser is run
over what the prompt itself shows.

>>> from harness.scoring.parsers.extraction import extraction
>>> faults(Shown(["Q: … The answer is nk."]), extraction({"regex": "answer is (\\\\w{4})"}, "x"))
["The prompt says 'answer is nk.' where its parser would read no answer."]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import Unparseable
from harness.ports import PromptChecked
from harness.scoring.parsers.extraction import Extraction, RegexExtraction
from harness.scoring.parsers.literal import around_group
from harness.scoring.parsers.pattern import PatternTooSlow

PLACEHOLDER = re.compile(r"""[\s"'`*(]*(?:[<\[{(…_]|\.\.\.|(?:[A-Z]{3,}|[XYN])\b)""")
"""Where an answer would be, something that stands for one: ``<answer>``, ``[X]``, ``…``, ``ANSWER``."""  # noqa: E501
NEAR = 60
"""Characters of what follows that are looked at and shown."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a model sees before it answers.

    texts: of the user's and system's turns.
    answers: of worked examples in turns of their own.
    """

    texts: Sequence[str]
    answers: Sequence[str] = ()


def check_prompt(task: Any) -> list[str]:
    """What a task's prompts lack of the structure that its parser expects; empty where all is well.

    A task that can tell has a method ``prompt_errors``; of any other nothing is said.

    Raises: as reading the task's data does.
    """
    return task.prompt_errors() if isinstance(task, PromptChecked) else []


def faults(shown: Shown, parser: Extraction) -> list[str]:
    """What is wrong with one prompt."""
    found = []
    for answer in shown.answers:
        if not reads(parser, answer):
            found.append(f"The parser reads no answer in the prompt's example {answer!r:.80}.")
    expected = parser.expects
    texts = [*shown.texts, *shown.answers]
    places = [
        text[match.start() : match.end() + NEAR]
        for text in texts
        for prefix in expected
        for match in re.finditer(re.escape(prefix), text, re.IGNORECASE)
    ]
    if expected and not places:
        wanted = " or ".join(repr(prefix) for prefix in expected)
        found.append(f"The prompt does not ask for what its parser looks for: {wanted}.")
    for place in places if isinstance(parser, RegexExtraction) else ():
        line = place.split("\n")[0]
        if not reads(parser, line) and not _stands_for_an_answer(line, expected):
            said = line if len(line) <= 40 else f"{line[:39]}…"
            found.append(f"The prompt says {said!r} where its parser would read no answer.")
    return list(dict.fromkeys(found))


def garbled(parser: Extraction, answer: str) -> str | None:
    """What the parser makes of a right answer in its own form, None where it reads it as it is.

    >>> from harness.scoring.parsers.extraction import extraction
    >>> garbled(extraction({"regex": "answer is (.{3})"}, "x"), "New York")
    'New'
    """
    if not isinstance(parser, RegexExtraction):
        return None
    around = around_group(parser.patterns[0].pattern)
    if around is None:
        return None
    try:
        found = parser.read(f"{around.before}{answer}{around.after}")
    except Unparseable:
        return ""
    except PatternTooSlow:
        return None
    return found if found != answer.strip() else None


def reads(parser: Extraction, text: str) -> bool:
    """Whether a parser finds any answer in a text."""
    try:
        return bool(parser.read(text))
    except (Unparseable, PatternTooSlow):
        return False


def _stands_for_an_answer(line: str, expected: Sequence[str]) -> bool:
    """Whether an answer's place holds a placeholder, or the instruction goes on in words.

    "Write: the answer is followed by …" is no example; what ends right after the
    words is one, but with the answer left to the model.
    """
    rest = min(
        (line[len(prefix) :] for prefix in expected if line.lower().startswith(prefix.lower())),
        key=len,
        default=line,
    ).strip()
    return not rest.strip(""":"'`*.""") or PLACEHOLDER.match(rest) is not None
