"""Checks that a prompt asks for an answer in the form that the parser of its answers reads.

In "Let Me Speak Freely?" (arXiv 2408.02442), the prompt's example had two letters while the
expected answers had four. "Say What You Mean" by .txt found that this mismatch, not structured
output, lowered the scores. The parser is therefore run on the prompt before any paid call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.errors import Unparseable
from harness.scoring.extraction import Extraction, RegexExtraction
from harness.scoring.patterns import PatternTooSlow
from harness.wording import truncated

PLACEHOLDER = re.compile(r"""[\s"'`*(]*(?:[<\[{(…_]|\.\.\.|(?:[A-Z]{3,}|[XYN])\b)""")
"""Matches a placeholder for an answer: ``<answer>``, ``[X]``, ``…``, ``ANSWER``."""
NEAR = 60  # number of characters after an expected text that are examined and shown


def faults(messages: Sequence[str], answers: Sequence[str], parser: Extraction) -> list[str]:
    """Return a sentence on each mismatch between a prompt and the parser of its answers.

    ``answers`` are those in the prompt's worked examples.
    """
    unread = [answer for answer in answers if not reads(parser, answer)]
    found = [f"The parser reads no answer in the prompt's example {one!r:.80}." for one in unread]
    expected = parser.expects
    contexts = [
        text[match.start() : match.end() + NEAR]
        for text in (*messages, *answers)
        for prefix in expected
        for match in re.finditer(re.escape(prefix), text, re.IGNORECASE)
    ]
    if expected and not contexts:
        wanted = " or ".join(map(repr, expected))
        found.append(f"The prompt does not ask for what its parser looks for: {wanted}.")
    for line in (context.split("\n")[0] for context in contexts):
        said = f"The prompt says {truncated(line, 40)!r} where its parser would read no answer."
        by_pattern = isinstance(parser, RegexExtraction)
        if by_pattern and not reads(parser, line) and not _stands_for_an_answer(line, expected):
            found.append(said)
    return list(dict.fromkeys(found))


def garbled(parser: Extraction, answer: str) -> str | None:
    """Return what a parser reads in a reply of the right format, if that is not the answer.

    The result is "" if the parser reads nothing. It is None if the parser reads the answer, is too
    slow, or has no such format.
    """
    text = parser.filled(answer) if isinstance(parser, RegexExtraction) else None
    try:
        found = None if text is None else parser.read(text)
    except Unparseable:
        return ""
    except PatternTooSlow:
        return None
    return found if found != answer.strip() else None


def reads(parser: Extraction, text: str) -> bool:
    """Return whether the parser finds a non-empty answer in the text."""
    try:
        return bool(parser.read(text))
    except (Unparseable, PatternTooSlow):
        return False


def _stands_for_an_answer(line: str, expected: Sequence[str]) -> bool:
    after = [line[len(prefix) :] for prefix in expected if line.lower().startswith(prefix.lower())]
    rest = min(after, key=len, default=line).strip()
    return not rest.strip(""":"'`*.""") or PLACEHOLDER.match(rest) is not None
