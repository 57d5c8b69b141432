"""Presets of the task ``jsonl`` for the rows of published data sets with short answers.

These are GSM8K (Cobbe et al. 2021, arXiv 2110.14168) and BIG-bench Hard (Suzgun et al. 2022, arXiv
2210.09261).
"""

import re
from pathlib import Path

import yaml

from harness.datasets.rows import Row
from harness.errors import DataInvalid
from harness.plugins.short_answers.numbers import only_number
from harness.tasks.items import RowPreset


def _gsm8k(row: Row) -> Row:
    answer = row.get("answer", row.get("target"))
    conclusion = re.search(r"####\s*(.+?)\s*$", answer) if isinstance(answer, str) else None
    target = only_number(conclusion[1]) if conclusion else None
    if target is None:
        raise DataInvalid("'answer' must end in '#### ' and a number.")
    return {**row, "target": format(target, "f")}


def _shuffled_objects(row: Row) -> Row:
    target = row.get("target", row.get("answer"))
    letter = re.fullmatch(r"\(?([A-Za-z])\)?", target.strip()) if isinstance(target, str) else None
    if letter is None:
        raise DataInvalid("'target' must be a letter in brackets, like '(B)'.")
    return {**row, "target": f"({letter[1].upper()})"}


_OPTIONS = yaml.safe_load(Path(__file__).with_name("presets.yaml").read_text("utf-8"))

GSM8K = RowPreset(_OPTIONS["gsm8k"], _gsm8k)
GSM8K_JSON = RowPreset(_OPTIONS["gsm8k_json"], _gsm8k)
SHUFFLED_OBJECTS = RowPreset(_OPTIONS["shuffled_objects"], _shuffled_objects)
SHUFFLED_OBJECTS_JSON = RowPreset(_OPTIONS["shuffled_objects_json"], _shuffled_objects)
