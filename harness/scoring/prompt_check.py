"""Checks whether a prompt asks for the structure that its parser reads.

In "Let Me Speak Freely?" (arXiv 2408.02442) the prompt's example had two letters where the wanted
answers had four; "Say What You Mean" by .txt found that this, not the structure, caused the lower
scores. So the parser is run over the prompt's own text before a run is paid for.

>>> from harness.scoring.extraction import extraction
>>> faults(["Q: … The answer is nk."], [], extraction({"regex": "answer is (\\\\w{4})"}, "x"))
["The prompt says 'answer is nk.' where its parser would read no answer."]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from harness.errors import Unparseable
from harness.ports import PromptChecked
from harness.scoring import cut
from harness.scoring.extraction import Extraction, RegexExtraction
from harness.scoring.patterns import PatternTooSlow, around_group

PLACEHOLDER = re.compile(r"""[\s"'`*(]*(?:[<\[{(…_]|\.\.\.|(?:[A-Z]{3,}|[XYN])\b)""")
"""What stands for an answer: ``<answer>``, ``[X]``, ``…``, ``ANSWER``."""
NEAR = 60
"""Characters after the expected text that are examined and shown."""


def check_prompt(task: Any) -> list[str]:
    """List where a task's prompts do not ask for the structure that its parser expects.

    Empty if nothing is missing, or if the task cannot tell. Raises like reading the task's data.
    """
    return task.prompt_errors() if isinstance(task, PromptChecked) else []


def faults(messages: Sequence[str], answers: Sequence[str], parser: Extraction) -> list[str]:
    """List what is wrong with one prompt, given its messages and worked examples' answers."""
    found = []
    for answer in answers:
        if not reads(parser, answer):
            found.append(f"The parser reads no answer in the prompt's example {answer!r:.80}.")
    expected = parser.expects
    contexts = [
        text[match.start() : match.end() + NEAR]
        for text in (*messages, *answers)
        for prefix in expected
        for match in re.finditer(re.escape(prefix), text, re.IGNORECASE)
    ]
    if expected and not contexts:
        wanted = " or ".join(repr(prefix) for prefix in expected)
        found.append(f"The prompt does not ask for what its parser looks for: {wanted}.")
    for context in contexts if isinstance(parser, RegexExtraction) else ():
        line = context.split("\n")[0]
        if not reads(parser, line) and not _stands_for_an_answer(line, expected):
            found.append(
                f"The prompt says {cut(line, 40)!r} where its parser would read no answer."
            )
    return list(dict.fromkeys(found))


def garbled(parser: Extraction, answer: str) -> str | None:
    """Return what the parser would misread a right answer as, or None if it reads it correctly."""
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
    """Return whether a parser finds any answer in a text."""
    try:
        return bool(parser.read(text))
    except (Unparseable, PatternTooSlow):
        return False


def _stands_for_an_answer(line: str, expected: Sequence[str]) -> bool:
    """Return whether a line leaves the answer to the model: a placeholder follows, or nothing."""
    rest = min(
        (line[len(prefix) :] for prefix in expected if line.lower().startswith(prefix.lower())),
        key=len,
        default=line,
    ).strip()
    return not rest.strip(""":"'`*.""") or PLACEHOLDER.match(rest) is not None
