"""COLLIE's originals as their repository has them, from the reference data."""

from __future__ import annotations

import json
from pathlib import Path

from harness.datasets.folder import read_jsonl


def log(rows: list[dict[str, object]]) -> bytes:
    """A log in the official form: what `collie_logs` takes apart, put together again."""
    rounds = [row["rounds"] for row in rows]
    columns = {"prompts": [row["prompt"] for row in rows]}
    ordinals = ["1st", "2nd", "3rd", "4th"][: len(rounds[0])]
    for number, ordinal in enumerate(ordinals):
        columns[f"{ordinal}_round_text"] = [each[number]["text"] for each in rounds]
        if number < len(ordinals) - 1:
            columns[f"{ordinal}_round_feedback"] = [each[number]["feedback"] for each in rounds]
    if len(ordinals) == 1:
        columns["texts"] = columns.pop("1st_round_text")
    return json.dumps(columns, indent=2).encode()


def collie(data_dir: Path) -> dict[str, bytes]:
    """Name of the original -> its bytes."""
    folder = data_dir / "collie"
    recorded = {
        model: list(read_jsonl(folder / "generations" / f"{model}.jsonl"))
        for model in ("gpt-4", "vicuna-7b")
    }
    return {
        "all_data.dill": (folder / "all_data.dill").read_bytes(),
        "gpt-4-multi-round-generation-1trial.json": log(recorded["gpt-4"]),
        "vicuna-7b-1trial-no1-prompt.json": log(recorded["vicuna-7b"]),
    }
