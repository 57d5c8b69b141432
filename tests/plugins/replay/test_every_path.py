"""An answer from a recording gets the verdict that it gets from a function or a provider."""

import json
from pathlib import Path

from tests.engine.test_every_path import CASES, passed, run_files, verdicts


def test_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    rows = [
        {"instance": str(number), "rounds": [{"text": case["answer"]}]}
        for number, case in enumerate(CASES)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    model = {"backend": "replay", "path": str(path), "match": "instance"}
    expected = {str(number): case["pass"] for number, case in enumerate(CASES)}
    assert passed(verdicts(run_files(CASES, tmp_path), model, "replayed")) == expected
