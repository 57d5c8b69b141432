"""Forms of a whole answer, and that nothing is let through that only looks like one."""

from __future__ import annotations

import pytest

from harness.scoring.rules import recognise

JSON, OBJECT = "Respond in JSON.", "Return a JSON object."
NUMBERED, BULLETS = "Use a numbered list.", "Use bullet points."
TABLE = "Use a Markdown table."
START, FIRST = 'Start with "Dear Sir".', 'Begin with the word "Once".'
END, LAST = 'End with "The end!"', 'End with the word "amen".'
QUOTES = "Put your response in quotation marks."


@pytest.mark.parametrize(
    ("constraint", "text", "passed"),
    [
        (JSON, ' {"a": [1, 2.5e3, null]} ', True),
        (JSON, '```json\n{"a": 1}\n```', True),
        (JSON, '```\n[1]\n```', True),
        (JSON, 'Here it is: {"a": 1}', False),
        (JSON, '```json\n{"a": 1}\n```\nThere.', False),
        (JSON, "{'a': 1}", False),
        (JSON, "[NaN]", False),
        (JSON, "9" * 5_000, True),
        (JSON, "", False),
        (OBJECT, "{}", True),
        (OBJECT, "[]", False),
        ("Return a JSON array.", "[]", True),
        (NUMBERED, "Steps:\n1. a\n2) b", True),
        (NUMBERED, "**1.** a\n**2.** b", True),
        (NUMBERED, "1. a", False),
        (NUMBERED, "1.5 litres\n2.5 litres", False),
        (BULLETS, "- a\n- b", True),
        (BULLETS, "- a", False),
        (TABLE, "| a | b |\n|---|:-:|\n| 1 | 2 |", True),
        (TABLE, "a | b\n--- | ---\n1 | 2", True),
        (TABLE, "a | b\n1 | 2", False),
        (TABLE, "| a | b |\n|---|\n", False),
        (TABLE, "a\n---\nb", False),
        ("Write in all caps.", "HELLO, 5!", True),
        ("Write in all caps.", "HELLo", False),
        ("Write in all caps.", "5", False),
        ("Write in lowercase.", "hello 5", True),
        ("Write in lowercase.", "Hello", False),
        (START, "\nDear  Sir, hello", True),
        (START, "dear sir", True),
        (START, "Dear Sirius", False),
        (START, "Oh, Dear Sir", False),
        (FIRST, "Once upon", True),
        (FIRST, "Onceupon", False),
        (END, "It is the end!\n", True),
        (END, "The end! Or not.", False),
        (LAST, "So be it. Amen." + "!" * 999, True),
        (LAST, "layamen", False),
        (LAST, "Amen, he said", False),
        ("Do not use commas.", "None; at all", True),
        ("Do not use commas.", "One, two", False),
        ("Do not use commas.", "一\uff0c二", False),
        (QUOTES, '"Yes."', True),
        (QUOTES, "\u201cYes.\u201d", True),
        (QUOTES, '"Yes." he said', False),
        (QUOTES, '""', False),
    ],
)  # fmt: skip
def test_forms(constraint: str, text: str, passed: bool) -> None:
    rule = recognise(constraint)
    assert rule is not None
    assert (not rule.check(text)) is passed
