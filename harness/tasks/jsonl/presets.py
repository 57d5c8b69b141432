"""``preset:`` well-known row formats, with prompt, extraction and checks that fit together.

GSM8K: Cobbe et al. 2021, arXiv 2110.14168. BIG-bench Hard: Suzgun et al. 2022, arXiv 2210.09261.
The prompt asks for the structure that is parsed: "the answer is".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import DataInvalid
from harness.scoring.patterns import numbers
from harness.tasks._rows import Row


@dataclass(frozen=True, slots=True)
class ParserPreset:
    """Defaults for a run file; ``adapt`` adds the ``target`` to a row."""

    prompt: str
    extract: Mapping[str, Any]
    checks: tuple[Any, ...]
    gold: str
    adapt: Callable[[Row], Row]


def _gsm8k(row: Row) -> Row:
    answer = row.get("answer", row.get("target"))
    said = re.search(r"####\s*(.+?)\s*$", answer) if isinstance(answer, str) else None
    found = numbers(said[1]) if said else []
    if len(found) != 1:
        raise DataInvalid("'answer' must end in '#### ' and a number.")
    return {**row, "target": format(found[0], "f")}


def _shuffled_objects(row: Row) -> Row:
    target = row.get("target", row.get("answer"))
    letter = re.fullmatch(r"\(?([A-Za-z])\)?", target.strip()) if isinstance(target, str) else None
    if letter is None:
        raise DataInvalid("'target' must be a letter in brackets, like '(B)'.")
    return {**row, "target": f"({letter[1].upper()})"}


PRESETS: Mapping[str, ParserPreset] = {
    "gsm8k": ParserPreset(
        prompt="{{ question }}\n\nThink step by step. Then end with one line of this form:\n"
        "The answer is <number>",
        extract={
            "regex": r"answer is:? *\**([-+]?\$?[-+]?[0-9][0-9,]*(?:\.[0-9]+)?)",
            "take": "last",
            "ignore_case": True,
        },
        checks=("numeric_match",),
        gold="The answer is {{ target }}",
        adapt=_gsm8k,
    ),
    "shuffled_objects": ParserPreset(
        prompt="{{ input }}\n\nThink step by step. Then end with one line of this form:\n"
        "The answer is (<letter>)",
        extract={"regex": r"answer is:? *\**(\([A-Z]\))", "take": "last", "ignore_case": True},
        checks=({"exact_match": {"ignore_case": True}},),
        gold="The answer is {{ target }}",
        adapt=_shuffled_objects,
    ),
}
