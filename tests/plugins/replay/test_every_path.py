"""An answer from a recording gets the verdict that it gets from a function or a provider."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.engine.test_every_path import CASES, passed, run_files, verdicts


def recording(cases: Sequence[Any], folder: Path) -> dict[str, str]:
    """The section of a model that replays the answers of cases."""
    path = folder / "answers.jsonl"
    rows = [
        {"instance": str(number), "rounds": [{"text": case["answer"]}]}
        for number, case in enumerate(cases)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return {"backend": "replay", "path": str(path), "match": "instance"}


def test_a_recording(tmp_path: Path) -> None:
    model = recording(CASES, tmp_path)
    expected = {str(number): case["pass"] for number, case in enumerate(CASES)}
    assert passed(verdicts(run_files(CASES, tmp_path), model, "replayed")) == expected
