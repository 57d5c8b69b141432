"""COLLIE's recorded generations, ``logs/*.json``, as the rows that a replay reads.

The official logs are columns, all as long as ``prompts``. One answer per prompt is ``texts``;
several rounds are ``1st_round_text``, ``1st_round_feedback``, ``2nd_round_text``, … and the
last round has no feedback. A row is a prompt with its rounds.

>>> next(rows(Path("vicuna-7b-1trial-no1-prompt.json")))  # doctest: +SKIP
{'prompt': 'Please …', 'rounds': [{'text': 'In the …', 'feedback': None}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import DataInvalid, DataMissing

ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th")


def write_generations(log: Path) -> Iterator[bytes]:
    """The lines of ``collie/generations/MODEL.jsonl``."""
    for row in rows(log):
        yield json.dumps(row, ensure_ascii=False).encode() + b"\n"


def rows(log: Path) -> Iterator[dict[str, Any]]:
    """The prompts with their rounds, in the order of the log.

    Raises: DataInvalid, naming what is missing, unknown or of another length;
        DataMissing where the file cannot be read.
    """
    columns = _columns(log)
    prompts = columns.pop("prompts", [])
    if not prompts:
        raise DataInvalid(f"{log}: there are no 'prompts'.")
    if len(set(prompts)) < len(prompts):
        raise DataInvalid(f"{log}: a prompt comes twice; logs of several trials are not read.")
    for name, column in columns.items():
        if len(column) != len(prompts):
            raise DataInvalid(f"{log}: {len(column)} {name!r} for {len(prompts)} prompts.")
    rounds = list(_rounds(columns))
    if columns or not rounds:
        known = "'texts', or '1st_round_text', '1st_round_feedback' and so on"
        raise DataInvalid(f"{log}: besides 'prompts' there must be {known}.")
    for prompt, *pairs in zip(prompts, *rounds, strict=False):
        yield {
            "prompt": prompt,
            "rounds": [{"text": text, "feedback": feedback} for text, feedback in pairs],
        }


def _columns(log: Path) -> dict[str, list[str]]:
    try:
        return msgspec.json.decode(log.read_bytes(), type=dict[str, list[str]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DataInvalid(f"{log}: no log of generations ({error}).") from None
    except OSError as error:
        raise DataMissing(
            f"Cannot read {log}: {error.strerror}.", "Check the path and its permissions."
        ) from None


def _rounds(columns: dict[str, list[str]]) -> Iterator[Iterator[tuple[str, str | None]]]:
    """The rounds' texts with their feedback; takes from the columns what it has used."""
    if "texts" in columns:
        yield zip(columns.pop("texts"), repeat(None), strict=False)
        return
    for ordinal in ORDINALS:
        texts = columns.pop(f"{ordinal}_round_text", None)
        if texts is None:
            return
        yield zip(texts, _feedback(columns, ordinal), strict=False)


def _feedback(columns: dict[str, list[str]], ordinal: str) -> Iterator[str | None]:
    said = columns.pop(f"{ordinal}_round_feedback", None)
    return repeat(None) if said is None else iter(said)
